import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  type ILimiter,
  InMemoryRateLimiterStorage,
  NullLimiter,
  OptionsError,
  type Permit,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, rate, refused, remote, settled, SixMethodLimiter } from "./support.ts";

describe("CompositeLimiter", () => {
  it("a CompositeLimiter needs all of its limiters, and spends nothing on a refusal", async () => {
    const clock = new FakeClock();
    const concurrency = new ConcurrencyLimiter(2, { clock });
    const window = rate(clock, 3);
    const composite = new CompositeLimiter([concurrency, window]);
    const permits = [granted(await composite.tryAcquire()), granted(await composite.tryAcquire())];
    expect(refused(await composite.tryAcquire())).toMatchObject({ blockedBy: "ConcurrencyLimiter", retryInMs: null });
    await permits[0]!.release();
    granted(await composite.tryAcquire());
    await permits[1]!.release();
    expect(refused(await composite.tryAcquire())).toMatchObject({ blockedBy: "rate", retryInMs: 1_000 });
    expect(concurrency.running).toBe(1);
    await clock.advance(1_000);
    granted(await window.tryAcquire({ weight: 3 }));
  });

  it("a CompositeLimiter names the limiter with the longest wait", async () => {
    const clock = new FakeClock();
    const composite = new CompositeLimiter([new DelayLimiter(40, { clock }), rate(clock, 1)]);
    granted(await composite.tryAcquire());
    expect(refused(await composite.tryAcquire())).toMatchObject({ blockedBy: "rate", retryInMs: 1_000 });
  });

  it("a CompositeLimiter waits for a release behind a limiter that only waits for time", async () => {
    const clock = new FakeClock();
    const concurrency = new ConcurrencyLimiter(1, { clock });
    const composite = new CompositeLimiter([new DelayLimiter(40, { clock }), concurrency]);
    const permit = granted(await composite.tryAcquire());
    const waiting = composite.acquire();
    await clock.advance(1_000);
    expect(await settled(waiting)).toBe(false);
    await permit.release();
    await waiting;
  });

  it("a CompositeLimiter has no limit when empty, and accepts limiters while permits are in use", async () => {
    const clock = new FakeClock();
    const composite = new CompositeLimiter();
    const before = granted(await composite.tryAcquire());
    const concurrency = new ConcurrencyLimiter(1, { clock });
    composite.addLimiter(concurrency);
    const during = granted(await composite.tryAcquire());
    refused(await composite.tryAcquire());
    await before.release();
    expect(concurrency.running).toBe(1);
    const waiting = composite.acquire();
    composite.addLimiter(new DelayLimiter(100, { clock }));
    await during.release();
    await waiting;
    expect(concurrency.running).toBe(1);
  });

  it("a CompositeLimiter nests, and a change inside is seen outside", async () => {
    const clock = new FakeClock();
    const inner = new CompositeLimiter([new ConcurrencyLimiter(5, { clock })]);
    const outer = new CompositeLimiter([new NullLimiter(), new CompositeLimiter([inner])]);
    granted(await outer.tryAcquire());
    inner.addLimiter(rate(clock, 1, "added"));
    granted(await outer.tryAcquire());
    expect(refused(await outer.tryAcquire()).blockedBy).toBe("added");
    expect(refused(await inner.tryAcquire()).blockedBy).toBe("added");
  });

  it("a CompositeLimiter counts the same limiter twice as one limit", async () => {
    const concurrency = new ConcurrencyLimiter(1);
    const composite = new CompositeLimiter([concurrency, new CompositeLimiter([concurrency])]);
    const permit = granted(await composite.tryAcquire());
    expect(concurrency.running).toBe(1);
    await permit.release();
    expect(concurrency.running).toBe(0);
  });

  it.each(["memory", "remote"])(
    "a CompositeLimiter records a start of two limiters of one name once (%s)",
    async (kind) => {
      const clock = new FakeClock();
      const storage = kind === "memory" ? new InMemoryRateLimiterStorage({ clock }) : remote(clock);
      const composite = new CompositeLimiter([
        new RateLimiter(storage, "api", { maxExecutions: 2, windowSizeInSeconds: 1, clock }),
        new RateLimiter(storage, "api", { maxExecutions: 3, windowSizeInSeconds: 60, clock }),
      ]);
      granted(await composite.tryAcquire());
      const second = granted(await composite.tryAcquire());
      expect(refused(await composite.tryAcquire()).retryInMs).toBe(1_000);
      await second.cancel();
      granted(await composite.tryAcquire());
      await clock.advance(1_000);
      granted(await composite.tryAcquire());
      expect(refused(await composite.tryAcquire()).retryInMs).toBe(59_000);
    },
  );

  it("a CompositeLimiter refuses to contain itself, and values that are not limiters", () => {
    const outer = new CompositeLimiter();
    const inner = new CompositeLimiter([outer]);
    expect(() => outer.addLimiter(inner)).toThrow(OptionsError);
    expect(() => outer.addLimiter(outer)).toThrow(/does not contain this composite/);
    expect(() => new CompositeLimiter([{} as ILimiter])).toThrow(
      /`limiters\[0\]` to be a limiter.*no method canProceed/,
    );
    expect(() => new CompositeLimiter(new NullLimiter() as unknown as ILimiter[])).toThrow(/an array of limiters/);
    const five = new SixMethodLimiter(1) as Partial<SixMethodLimiter>;
    (five as Record<string, unknown>)["clear"] = undefined;
    expect(() => outer.addLimiter(five as ILimiter)).toThrow(/no method clear/);
  });

  it("a CompositeLimiter forwards the six methods to all, in order", async () => {
    const clock = new FakeClock();
    const own = new SixMethodLimiter(1);
    const delay = new DelayLimiter(100, { clock });
    const composite = new CompositeLimiter([delay, own]);
    expect(await composite.canProceed()).toBe(true);
    await composite.recordJobStart();
    expect(await composite.canProceed()).toBe(false); // the delay says no: the second is not even asked
    expect(own.diary).toEqual(["canProceed", "recordJobStart"]);
    await composite.setNextAvailableTime(new Date(clock.wall() + 5_000));
    expect((await composite.getNextAvailableTime()).getTime()).toBe(clock.wall() + 5_000);
    await composite.recordJobCompletion();
    await composite.clear();
    expect(await composite.canProceed()).toBe(true);
  });

  it("a CompositeLimiter records a completion with all limiters even if one throws, and then throws that error", async () => {
    const broken = new SixMethodLimiter(1);
    broken.recordJobCompletion = () => Promise.reject(new Error("broken"));
    const sound = new SixMethodLimiter(1);
    const composite = new CompositeLimiter([broken, sound]);
    await composite.recordJobStart();
    await expect(composite.recordJobCompletion()).rejects.toThrow("broken");
    expect(sound.running).toBe(0);
  });

  it("a CompositeLimiter never exceeds any of its limits, never leaks and never stalls, whatever limiters are shared", async () => {
    // Three leaves, five ways to combine them; callers come and go at random, some by tryAcquire, some give up.
    const caller = fc.record({
      by: fc.nat(4),
      after: fc.integer({ min: 0, max: 120 }),
      holds: fc.integer({ min: 0, max: 400 }),
      weight: fc.integer({ min: 1, max: 3 }),
      how: fc.constantFrom("acquire", "try", "abort", "cancel"),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(caller, { maxLength: 40 }), async (callers) => {
        const clock = new FakeClock();
        const a = new ConcurrencyLimiter(3, { clock });
        const b = rate(clock, 4);
        const c = new ConcurrencyLimiter(5, { clock });
        const inner = new CompositeLimiter([b, c]);
        const entries = [
          a,
          new CompositeLimiter([a, b]),
          new CompositeLimiter([c, a]),
          inner,
          new CompositeLimiter([inner, a]),
        ];
        const uses = [["a"], ["a", "b"], ["c", "a"], ["b", "c"], ["b", "c", "a"]];
        const held = { a: 0, b: 0, c: 0 };
        const starts: { at: number; weight: number; cancelled: boolean }[] = [];
        let outstanding = 0;
        const use = (permit: Permit, by: number, weight: number, holds: number, cancels: boolean) => {
          for (const leaf of uses[by]!) held[leaf as "a"] += weight;
          expect(held.a).toBeLessThanOrEqual(3);
          expect(held.c).toBeLessThanOrEqual(5);
          const start = { at: clock.now(), weight, cancelled: false };
          if (uses[by]!.includes("b")) starts.push(start);
          clock.after(holds, () => {
            for (const leaf of uses[by]!) held[leaf as "a"] -= weight;
            if (cancels) start.cancelled = true;
            void (cancels ? permit.cancel() : permit.release());
          });
        };
        for (const { by, after, holds, weight, how } of callers) {
          await clock.advance(after);
          const limiter = entries[by]!;
          if (how === "try") {
            const answer = await limiter.tryAcquire({ weight });
            if (answer.granted) use(answer, by, weight, holds, false);
            continue;
          }
          const controller = new AbortController();
          outstanding += 1;
          limiter.acquire({ weight, signal: controller.signal }).then(
            (permit) => {
              outstanding -= 1;
              use(permit, by, weight, holds, how === "cancel");
            },
            () => (outstanding -= 1),
          );
          if (how === "abort") clock.after(holds, () => controller.abort());
        }
        await clock.advance(60_000);
        expect(outstanding).toBe(0);
        expect([a.running, c.running]).toEqual([0, 0]);
        expect(clock.timers).toBe(0);
        for (const limiter of entries) expect(limiter.waiting).toBe(0);
        for (const { at } of starts) {
          const inside = starts.filter((start) => !start.cancelled && start.at > at - 1_000 && start.at <= at);
          expect(inside.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThanOrEqual(4);
        }
      }),
      { numRuns: 150 },
    );
  });
});
