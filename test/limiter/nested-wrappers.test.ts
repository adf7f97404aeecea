import { describe, expect, it } from "vitest";
import {
  concurrencyLimit,
  ConcurrencyLimiter,
  InMemoryRateLimiterStorage,
  limit,
  QueueOverflowError,
  rateLimit,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { deferred, SixMethodLimiter } from "./support.ts";

describe("nested wrappers", () => {
  const fast = (starts: number[], ends: number[], clock: FakeClock) => (ms: number) =>
    new Promise<void>((resolve) => {
      starts.push(clock.now());
      clock.after(ms, () => {
        ends.push(clock.now());
        resolve();
      });
    });

  const window = (clock: FakeClock) =>
    new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "w", { maxExecutions: 1, windowSizeInSeconds: 1 });

  it.each(["rate around concurrency", "concurrency around rate"])(
    "nested wrappers keep both limits: %s",
    async (order) => {
      const clock = new FakeClock();
      const starts: number[] = [];
      const fn = fast(starts, [], clock);
      const concurrency = new ConcurrencyLimiter(1, { clock });
      const run =
        order === "rate around concurrency"
          ? limit(limit(fn, concurrency), window(clock))
          : limit(limit(fn, window(clock)), concurrency);
      // The trap: a slow first call, then two quick ones that would start together once it ends.
      const all = [run(2_000), run(10), run(10)];
      await clock.advance(10_000);
      await Promise.all(all);
      expect(starts).toEqual([0, 2_000, 3_000]);
      expect(concurrency.running).toBe(0);
    },
  );

  it.each(["inside", "outside"])("nested wrappers keep the limit of an asynchronous limiter: %s", async (place) => {
    const calls = [1, 2, 3].map(() => ({ started: deferred(), gate: deferred() }));
    let started = 0;
    const fn = () => {
      const { started: now, gate } = calls[started++]!;
      now.resolve();
      return gate.promise;
    };
    const own = new SixMethodLimiter(1);
    const run = place === "inside" ? concurrencyLimit(limit(fn, own), 2) : limit(concurrencyLimit(fn, 2), own);
    const all = [run(), run(), run()];
    for (const [i, call] of calls.entries()) {
      await call.started.promise;
      expect([started, run.running, run.waiting, own.running]).toEqual([i + 1, 1, 2 - i, 1]);
      call.gate.resolve();
    }
    await Promise.all(all);
  });

  it("nested wrappers bring a weight each", async () => {
    const clock = new FakeClock();
    const tokens = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "t", {
      maxExecutions: 100,
      windowSizeInSeconds: 1,
    });
    const concurrency = new ConcurrencyLimiter(2, { clock });
    const gate = deferred();
    const run = limit(
      limit((_n: number) => gate.promise, tokens, { weight: (n) => n }),
      concurrency,
    );
    const all = [run(90), run(10), run(1)];
    expect([run.running, run.waiting, concurrency.running]).toEqual([2, 1, 2]);
    gate.resolve();
    await clock.advance(1_000);
    await Promise.all(all);
  });

  it("nested wrappers keep the tighter maxQueue and both signals", async () => {
    const gate = deferred();
    const inner = new AbortController();
    const outer = new AbortController();
    const run = concurrencyLimit(
      rateLimit(() => gate.promise, 1, 100, { maxQueue: 1, signal: inner.signal }),
      1,
      { maxQueue: 5, signal: outer.signal },
    );
    const running = run();
    const waiting = run();
    await expect(run()).rejects.toThrow(QueueOverflowError);
    inner.abort("inner");
    await expect(waiting).rejects.toBe("inner");
    gate.resolve();
    await running;
  });

  it("nested wrappers three deep keep all limits", async () => {
    const gate = deferred();
    const limiters = [3, 2, 4].map((max) => new ConcurrencyLimiter(max));
    const run = limiters.reduce<() => Promise<void>>(
      (fn, limiter) => limit(fn, limiter),
      () => gate.promise,
    );
    const all = [run(), run(), run(), run(), run()];
    expect(limiters.map((limiter) => limiter.running)).toEqual([2, 2, 2]);
    gate.resolve();
    await Promise.all(all);
    expect(limiters.map((limiter) => limiter.running)).toEqual([0, 0, 0]);
  });
});
