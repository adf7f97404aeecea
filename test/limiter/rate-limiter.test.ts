import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  InMemoryRateLimiterStorage,
  OptionsError,
  type Permit,
  RateLimiter,
  type RateLimiterWithBackoffOptions,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, settled, worstWindow } from "./support.ts";

function setUp(options: Partial<RateLimiterWithBackoffOptions> = {}) {
  const clock = new FakeClock();
  const storage = new InMemoryRateLimiterStorage({ clock });
  const limiter = new RateLimiter(storage, "api", {
    maxExecutions: 3,
    windowSizeInSeconds: 1,
    random: () => 0.5,
    ...options,
  });
  return { clock, storage, limiter };
}

describe("RateLimiter", () => {
  it("a RateLimiter grants so many in any window and promises the exact instant for the next", async () => {
    const { clock, limiter } = setUp();
    granted(await limiter.tryAcquire());
    await clock.advance(400);
    granted(await limiter.tryAcquire());
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire())).toEqual({
      granted: false,
      blockedBy: "api",
      retryInMs: 600,
      never: false,
    });
    await clock.advance(599.5);
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(0.5);
    await clock.advance(0.5);
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(400);
  });

  it("a RateLimiter wakes waiters at the computed instant, in order, and leaves no timer behind", async () => {
    const { clock, limiter } = setUp();
    const starts: [number, number][] = [];
    const waiting = Array.from({ length: 8 }, (_, i) => limiter.acquire().then(() => starts.push([i, clock.now()])));
    await clock.advance(0);
    expect(clock.nextTimerIn).toBe(1_000);
    await clock.advance(5_000);
    await Promise.all(waiting);
    expect(starts).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
      [3, 1_000],
      [4, 1_000],
      [5, 1_000],
      [6, 2_000],
      [7, 2_000],
    ]);
    expect(clock.timers).toBe(0);
  });

  it("a RateLimiter is never over and never idle, whenever callers come", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.integer({ min: 0, max: 700 }), { minLength: 1, maxLength: 40 }),
        async (maxExecutions, gaps) => {
          const { clock, limiter } = setUp({ maxExecutions });
          const starts: number[] = [];
          const arrivals: number[] = [];
          for (const gap of gaps) {
            await clock.advance(gap);
            arrivals.push(clock.now());
            void limiter.acquire().then(() => starts.push(clock.now()));
          }
          await clock.advance(60_000);
          expect(starts).toHaveLength(gaps.length);
          expect(worstWindow(starts, 1_000)).toBeLessThanOrEqual(maxExecutions);
          // Each starts at the earliest instant that the limit allows, not later.
          const earliest: number[] = [];
          for (const [i, arrival] of arrivals.entries()) {
            const before = earliest[i - maxExecutions];
            earliest.push(Math.max(arrival, earliest[i - 1] ?? 0, before === undefined ? 0 : before + 1_000));
          }
          expect(starts).toEqual(earliest);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("a RateLimiter keeps the place of a heavy waiter, and starts it when its weight fits", async () => {
    const { clock, limiter } = setUp({ maxExecutions: 10 });
    granted(await limiter.tryAcquire({ weight: 6 }));
    await clock.advance(500);
    const heavy = limiter.acquire({ weight: 8 });
    const light = limiter.acquire({ weight: 1 });
    expect(refused(await limiter.tryAcquire({ weight: 1 })).retryInMs).toBe(500);
    await clock.advance(499);
    expect(await settled(light)).toBe(false);
    await clock.advance(1);
    await Promise.all([heavy, light]);
    expect(refused(await limiter.tryAcquire({ weight: 2 })).retryInMs).toBe(1_000);
    granted(await limiter.tryAcquire({ weight: 1 }));
  });

  it("tryAcquire() answers never to a weight above the window", async () => {
    const { limiter } = setUp();
    expect(refused(await limiter.tryAcquire({ weight: 4 }))).toMatchObject({ never: true, retryInMs: null });
    await expect(limiter.acquire({ weight: 4 })).rejects.toThrow(OptionsError);
  });

  it('counts requests and not their weight with `count: "starts"`', async () => {
    const { limiter } = setUp({ count: "starts" });
    const permit = granted(await limiter.tryAcquire({ weight: 50_000 }));
    granted(await limiter.tryAcquire({ weight: 50_000 }));
    await permit.settle(0);
    granted(await limiter.tryAcquire({ weight: 50_000 }));
    refused(await limiter.tryAcquire());
  });

  describe("settling", () => {
    it("settle() returns what was not used at once, also to waiters", async () => {
      const { limiter } = setUp({ maxExecutions: 100 });
      const permit = granted(await limiter.tryAcquire({ weight: 90 }));
      const waiting = limiter.acquire({ weight: 50 });
      expect(await settled(waiting)).toBe(false);
      await permit.settle(50);
      await waiting;
      refused(await limiter.tryAcquire());
    });

    it("settle() charges at once when more was used, and grants nothing until it fits again", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 100 });
      const permit = granted(await limiter.tryAcquire({ weight: 10 }));
      await clock.advance(200);
      await permit.settle(130);
      expect(refused(await limiter.tryAcquire()).retryInMs).toBe(800);
      await clock.advance(800);
      granted(await limiter.tryAcquire({ weight: 100 }));
    });

    it("settle() charges use that is reported after the window has passed from then on, once", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 100 });
      const permit = granted(await limiter.tryAcquire({ weight: 10 }));
      await clock.advance(5_000);
      await permit.settle(70);
      await permit.settle(70);
      granted(await limiter.tryAcquire({ weight: 40 }));
      expect(refused(await limiter.tryAcquire()).retryInMs).toBe(1_000);
    });

    it("settle() uses the latest number, also for an expired start", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 100 });
      const permit = granted(await limiter.tryAcquire({ weight: 50 }));
      await clock.advance(5_000);
      for (const used of [80, 20, 80]) await permit.settle(used);
      granted(await limiter.tryAcquire({ weight: 70 }));
      refused(await limiter.tryAcquire());
      await clock.advance(5_000);
      for (const used of [0, 80]) await permit.settle(used);
      granted(await limiter.tryAcquire({ weight: 100 }));
    });

    it("settle() returns nothing of an expired start", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 100 });
      const permit = granted(await limiter.tryAcquire({ weight: 100 }));
      await clock.advance(1_000);
      granted(await limiter.tryAcquire({ weight: 100 }));
      await permit.settle(0);
      await permit.cancel();
      refused(await limiter.tryAcquire());
    });

    it("settle() works after release too; after cancel nothing counts", async () => {
      const { limiter } = setUp({ maxExecutions: 100 });
      const released = granted(await limiter.tryAcquire({ weight: 60 }));
      await released.release();
      await released.settle(10);
      const cancelled = granted(await limiter.tryAcquire({ weight: 90 }));
      await cancelled.cancel();
      await cancelled.settle(90);
      await cancelled.cancel();
      granted(await limiter.tryAcquire({ weight: 90 }));
      refused(await limiter.tryAcquire());
    });

    it("settle() keeps the sum right under any sequence of starts, cancels and settles", async () => {
      const move = fc.oneof(
        fc.record({ kind: fc.constant("take" as const), weight: fc.integer({ min: 1, max: 8 }) }),
        fc.record({ kind: fc.constantFrom("cancel" as const, "release" as const), which: fc.nat(30) }),
        fc.record({ kind: fc.constant("settle" as const), which: fc.nat(30), weight: fc.integer({ min: 0, max: 12 }) }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(move, { maxLength: 60 }), async (moves) => {
          const { limiter } = setUp({ maxExecutions: 20 });
          const permits: { permit: Permit; used: number; state: "open" | "released" | "cancelled" }[] = [];
          const used = () => permits.reduce((sum, permit) => sum + permit.used, 0);
          for (const next of moves) {
            if (next.kind === "take") {
              const answer = await limiter.tryAcquire({ weight: next.weight });
              expect(answer.granted).toBe(used() + next.weight <= 20);
              if (answer.granted) permits.push({ permit: answer, used: next.weight, state: "open" });
              continue;
            }
            const chosen = permits[next.which % Math.max(1, permits.length)];
            if (chosen === undefined) continue;
            if (next.kind === "settle") {
              await chosen.permit.settle(next.weight);
              if (chosen.state !== "cancelled") chosen.used = next.weight;
            } else {
              await chosen.permit[next.kind]();
              if (chosen.state !== "open") continue;
              chosen.state = next.kind === "cancel" ? "cancelled" : "released";
              if (next.kind === "cancel") chosen.used = 0;
            }
          }
        }),
        { numRuns: 300 },
      );
    });
  });

  describe("one name is one log of starts", () => {
    it("one name is shared by every limiter of the storage, each with its own maximum", async () => {
      const { clock, storage, limiter } = setUp({ maxExecutions: 10 });
      const strict = new RateLimiter(storage, "api", { maxExecutions: 2, windowSizeInSeconds: 10 });
      granted(await strict.tryAcquire());
      granted(await limiter.tryAcquire());
      refused(await strict.tryAcquire());
      for (let i = 0; i < 8; i++) granted(await limiter.tryAcquire());
      refused(await limiter.tryAcquire());
      await clock.advance(1_000);
      granted(await limiter.tryAcquire());
      expect(refused(await strict.tryAcquire()).retryInMs).toBe(9_000);
    });

    it("a limiter wakes waiters of another limiter of the same name", async () => {
      const { storage, limiter } = setUp({ maxExecutions: 1 });
      const other = new RateLimiter(storage, "api", { maxExecutions: 1, windowSizeInSeconds: 1 });
      const permit = granted(await limiter.tryAcquire());
      const waiting = other.acquire();
      expect(await settled(waiting)).toBe(false);
      await permit.cancel();
      await waiting;
    });

    it("the starts of one name do not count under other names", async () => {
      const { storage, limiter } = setUp({ maxExecutions: 1 });
      granted(await limiter.tryAcquire());
      granted(await new RateLimiter(storage, "other", { maxExecutions: 1, windowSizeInSeconds: 1 }).tryAcquire());
    });
  });

  it("a RateLimiter widens the window by the guard", async () => {
    const { clock, limiter } = setUp({ maxExecutions: 1, guard: "50ms" });
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(1_050);
    await clock.advance(1_050);
    granted(await limiter.tryAcquire());
  });

  describe("the time set from outside", () => {
    it("a time set from outside always holds, also where the window is not full, and only moves later", async () => {
      const { clock, limiter } = setUp();
      await limiter.setNextAvailableTime(new Date(clock.wall() + 60_000));
      await limiter.setNextAvailableTime(new Date(clock.wall() + 1_000));
      expect(await limiter.canProceed()).toBe(false);
      expect(refused(await limiter.tryAcquire()).retryInMs).toBe(60_000);
      await clock.advance(59_999);
      expect(await limiter.canProceed()).toBe(false);
      await clock.advance(1);
      expect(await limiter.canProceed()).toBe(true);
    });

    it("a time set from outside lives in the storage and binds every limiter of the name", async () => {
      const { clock, storage, limiter } = setUp();
      await limiter.setNextAvailableTime(new Date(clock.wall() + 60_000));
      const other = new RateLimiter(storage, "api", { maxExecutions: 5, windowSizeInSeconds: 1 });
      expect(refused(await other.tryAcquire()).retryInMs).toBe(60_000);
    });
  });

  describe("back-off", () => {
    it("the back-off grows with every refusal in a row, with jitter, and a grant clears it", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 1, maxBackoffDelay: 3_000 });
      const next = async () => (await limiter.getNextAvailableTime()).getTime() - clock.wall();
      granted(await limiter.tryAcquire());
      expect(await next()).toBe(1_000);
      refused(await limiter.tryAcquire());
      expect(await next()).toBe(1_500); // 1000 and half of it
      expect(await limiter.canProceed()).toBe(false);
      expect(await next()).toBe(3_000); // 2000 and half of it
      refused(await limiter.tryAcquire());
      expect(await next()).toBe(4_500); // capped at 3000, and half of it
      expect(refused(await limiter.tryAcquire()).retryInMs).toBe(1_000); // the exact wait is untouched
      await clock.advance(1_000);
      expect(await next()).toBe(0);
      granted(await limiter.tryAcquire());
      refused(await limiter.tryAcquire());
      expect(await next()).toBe(1_500);
    });

    it("the back-off is entered by a recorded start that finds the window full", async () => {
      const { clock, limiter } = setUp({ maxExecutions: 1 });
      await limiter.recordJobStart();
      await limiter.recordJobStart();
      expect((await limiter.getNextAvailableTime()).getTime() - clock.wall()).toBe(1_500);
      await limiter.recordJobCompletion();
    });
  });

  it.each([5, 6, 7, 8, 9])(
    "grants nothing that it has not charged, however time passes during the decision (%i)",
    async (windowMs) => {
      let now = 0;
      // A clock that moves on by one at every reading.
      const clock = { now: () => now++, wall: () => 0, after: () => () => {} };
      const storage = new InMemoryRateLimiterStorage({ clock });
      const limiter = new RateLimiter(storage, "api", { maxExecutions: 1, windowSizeInSeconds: windowMs / 1_000 });
      let last = Number.NEGATIVE_INFINITY;
      for (let i = 0; i < 200; i++) {
        if (!(await limiter.tryAcquire()).granted) continue;
        // One reading at the least lies between two decisions and what is seen of them here.
        expect(now - last).toBeGreaterThanOrEqual(windowMs);
        last = now;
      }
      expect(now - last).toBeLessThan(3 * windowMs);
    },
  );

  it("a RateLimiter is empty after clear()", async () => {
    const { clock, limiter } = setUp({ maxExecutions: 1 });
    const old = granted(await limiter.tryAcquire());
    await limiter.setNextAvailableTime(new Date(clock.wall() + 60_000));
    refused(await limiter.tryAcquire());
    await limiter.clear();
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(clock.wall());
    granted(await limiter.tryAcquire());
    await old.cancel();
    refused(await limiter.tryAcquire());
  });
});
