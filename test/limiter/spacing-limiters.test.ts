import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DelayLimiter, EvenlySpacedRateLimiter } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, settled, worstWindow } from "./support.ts";

describe("DelayLimiter", () => {
  it("a DelayLimiter keeps starts 50 ms apart by default, whatever their weight", async () => {
    const clock = new FakeClock();
    const limiter = new DelayLimiter(undefined, { clock });
    expect(limiter.delayInMilliseconds).toBe(50);
    granted(await limiter.tryAcquire({ weight: 1_000 }));
    expect(refused(await limiter.tryAcquire())).toEqual({
      granted: false,
      blockedBy: "DelayLimiter",
      retryInMs: 50,
      never: false,
    });
    await clock.advance(50);
    granted(await limiter.tryAcquire());
  });

  it("a DelayLimiter serves waiters one by one, each a delay after the one before", async () => {
    const clock = new FakeClock();
    const limiter = new DelayLimiter(200, { clock });
    const starts: number[] = [];
    for (let i = 0; i < 4; i++) void limiter.acquire().then(() => starts.push(clock.now()));
    await clock.advance(1_000);
    expect(starts).toEqual([0, 200, 400, 600]);
    expect(clock.timers).toBe(0);
  });

  it("a DelayLimiter forgets a cancelled start", async () => {
    const clock = new FakeClock();
    const limiter = new DelayLimiter(200, { clock });
    const permit = granted(await limiter.tryAcquire());
    const waiting = limiter.acquire();
    await permit.cancel();
    await waiting;
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(clock.wall() + 200);
    await limiter.clear();
    expect(await limiter.canProceed()).toBe(true);
  });
});

const perMinute = { maxExecutions: 60, windowSizeInSeconds: 60 };

describe("EvenlySpacedRateLimiter", () => {
  it("an EvenlySpacedRateLimiter paces start to start at the ideal interval", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ ...perMinute, clock });
    const starts: number[] = [];
    for (let i = 0; i < 4; i++) void limiter.acquire().then(() => starts.push(clock.now()));
    await clock.advance(10_000);
    expect(starts).toEqual([0, 1_000, 2_000, 3_000]);
  });

  it("an EvenlySpacedRateLimiter makes a serial worker wait for the interval less what the job took", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ ...perMinute, clock });
    await limiter.recordJobStart();
    await clock.advance(300);
    await limiter.recordJobCompletion();
    expect(await limiter.canProceed()).toBe(false);
    expect((await limiter.getNextAvailableTime()).getTime() - clock.wall()).toBe(700);
  });

  it("an EvenlySpacedRateLimiter counts a weight as so many intervals, and never exceeds the maximum in a window", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ maxExecutions: 10, windowSizeInSeconds: 10, clock });
    granted(await limiter.tryAcquire({ weight: 3 }));
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(3_000);
    await clock.advance(3_000);
    expect(refused(await limiter.tryAcquire({ weight: 10 })).retryInMs).toBe(7_000);
    expect(refused(await limiter.tryAcquire({ weight: 11 })).never).toBe(true);
  });

  it("an EvenlySpacedRateLimiter widens the window, and with it the interval, by the guard", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ ...perMinute, guard: 600, clock });
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(1_010);
  });

  it("adaptive: follows the interval less the average duration, as often as it is asked to", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ ...perMinute, spacing: "adaptive", clock });
    const permit = granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(1_000);
    await clock.advance(400);
    await permit.release();
    await clock.advance(600);
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(600);
  });

  it.each(["strict", "adaptive"] as const)("%s: never over in any window, whatever the durations", async (spacing) => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 7 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 900 })), { maxLength: 30 }),
        async (maxExecutions, calls) => {
          const clock = new FakeClock();
          const limiter = new EvenlySpacedRateLimiter({ maxExecutions, windowSizeInSeconds: 1, spacing, clock });
          const starts: number[] = [];
          for (const [gap, duration] of calls) {
            await clock.advance(gap);
            void limiter.acquire().then((permit) => {
              starts.push(clock.now());
              clock.after(duration, () => void permit.release());
            });
          }
          await clock.advance(120_000);
          expect(starts).toHaveLength(calls.length);
          expect(worstWindow(starts, 1_000)).toBeLessThanOrEqual(maxExecutions);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("an EvenlySpacedRateLimiter is reset by clear(), also for waiters", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({ ...perMinute, spacing: "adaptive", clock });
    granted(await limiter.tryAcquire());
    const waiting = limiter.acquire();
    expect(await settled(waiting)).toBe(false);
    await limiter.clear();
    await waiting;
  });
});
