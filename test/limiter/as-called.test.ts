import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  limit,
  type Limiter,
  Limits,
  MemoryStorage,
  RateLimiter,
  InMemoryRateLimiterStorage,
  rateLimit,
} from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { callPermit, toBeCalled } from "../../src/limiter/line-limiter.ts";
import { granted, worstWindow } from "./support.ts";

/** The event loop stands still for so long. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

const WINDOW = { maxExecutions: 5, windowSizeInSeconds: 0.03 };

/** The same limit, five in any 30 ms, kept in different storages. */
const LIMITERS: Readonly<Record<string, (clock?: FakeClock) => Promise<Limiter>>> = {
  "in this process": async (clock) => new RateLimiter(new MemoryStorage({ clock }).rates, "api", WINDOW),
  "in a composite": async (clock) =>
    new CompositeLimiter([
      new ConcurrencyLimiter(100),
      new RateLimiter(new MemoryStorage({ clock }).rates, "api", WINDOW),
    ]),
  "in SQLite": async (clock) =>
    new RateLimiter(new SqliteStorage(":memory:", { clock }).rates, "api", { ...WINDOW, clock }),
  "as a shared limit": async (clock) => {
    const storage = new MemoryStorage({ clock });
    await new Limits(storage, { clock }).define({ api: { max: 5, per: 30, all: true } });
    return storage.limiter("api");
  },
  "as a shared limit in SQLite": async (clock) => {
    const storage = new SqliteStorage(":memory:", { clock });
    await new Limits(storage, { clock }).define({ api: { max: 5, per: 30, all: true } });
    return storage.limiter("api");
  },
};

for (const [where, make] of Object.entries(LIMITERS)) {
  describe(`a limit ${where}`, () => {
    it("a limit is exact by the instants at which permits arrive, though the holder of one blocks the event loop", async () => {
      const limiter = await make();
      const calls: number[] = [];
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          await limiter.acquire();
          if (calls.length % 5 === 0) block(25);
          calls.push(performance.now());
        }),
      );
      expect(worstWindow(calls, 30)).toBeLessThanOrEqual(5);
    });

    it("a limit is exact by the instants of wrapped calls, whatever they do before they wait", async () => {
      const limiter = await make();
      const calls: number[] = [];
      const wrapped = limit(async () => {
        calls.push(performance.now());
        if (calls.length % 4 === 1) block(20);
      }, limiter);
      await Promise.all(Array.from({ length: 20 }, () => wrapped()));
      expect(worstWindow(calls, 30)).toBeLessThanOrEqual(5);
    });

    it("a limit is available again when a permit was cancelled, used or not", async () => {
      const clock = new FakeClock();
      const limiter = await make(clock);
      const permits = await Promise.all(Array.from({ length: 5 }, () => limiter.acquire()));
      expect((await limiter.tryAcquire()).granted).toBe(false);
      for (const permit of permits) await permit.cancel();
      await Promise.all(Array.from({ length: 5 }, () => limiter.acquire()));
      expect((await limiter.tryAcquire()).granted).toBe(false);
    });
  });
}

describe("a permit whose holder reports when it is used", () => {
  it.each([
    [
      "a window",
      (clock: FakeClock) =>
        new RateLimiter(new MemoryStorage({ clock }).rates, "api", { maxExecutions: 1, windowSizeInSeconds: 0.1 }),
    ],
    ["spacing", (clock: FakeClock) => new DelayLimiter(100, { clock })],
  ])("a permit whose holder reports when it is used counts until then, and from then on: %s", async (_, make) => {
    const clock = new FakeClock();
    const limiter = make(clock);
    const permit = granted(await limiter.tryAcquire(toBeCalled({})));
    await clock.advance(500);
    expect((await limiter.tryAcquire()).granted).toBe(false);
    callPermit(permit);
    await clock.advance(99);
    expect((await limiter.tryAcquire()).granted).toBe(false);
    await clock.advance(1);
    expect((await limiter.tryAcquire()).granted).toBe(true);
  });
});

describe("calls that are only spaced", () => {
  it("calls that are only spaced keep the gap by the instants of the calls", async () => {
    const limiter = new DelayLimiter(10);
    const calls: number[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        await limiter.acquire();
        block(7);
        calls.push(performance.now());
      }),
    );
    expect(worstWindow(calls, 10)).toBe(1);
  });
});

describe("a caller that asks repeatedly without yielding to the event loop", () => {
  it("a caller that asks repeatedly without yielding to the event loop is granted the next permit when the window allows it", async () => {
    const limiter = new RateLimiter(new InMemoryRateLimiterStorage(), "api", {
      maxExecutions: 1,
      windowSizeInSeconds: 0.005,
    });
    let grants = 0;
    for (let asked = 0; asked < 10_000_000 && grants < 3; asked++) {
      if ((await limiter.tryAcquire()).granted) grants += 1;
    }
    expect(grants).toBe(3);
  });
});

describe("rateLimit", () => {
  it("rateLimit is never over as called, on the system's own clock, when the event loop is blocked again and again", async () => {
    const calls: number[] = [];
    const wrapped = rateLimit(
      async () => {
        calls.push(performance.now());
        if (calls.length % 7 === 0) block(12);
      },
      20,
      5,
    );
    await Promise.all(Array.from({ length: 60 }, () => wrapped()));
    expect(worstWindow(calls, 20)).toBeLessThanOrEqual(5);
  });
});
