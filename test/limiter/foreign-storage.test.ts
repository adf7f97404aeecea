import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  type IRateLimiterStorage,
  limit,
  OptionsError,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, SevenMethodStorage, worstWindow } from "./support.ts";

const options = { maxExecutions: 3, windowSizeInSeconds: 1, random: () => 0.5 };

describe("RateLimiter over a storage with the seven methods", () => {
  it("a RateLimiter over a storage with the seven methods is exact, also for many callers at once in this process, and wakes at the exact instant", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.infiniteStream(fc.nat(6)),
        fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 25 }),
        async (turns, gaps) => {
          const clock = new FakeClock();
          const storage = new SevenMethodStorage(clock, () => turns.next().value);
          // Two limiters of one name, a composite, and a wrapper: all count the same starts.
          const limiters = [
            new RateLimiter(storage, "api", { ...options, clock }),
            new CompositeLimiter([
              new ConcurrencyLimiter(100, { clock }),
              new RateLimiter(storage, "api", { ...options, clock }),
            ]),
          ];
          const starts: number[] = [];
          for (const [i, gap] of gaps.entries()) {
            await clock.advance(gap);
            void limit(() => starts.push(clock.now()), limiters[i % 2]!)();
          }
          await clock.advance(60_000);
          expect(starts).toHaveLength(gaps.length);
          expect(worstWindow(starts, 1_000)).toBeLessThanOrEqual(3);
          expect(clock.timers).toBe(0);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("a RateLimiter over a storage with the seven methods promises the exact instant although the storage keeps everything for ever", async () => {
    const clock = new FakeClock();
    const storage = new SevenMethodStorage(clock);
    const limiter = new RateLimiter(storage, "api", { ...options, clock });
    for (let i = 0; i < 20; i++) {
      await clock.advance(5_000);
      granted(await limiter.tryAcquire());
    }
    await clock.advance(100);
    granted(await limiter.tryAcquire());
    await clock.advance(100);
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire())).toMatchObject({ blockedBy: "api", retryInMs: 801 }); // whole milliseconds: one more
    await clock.advance(801);
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(100);
  });

  it("a RateLimiter over a storage with the seven methods keeps a later instant set from outside although the storage would overwrite it", async () => {
    const clock = new FakeClock();
    const limiter = new RateLimiter(new SevenMethodStorage(clock), "api", { ...options, clock });
    await limiter.setNextAvailableTime(new Date(clock.wall() + 5_000));
    await limiter.setNextAvailableTime(new Date(clock.wall() + 1_000));
    expect(await limiter.canProceed()).toBe(false);
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(5_000);
    await clock.advance(5_000);
    expect(await limiter.canProceed()).toBe(true);
  });

  it("a RateLimiter over a storage with the seven methods has the six methods with back-off as over any storage", async () => {
    const clock = new FakeClock();
    const limiter = new RateLimiter(new SevenMethodStorage(clock), "api", { ...options, clock });
    for (let i = 0; i < 3; i++) {
      expect(await limiter.canProceed()).toBe(true);
      await limiter.recordJobStart();
      await limiter.recordJobCompletion();
    }
    expect(await limiter.canProceed()).toBe(false);
    expect((await limiter.getNextAvailableTime()).getTime() - clock.wall()).toBe(1_500);
    await limiter.clear();
    expect(await limiter.canProceed()).toBe(true);
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(clock.wall());
  });

  it("a RateLimiter over a storage with the seven methods refuses weights that it cannot count", async () => {
    const clock = new FakeClock();
    const limiter = new RateLimiter(new SevenMethodStorage(clock), "api", { ...options, clock });
    await expect(limiter.acquire({ weight: 2 })).rejects.toThrow(/no tryRecordExecution/);
    const starts = new RateLimiter(new SevenMethodStorage(clock), "api", { ...options, clock, count: "starts" });
    await starts.acquire({ weight: 2 });
  });

  it("a RateLimiter over a storage with the seven methods fails only the first waiter when the storage fails, and continues with the next", async () => {
    const clock = new FakeClock();
    const storage = new SevenMethodStorage(clock);
    const limiter = new RateLimiter(storage, "api", { ...options, clock });
    const count = storage.getExecutionCount.bind(storage);
    storage.getExecutionCount = () => Promise.reject(new Error("gone away"));
    const first = limiter.acquire();
    await expect(first).rejects.toThrow("gone away");
    storage.getExecutionCount = count;
    await limiter.acquire();
  });

  it("a RateLimiter over a storage with the seven methods refuses a value that is not a storage, or has only some of the three atomic methods", () => {
    const clock = new FakeClock();
    const half = Object.assign(new SevenMethodStorage(clock), {
      tryRecordExecution: async () => ({ granted: true, retryInMs: 0 }),
    });
    expect(() => new RateLimiter(half, "api", options)).toThrow(/cancelExecution/);
    expect(() => new RateLimiter({} as IRateLimiterStorage, "api", options)).toThrow(OptionsError);
    expect(() => new RateLimiter(null as unknown as IRateLimiterStorage, "api", options)).toThrow(
      /no method setupDatabase/,
    );
  });
});
