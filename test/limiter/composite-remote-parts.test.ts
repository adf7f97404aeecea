import { describe, expect, it } from "vitest";
import { CompositeLimiter, ConcurrencyLimiter, NullLimiter, RateLimiter } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, rate, refused, remote, settled, SixMethodLimiter } from "./support.ts";

describe("CompositeLimiter with remote parts", () => {
  it("a CompositeLimiter with remote parts charges in order, all or none, and undoes its charges when a later part refuses", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const composite = new CompositeLimiter([rate(clock, 5, "a", storage), rate(clock, 1, "b", storage)]);
    granted(await composite.tryAcquire());
    expect(refused(await composite.tryAcquire())).toEqual({
      granted: false,
      blockedBy: "b",
      retryInMs: 1_000,
      never: false,
    });
    expect(storage.calls).toEqual(["a took", "b took", "a took", "b refused", "a cancelled"]);
    expect(await storage.getExecutionCount("a", new Date(0).toISOString())).toBe(1);
  });

  it("a CompositeLimiter with remote parts records a six-method limiter last, when nothing can refuse any more", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const own = new SixMethodLimiter(5);
    const concurrency = new ConcurrencyLimiter(1, { clock });
    const composite = new CompositeLimiter([own, rate(clock, 1, "r", storage), concurrency]);
    const permit = granted(await composite.tryAcquire());
    expect(own.diary).toEqual(["canProceed", "recordJobStart"]);
    await permit.release();
    expect(own.running).toBe(0);
    refused(await composite.tryAcquire());
    expect(own.started).toBe(1);
    expect(concurrency.running).toBe(0);
  });

  it("a CompositeLimiter with remote parts undoes all charges when one of them throws", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const first = new SixMethodLimiter(5);
    const broken = new SixMethodLimiter(5);
    broken.recordJobStart = () => Promise.reject(new Error("broken"));
    const concurrency = new ConcurrencyLimiter(1, { clock });
    const composite = new CompositeLimiter([concurrency, first, rate(clock, 1, "r", storage), broken]);
    await expect(composite.tryAcquire()).rejects.toThrow("broken");
    await expect(composite.acquire()).rejects.toThrow("broken");
    expect(concurrency.running).toBe(0);
    expect(first.running).toBe(0);
    expect(await storage.getExecutionCount("r", new Date(0).toISOString())).toBe(0);
    expect(composite.waiting).toBe(0);
  });

  it("a CompositeLimiter with remote parts serves waiters in order and sleeps until the promised instant", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const composite = new CompositeLimiter([new ConcurrencyLimiter(9, { clock }), rate(clock, 2, "r", storage)]);
    const starts: [number, number][] = [];
    for (let i = 0; i < 5; i++) void composite.acquire().then(() => starts.push([i, clock.now()]));
    await clock.advance(10_000);
    expect(starts).toEqual([
      [0, 0],
      [1, 0],
      [2, 1_000],
      [3, 1_000],
      [4, 2_000],
    ]);
    // Two grants and one refusal per window: blocked, it asks once and then sleeps.
    expect(storage.calls.filter((call) => call === "r refused")).toHaveLength(2);
    expect(clock.timers).toBe(0);
  });

  it("a CompositeLimiter with remote parts wakes when a part that refused has a release, and leaves no trace of an aborted waiter", async () => {
    const clock = new FakeClock();
    const own = new SixMethodLimiter(1);
    const composite = new CompositeLimiter([own, new NullLimiter()]);
    const first = await composite.acquire();
    const controller = new AbortController();
    const aborted = composite.acquire({ signal: controller.signal });
    const second = composite.acquire();
    expect(await settled(aborted)).toBe(false);
    controller.abort("enough");
    await expect(aborted).rejects.toBe("enough");
    await first.release();
    await (await second).release();
    expect(own.running).toBe(0);
    expect(own.started).toBe(2);
    expect(clock.timers).toBe(0);
  });

  it("a composite asks a six-method limiter again soon when its date is now, and ever less often after", async () => {
    const clock = new FakeClock();
    const own = new SixMethodLimiter(1);
    let opensAt = 21;
    const asked: number[] = [];
    own.canProceed = async () => {
      asked.push(clock.now());
      return clock.now() >= opensAt;
    };
    own.getNextAvailableTime = async () => new Date(clock.wall() + Math.floor(Math.max(0, opensAt - clock.now() - 1)));
    const composite = new CompositeLimiter([own, new ConcurrencyLimiter(9, { clock })]);
    await clock.advance(0.5);
    const first = composite.acquire();
    await clock.advance(50);
    await first;
    expect(asked.at(-1)).toBeLessThan(opensAt + 2);
    asked.length = 0;
    opensAt = Number.POSITIVE_INFINITY;
    own.getNextAvailableTime = async () => new Date(clock.wall());
    const controller = new AbortController();
    const aborted = composite.acquire({ signal: controller.signal });
    await clock.advance(1_000);
    expect(asked.length).toBeLessThan(20);
    controller.abort("enough");
    await expect(aborted).rejects.toBe("enough");
  });

  it("a CompositeLimiter with remote parts cancels a grant that arrives for a waiter that was aborted", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const limiter = rate(clock, 1, "r", storage);
    const controller = new AbortController();
    const aborted = limiter.acquire({ signal: controller.signal });
    const next = limiter.acquire();
    while (storage.calls.length === 0) await undefined; // taken, but the answer is still under way
    controller.abort("enough");
    await expect(aborted).rejects.toBe("enough");
    await next;
    expect(storage.calls).toEqual(["r took", "r cancelled", "r took"]);
  });

  it("a CompositeLimiter with remote parts changes from gates alone while callers wait, when a six-method limiter is added", async () => {
    const clock = new FakeClock();
    const concurrency = new ConcurrencyLimiter(1, { clock });
    const composite = new CompositeLimiter([concurrency]);
    const permit = await composite.acquire();
    const waiting = composite.acquire();
    const own = new SixMethodLimiter(1);
    composite.addLimiter(own);
    await permit.release();
    const second = await waiting;
    expect(own.running).toBe(1);
    await second.release();
    expect(own.running).toBe(0);
  });

  it("a CompositeLimiter with remote parts returns a grant that was not used in time, and requests another", async () => {
    const clock = new FakeClock();
    const storage = remote(clock);
    const slow = storage.tryRecordExecution!.bind(storage);
    let paused = true;
    storage.tryRecordExecution = async (name, window) => {
      const answer = await slow(name, window);
      if (paused) await clock.advance(2_001);
      paused = false;
      return answer;
    };
    const limiter = new RateLimiter(storage, "r", { maxExecutions: 5, windowSizeInSeconds: 60, clock });
    granted(await limiter.tryAcquire());
    expect(storage.calls).toEqual(["r took", "r cancelled", "r took"]);
    expect(await storage.getExecutionCount("r", new Date(0).toISOString())).toBe(1);
  });
});
