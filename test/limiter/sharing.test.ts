import { describe, expect, it } from "vitest";
import {
  AdaptiveLimiter,
  CompositeLimiter,
  ConcurrencyLimiter,
  EvenlySpacedRateLimiter,
  type ILimiter,
  InMemoryRateLimiterStorage,
  limit,
  OptionsError,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { refused, settled, SixMethodLimiter } from "./support.ts";

/** Endless calls under `limiter`, each of this length. */
function keepBusy(limiter: ILimiter, clock: FakeClock, ms: number): { readonly started: number } {
  const seen = { started: 0 };
  const run = limit(() => {
    seen.started += 1;
    return new Promise<void>((resolve) => clock.after(ms, resolve));
  }, limiter);
  void (async () => {
    for (;;) await run();
  })();
  return seen;
}

describe("limiters that several share", () => {
  it("limiters that share a limit are not blocked by the place of a waiter that has left", async () => {
    const leaf = new ConcurrencyLimiter(5);
    const [a, b] = [new CompositeLimiter([leaf]), new CompositeLimiter([leaf])];
    const held = await leaf.acquire();
    const controller = new AbortController();
    const first = a.acquire({ weight: 5, signal: controller.signal });
    const second = b.acquire();
    const third = a.acquire({ weight: 5 });
    controller.abort("enough");
    await expect(first).rejects.toBe("enough");
    const permit = await second; // came before the third, and a slot is available for it
    expect(await settled(third)).toBe(false);
    await held.release();
    await permit.release();
    await third;
  });

  it("limiters that several callers share let no waiter pass a heavy one, not even a composite with remote parts", async () => {
    const clock = new FakeClock();
    const leaf = new ConcurrencyLimiter(2, { clock });
    const mixed = new CompositeLimiter([leaf, new SixMethodLimiter(1_000)]);
    keepBusy(mixed, clock, 10);
    await clock.advance(5);
    const light = keepBusy(mixed, clock, 10);
    await clock.advance(1);
    const before = light.started;
    const heavy = leaf.acquire({ weight: 2 });
    await clock.advance(100);
    expect(await settled(heavy)).toBe(true);
    expect(light.started - before).toBeLessThanOrEqual(1);
    await (await heavy).release();
    await clock.advance(100);
    expect(light.started).toBeGreaterThan(before + 5); // and the waiter behind continues
  });

  it("limiters that several callers share wake a composite with remote parts when the waiters before it are aborted", async () => {
    const leaf = new ConcurrencyLimiter(2);
    const mixed = new CompositeLimiter([leaf, new SixMethodLimiter(1_000)]);
    const held = await leaf.acquire();
    const controller = new AbortController();
    const heavy = leaf.acquire({ weight: 2, signal: controller.signal });
    const light = mixed.acquire();
    expect(await settled(light)).toBe(false);
    controller.abort("enough");
    await expect(heavy).rejects.toBe("enough");
    await light;
    await held.release();
  });

  it("limiters that several callers share do not starve a waiter that needs two of them that are never available together", async () => {
    const clock = new FakeClock();
    const [one, two] = [new ConcurrencyLimiter(1, { clock }), new ConcurrencyLimiter(1, { clock })];
    const others: { readonly started: number }[] = [];
    for (const limiter of [one, two]) {
      others.push(keepBusy(limiter, clock, 10), keepBusy(limiter, clock, 10));
      await clock.advance(5);
    }
    const both = new CompositeLimiter([one, two]).acquire();
    await clock.advance(1_000);
    expect(await settled(both)).toBe(true);
    await (await both).release();
    const before = others.map(({ started }) => started);
    await clock.advance(200);
    for (const [i, { started }] of others.entries()) expect(started).toBeGreaterThan(before[i]! + 5);
  });

  it("limiters that several callers share keep the order among limiter objects of one name and rule", async () => {
    const clock = new FakeClock();
    const storage = new InMemoryRateLimiterStorage({ clock });
    const rule = { maxExecutions: 10, windowSizeInSeconds: 1 };
    const a = new RateLimiter(storage, "x", rule);
    const b = new RateLimiter(storage, "x", rule);
    const run = limit(() => {}, b);
    // A line that is never empty.
    for (let i = 0; i < 30; i++) {
      void (async () => {
        for (;;) await run();
      })();
    }
    await clock.advance(10);
    const heavy = a.acquire({ weight: 5 });
    await clock.advance(5_000);
    expect(await settled(heavy)).toBe(true);
  });

  it("limiters that several callers share give a newcomer behind a line the time to retry", async () => {
    const clock = new FakeClock();
    const rate = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "x", {
      maxExecutions: 2,
      windowSizeInSeconds: 1,
    });
    await rate.acquire();
    const composite = new CompositeLimiter([rate]);
    void composite.acquire({ weight: 2 });
    expect(refused(await rate.tryAcquire())).toMatchObject({ blockedBy: "x", retryInMs: 1_000 });
    expect(refused(await composite.tryAcquire())).toMatchObject({ blockedBy: "x", retryInMs: 1_000 });
  });

  it("limiters that several callers share wait by the clock of the blocker", async () => {
    const clock = new FakeClock();
    const rate = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "x", {
      maxExecutions: 1,
      windowSizeInSeconds: 60,
    });
    const composite = new CompositeLimiter([new ConcurrencyLimiter(5), rate]);
    await composite.acquire();
    const waiting = composite.acquire();
    await clock.advance(60_000);
    expect(await settled(waiting)).toBe(true);
  });

  it("limiters that several callers share charge the larger weight where nested wrappers share one", async () => {
    const storage = new InMemoryRateLimiterStorage();
    const tokens = new RateLimiter(storage, "tokens", { maxExecutions: 100, windowSizeInSeconds: 60 });
    let started = 0;
    const inner = limit((weight: number) => void (started += weight), tokens, { weight: (weight) => weight });
    const outer = limit(inner, new CompositeLimiter([new ConcurrencyLimiter(9), tokens]));
    for (let i = 0; i < 5; i++) void outer(50);
    expect(started).toBe(100);
  });

  it("limiters that several callers share refuse to count one name by starts and by weight", () => {
    const storage = new InMemoryRateLimiterStorage();
    const rule = { maxExecutions: 100, windowSizeInSeconds: 60 };
    const starts = new RateLimiter(storage, "x", { ...rule, count: "starts" });
    const weights = new RateLimiter(storage, "x", rule);
    expect(() => new CompositeLimiter([starts, weights])).toThrow(/`limiters\[1\]`.*names of their own/);
    const composite = new CompositeLimiter([starts]);
    expect(() => composite.addLimiter(weights)).toThrow(OptionsError);
    expect(() =>
      limit(
        limit(() => {}, starts),
        weights,
      ),
    ).toThrow(OptionsError);
  });

  it("limiters that several callers share record a call once that nested wrappers charge under one name", async () => {
    const clock = new FakeClock();
    const storage = new InMemoryRateLimiterStorage({ clock });
    const second = new RateLimiter(storage, "x", { maxExecutions: 10, windowSizeInSeconds: 1 });
    const minute = new RateLimiter(storage, "x", { maxExecutions: 12, windowSizeInSeconds: 60 });
    let calls = 0;
    const run = limit(
      limit(() => void (calls += 1), second),
      minute,
    );
    for (let i = 0; i < 20; i++) void run();
    await clock.advance(500);
    expect(calls).toBe(10);
    await clock.advance(1_000);
    expect(calls).toBe(12);
  });

  it.each([85, 90, 93, 300])(
    "limiters that several callers share do not pass on the places of a waiter that was moved between them (%i)",
    async (ms) => {
      const clock = new FakeClock();
      const [one, two] = [new ConcurrencyLimiter(1, { clock }), new ConcurrencyLimiter(2, { clock })];
      const controller = new AbortController();
      const busy = (limiter: ILimiter, weight: number) => {
        const run = limit(() => new Promise<void>((resolve) => clock.after(10, resolve)), limiter, {
          weight: () => weight,
          signal: controller.signal,
        });
        const loop = async () => {
          for (;;) await run();
        };
        for (let i = 0; i < 2; i++) loop().catch(() => {});
      };
      busy(one, 1);
      await clock.advance(5);
      busy(two, 2);
      await clock.advance(1);
      const both = new CompositeLimiter([one, two]);
      const first = both.acquire();
      void both.acquire();
      await clock.advance(ms);
      controller.abort();
      await clock.advance(100);
      expect(await settled(first)).toBe(true);
      // The second waits for `one`, which the first still holds; of `two` one is available, and no other waiter needs it.
      expect((await two.tryAcquire()).granted).toBe(true);
    },
  );

  it("limiters that several callers share serve a composite with remote parts in its turn, although others always wait", async () => {
    const clock = new FakeClock();
    const leaf = new ConcurrencyLimiter(1, { clock });
    keepBusy(leaf, clock, 10);
    await clock.advance(1);
    const mixed = new CompositeLimiter([leaf, new SixMethodLimiter(9)]).acquire();
    await clock.advance(1);
    const later = keepBusy(leaf, clock, 10);
    await clock.advance(100);
    expect(await settled(mixed)).toBe(true);
    expect(later.started).toBe(0);
    await (await mixed).release();
    await clock.advance(100);
    expect(later.started).toBeGreaterThan(2);
  });

  it("limiters that several callers share record a start once, however often they are contained", async () => {
    const slots = new ConcurrencyLimiter(5);
    const twice = new CompositeLimiter([slots, new CompositeLimiter([slots])]);
    await twice.recordJobStart();
    expect(slots.running).toBe(1);
    await twice.recordJobCompletion();
    expect(slots.running).toBe(0);
    const storage = new InMemoryRateLimiterStorage();
    await new CompositeLimiter([
      new RateLimiter(storage, "x", { maxExecutions: 10, windowSizeInSeconds: 1 }),
      new RateLimiter(storage, "x", { maxExecutions: 300, windowSizeInSeconds: 60 }),
    ]).recordJobStart();
    expect(await storage.getExecutionCount("x", new Date(Date.now() - 60_000).toISOString())).toBe(1);
  });
});

