import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConcurrencyLimiter, OptionsError, type Permit } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, settled } from "./support.ts";

describe("ConcurrencyLimiter", () => {
  it("a ConcurrencyLimiter refuses above the maximum until something is released, and says so", async () => {
    const limiter = new ConcurrencyLimiter(2);
    const first = granted(await limiter.tryAcquire());
    granted(await limiter.tryAcquire());
    expect(refused(await limiter.tryAcquire())).toEqual({
      granted: false,
      blockedBy: "ConcurrencyLimiter",
      retryInMs: null,
      never: false,
    });
    await first.release();
    granted(await limiter.tryAcquire());
    expect(limiter.running).toBe(2);
  });

  it("a ConcurrencyLimiter returns nothing twice: release, cancel and settle in any order, any number of times", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(4), fc.constantFrom("release", "cancel", "settle", "dispose")), { maxLength: 40 }),
        async (moves) => {
          const limiter = new ConcurrencyLimiter(5);
          const permits: Permit[] = [];
          for (let i = 0; i < 5; i++) permits.push(granted(await limiter.tryAcquire()));
          const open = new Set([0, 1, 2, 3, 4]);
          for (const [which, move] of moves) {
            const permit = permits[which]!;
            if (move === "release") await permit.release();
            if (move === "cancel") await permit.cancel();
            if (move === "settle") await permit.settle(3);
            if (move === "dispose") await permit[Symbol.asyncDispose]();
            if (move !== "settle") open.delete(which);
            expect(limiter.running).toBe(open.size);
          }
        },
      ),
    );
  });

  it("a ConcurrencyLimiter counts recorded starts apart from permits: an extra completion releases no permit", async () => {
    const limiter = new ConcurrencyLimiter(2);
    granted(await limiter.tryAcquire());
    await limiter.recordJobStart();
    expect(await limiter.canProceed()).toBe(false);
    for (let i = 0; i < 5; i++) await limiter.recordJobCompletion();
    expect(limiter.running).toBe(1);
    granted(await limiter.tryAcquire());
    refused(await limiter.tryAcquire());
  });

  it("a ConcurrencyLimiter records a start unconditionally, even above the maximum", async () => {
    const limiter = new ConcurrencyLimiter(1);
    await limiter.recordJobStart();
    await limiter.recordJobStart();
    expect(limiter.running).toBe(2);
    await limiter.recordJobCompletion();
    expect(await limiter.canProceed()).toBe(false);
    await limiter.recordJobCompletion();
    expect(await limiter.canProceed()).toBe(true);
  });

  it("a ConcurrencyLimiter serves waiters in order, and starts as many as fit", async () => {
    const limiter = new ConcurrencyLimiter(2);
    const permits = [granted(await limiter.tryAcquire()), granted(await limiter.tryAcquire())];
    const order: number[] = [];
    const waiting = [0, 1, 2, 3].map((i) => limiter.acquire().then((permit) => (order.push(i), permit)));
    expect(limiter.waiting).toBe(4);
    await permits[0]!.release();
    await permits[1]!.release();
    await Promise.all(waiting.slice(0, 2));
    expect(order).toEqual([0, 1]);
    expect(await settled(waiting[2]!)).toBe(false);
    await (await waiting[0]!).release();
    await waiting[2];
    expect(order).toEqual([0, 1, 2]);
  });

  it("a ConcurrencyLimiter keeps the place of a heavy waiter against light ones behind it", async () => {
    const limiter = new ConcurrencyLimiter(4);
    const light = [granted(await limiter.tryAcquire()), granted(await limiter.tryAcquire({ weight: 2 }))];
    const heavy = limiter.acquire({ weight: 3 });
    const behind = limiter.acquire();
    // One slot is available: enough for the light ones behind, which still must wait.
    expect(refused(await limiter.tryAcquire())).toMatchObject({ blockedBy: "ConcurrencyLimiter", retryInMs: null });
    expect(await limiter.canProceed()).toBe(false);
    await light[0]!.release();
    expect(await settled(heavy)).toBe(false);
    expect(await settled(behind)).toBe(false);
    await light[1]!.release();
    await heavy;
    await behind;
    expect(limiter.running).toBe(4);
  });

  it("tryAcquire() answers never to a weight above the maximum, at once and also when the maximum falls below it", async () => {
    const limiter = new ConcurrencyLimiter(3);
    expect(refused(await limiter.tryAcquire({ weight: 4 }))).toEqual({
      granted: false,
      blockedBy: "ConcurrencyLimiter",
      retryInMs: null,
      never: true,
    });
    await expect(limiter.acquire({ weight: 4 })).rejects.toThrow(OptionsError);
    await expect(limiter.acquire({ weight: 4 })).rejects.toThrow(/`weight` to be at most 3.*got 4/);
    const permit = granted(await limiter.tryAcquire({ weight: 3 }));
    const waiting = limiter.acquire({ weight: 3 });
    const behind = limiter.acquire();
    limiter.maxConcurrentJobs = 2;
    await expect(waiting).rejects.toThrow(/at most 2/);
    await permit.release();
    await behind;
  });

  it('counts every start as one with `count: "starts"`', async () => {
    const limiter = new ConcurrencyLimiter(2, { count: "starts" });
    const permit = granted(await limiter.tryAcquire({ weight: 1_000 }));
    granted(await limiter.tryAcquire({ weight: 5 }));
    refused(await limiter.tryAcquire());
    await permit.release();
    expect(limiter.running).toBe(1);
  });

  it("a ConcurrencyLimiter is paused at 0 until the maximum is raised", async () => {
    const limiter = new ConcurrencyLimiter(0);
    expect(await limiter.canProceed()).toBe(false);
    const waiting = limiter.acquire();
    expect(await settled(waiting)).toBe(false);
    limiter.maxConcurrentJobs = 1;
    await waiting;
    expect(limiter.maxConcurrentJobs).toBe(1);
  });

  it("a ConcurrencyLimiter holds everything until the time set from outside, which only moves later", async () => {
    const clock = new FakeClock();
    const limiter = new ConcurrencyLimiter(1, { clock });
    await limiter.setNextAvailableTime(new Date(clock.wall() + 500));
    await limiter.setNextAvailableTime(new Date(clock.wall() + 100));
    expect(await limiter.canProceed()).toBe(false);
    expect(refused(await limiter.tryAcquire()).retryInMs).toBe(500);
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(clock.wall() + 500);
    const waiting = limiter.acquire();
    await clock.advance(499);
    expect(await settled(waiting)).toBe(false);
    await clock.advance(1);
    await waiting;
    expect(clock.timers).toBe(0);
  });

  it("a ConcurrencyLimiter ignores the wall clock while it waits", async () => {
    const clock = new FakeClock();
    const limiter = new ConcurrencyLimiter(1, { clock });
    await limiter.setNextAvailableTime(new Date(clock.wall() + 500));
    clock.stepWall(-3_600_000);
    const waiting = limiter.acquire();
    await clock.advance(500);
    await waiting;
  });

  it("a ConcurrencyLimiter is empty after clear(); permits from before return nothing", async () => {
    const clock = new FakeClock();
    const limiter = new ConcurrencyLimiter(1, { clock });
    const old = granted(await limiter.tryAcquire());
    await limiter.recordJobStart();
    await limiter.setNextAvailableTime(new Date(clock.wall() + 500));
    const waiting = limiter.acquire();
    await limiter.clear();
    await waiting;
    expect(limiter.running).toBe(1);
    await old.release();
    await limiter.recordJobCompletion();
    expect(limiter.running).toBe(1);
    expect(clock.timers).toBe(0);
  });

  describe("abort", () => {
    it("an aborted acquire() rejects with the signal's reason and leaves no trace", async () => {
      const clock = new FakeClock();
      const limiter = new ConcurrencyLimiter(1, { clock });
      const permit = granted(await limiter.tryAcquire());
      const controller = new AbortController();
      const aborted = limiter.acquire({ signal: controller.signal });
      const behind = limiter.acquire();
      const reason = new Error("no longer needed");
      controller.abort(reason);
      await expect(aborted).rejects.toBe(reason);
      expect(limiter.waiting).toBe(1);
      await permit.release();
      await behind;
      expect(limiter.running).toBe(1);
    });

    it("the abort of a heavy waiter lets the ones behind it start", async () => {
      const limiter = new ConcurrencyLimiter(2);
      granted(await limiter.tryAcquire());
      const controller = new AbortController();
      const heavy = limiter.acquire({ weight: 2, signal: controller.signal });
      const light = limiter.acquire();
      expect(await settled(light)).toBe(false);
      controller.abort();
      await expect(heavy).rejects.toMatchObject({ name: "AbortError" });
      await light;
    });

    it("aborts in the middle of a long line free the waiters, and keep the order of the others", async () => {
      setFlagsFromString("--expose-gc");
      const collect = runInNewContext("gc") as () => void;
      const limiter = new ConcurrencyLimiter(1);
      const permit = granted(await limiter.tryAcquire());
      const order: number[] = [];
      const kept: Promise<unknown>[] = [];
      const gone: WeakRef<Promise<unknown>>[] = [];
      const controllers: AbortController[] = [];
      for (let i = 0; i < 2_000; i++) {
        const controller = new AbortController();
        const waiting = limiter.acquire({ signal: controller.signal });
        if (i % 500 === 0) {
          kept.push(
            waiting.then(async (mine) => {
              order.push(i);
              await mine.release();
            }),
          );
        } else {
          waiting.catch(() => {});
          gone.push(new WeakRef(waiting));
          controllers.push(controller);
        }
      }
      for (const controller of controllers.splice(0)) controller.abort();
      expect(limiter.waiting).toBe(4);
      // Collecting may take several turns: a reference that was looked at holds on until the end of its turn.
      const alive = async (turns: number): Promise<number> => {
        await new Promise((resolve) => setImmediate(resolve));
        collect();
        const left = gone.filter((ref) => ref.deref() !== undefined).length;
        return left < 200 || turns === 0 ? left : alive(turns - 1);
      };
      expect(await alive(50)).toBeLessThan(200);
      await permit.release();
      await Promise.all(kept);
      expect(order).toEqual([0, 500, 1_000, 1_500]);
    });

    it("acquire() with a signal that is aborted already rejects without waiting in line", async () => {
      const limiter = new ConcurrencyLimiter(1);
      await expect(limiter.acquire({ signal: AbortSignal.abort("no") })).rejects.toBe("no");
      expect(limiter.running).toBe(0);
    });

    it("an abort has no effect once the permit is granted", async () => {
      const limiter = new ConcurrencyLimiter(1);
      const controller = new AbortController();
      const permit = await limiter.acquire({ signal: controller.signal });
      controller.abort();
      expect(limiter.running).toBe(1);
      await permit.release();
      expect(limiter.running).toBe(0);
    });
  });

  it("a ConcurrencyLimiter releases a permit at the end of its scope", async () => {
    const limiter = new ConcurrencyLimiter(1);
    {
      await using permit = await limiter.acquire();
      expect(permit.granted).toBe(true);
      expect(limiter.running).toBe(1);
    }
    expect(limiter.running).toBe(0);
  });
});
