import { describe, expect, it } from "vitest";
import { AdaptiveLimiter, OptionsError } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, settled } from "./support.ts";

describe("AdaptiveLimiter", () => {
  it("an AdaptiveLimiter finds a limit that the service does not publish, and stays near it", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ ceiling: 100, clock });
    // A service that takes 8 calls in any second.
    let served: number[] = [];
    let refusedCalls = 0;
    const allowances: number[] = [];
    for (let second = 0; second < 200; second++) {
      for (let call = 0; call < 40; call++) {
        const answer = await limiter.tryAcquire();
        if (answer.granted) {
          served = served.filter((at) => clock.now() - at < 1_000);
          if (served.length < 8) {
            served.push(clock.now());
            await limiter.recordSuccess();
          } else {
            refusedCalls += 1;
            await limiter.recordRateLimited();
          }
        }
        await clock.advance(25);
      }
      if (second > 20) allowances.push(limiter.allowance);
    }
    expect(Math.max(...allowances)).toBeLessThanOrEqual(10);
    expect(Math.min(...allowances)).toBeGreaterThanOrEqual(4);
    // One or two refusals to find the edge again every few seconds; a fixed guess of 10 would have had 400.
    expect(refusedCalls).toBeLessThan(120);
  });

  it("an AdaptiveLimiter keeps to floor and ceiling", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ floor: 2, ceiling: 4, initial: 3, clock });
    for (let i = 0; i < 10; i++) {
      await limiter.recordRateLimited();
      await clock.advance(1_000);
    }
    expect(limiter.allowance).toBe(2);
    for (let i = 0; i < 10; i++) {
      while ((await limiter.tryAcquire()).granted);
      await clock.advance(1_000);
      await limiter.recordSuccess();
    }
    expect(limiter.allowance).toBe(4);
    await limiter.clear();
    expect(limiter.allowance).toBe(3);
  });

  it("an AdaptiveLimiter does not grow an allowance that is not used up", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ floor: 5, clock });
    for (let i = 0; i < 10; i++) {
      granted(await limiter.tryAcquire());
      await clock.advance(1_000);
      await limiter.recordSuccess();
    }
    expect(limiter.allowance).toBe(5);
  });

  it("an AdaptiveLimiter starts waiters when the allowance grows", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ floor: 1, windowSizeInSeconds: 60, clock });
    granted(await limiter.tryAcquire());
    await clock.advance(59_999);
    const waiting = limiter.acquire();
    expect(await settled(waiting)).toBe(false);
    await clock.advance(1);
    await waiting;
    const next = limiter.acquire();
    await limiter.recordSuccess();
    expect(limiter.allowance).toBe(2);
    await next;
  });

  it("an AdaptiveLimiter grants a weight above the current allowance alone, and answers never above the ceiling", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ floor: 2, ceiling: 50, clock });
    granted(await limiter.tryAcquire({ weight: 1 }));
    expect(refused(await limiter.tryAcquire({ weight: 10 }))).toMatchObject({ never: false, retryInMs: 1_000 });
    await clock.advance(1_000);
    granted(await limiter.tryAcquire({ weight: 10 }));
    refused(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire({ weight: 51 })).never).toBe(true);
  });

  it("an AdaptiveLimiter refuses options that contradict each other", () => {
    expect(() => new AdaptiveLimiter({ floor: 5, ceiling: 4 })).toThrow(OptionsError);
    expect(() => new AdaptiveLimiter({ floor: 5, initial: 4 })).toThrow(/between the floor \(5\)/);
    expect(() => new AdaptiveLimiter({ ceiling: 5, initial: 6 })).toThrow(OptionsError);
  });
});