describe("clear()", () => {
  it("clear() resets everything before any waiter starts", async () => {
    const clock = new FakeClock();
    const even = new EvenlySpacedRateLimiter({ maxExecutions: 10, windowSizeInSeconds: 1, clock });
    await (await even.acquire()).settle(20);
    await clock.advance(200);
    const starts: number[] = [];
    for (let i = 0; i < 3; i++) void even.acquire().then(() => starts.push(clock.now()));
    await clock.advance(50);
    await even.clear();
    await clock.advance(500);
    expect(starts).toEqual([250, 350, 450]);
  });

  it("clear() does not let an adaptive limiter start twice what it allows", async () => {
    const clock = new FakeClock();
    const limiter = new AdaptiveLimiter({ clock, initial: 10 });
    await limiter.recordRateLimited();
    let started = 0;
    for (let i = 0; i < 60; i++) void limiter.acquire().then(() => (started += 1));
    await clock.advance(2_500);
    const before = started;
    await limiter.clear();
    await clock.advance(999);
    expect(started - before).toBe(10);
  });

  it("clear() resets all children of a composite before any waiter starts", async () => {
    const clock = new FakeClock();
    const rate = (maxExecutions: number) =>
      new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "x", { maxExecutions, windowSizeInSeconds: 1 });
    const [loose, tight] = [rate(5), rate(2)];
    const adaptive = new AdaptiveLimiter({ clock, initial: 10 });
    for (let i = 0; i < 4; i++) {
      await adaptive.recordRateLimited();
      await clock.advance(2_000);
    }
    const composite = new CompositeLimiter([adaptive, loose, tight]);
    let started = 0;
    for (let i = 0; i < 20; i++) void composite.acquire().then(() => (started += 1));
    await clock.advance(500);
    const before = started;
    await composite.clear();
    await clock.advance(999);
    expect(started - before).toBe(2);
  });
});
