import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { JobRateLimiter, OptionsError, rateLimit1, resolveAfter, serializePromises } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";

/*
 * The building blocks that promises are limited with, under the names they are known by. They take their time from the system, so
 * it is the system's time that stands still until it is moved.
 */
beforeAll(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "Date", "performance"] });
});
afterAll(() => {
  vi.useRealTimers();
});
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("the documented promise blocks", () => {
  it("resolveAfter resolves when the time has passed, and not before", async () => {
    let resolved = false;
    void resolveAfter(100).then(() => (resolved = true));
    await advance(99);
    expect(resolved).toBe(false);
    await advance(1);
    expect(resolved).toBe(true);
    const atOnce = resolveAfter(0);
    await advance(0);
    await atOnce;
    expect(() => resolveAfter(-1)).toThrow(OptionsError);
  });

  it("rateLimit1 starts one operation per interval, the first at once", async () => {
    const started: [string, number][] = [];
    const begin = performance.now();
    const slowFetch = rateLimit1(async (url: string) => {
      started.push([url, performance.now() - begin]);
      return { json: async () => `page of ${url}` };
    }, 1000);

    const pages = Promise.all(["a", "b", "c"].map((u) => slowFetch(u))).then((raw) =>
      Promise.all(raw.map((p) => p.json())),
    );

    await advance(5_000);
    expect(await pages).toEqual(["page of a", "page of b", "page of c"]);
    expect(started).toEqual([
      ["a", 0],
      ["b", 1_000],
      ["c", 2_000],
    ]);
  });

  it("rateLimit1 can be built on serializePromises and resolveAfter, delaying the first operation", async () => {
    const starts: number[] = [];
    const begin = performance.now();
    function delayed<T>(fn: () => T, msPerOp: number): () => Promise<T> {
      const wait = serializePromises(() => resolveAfter(msPerOp));
      return () => wait().then(() => fn());
    }
    const operation = delayed(() => starts.push(performance.now() - begin), 100);
    void Promise.all([operation(), operation(), operation()]);
    await advance(1_000);
    expect(starts).toEqual([100, 200, 300]);
  });

  it("serializePromises goes on after an operation that failed", async () => {
    const events: string[] = [];
    const save = serializePromises(async (name: string) => {
      events.push(`${name} starts`);
      await resolveAfter(10);
      events.push(`${name} ends`);
      if (name === "first") throw new Error("disk full");
    });
    const outcomes = Promise.allSettled([save("first"), save("second")]);
    await advance(100);
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(events).toEqual(["first starts", "first ends", "second starts", "second ends"]);
  });
});

describe("the course's JobRateLimiter", () => {
  const RATE_LIMITS: Record<string, number> = { send_webhook: 30, send_email: 120 };

  it("lets so many of a type through in any minute, each type for itself", async () => {
    const clock = new FakeClock();
    const rateLimiter = new JobRateLimiter({ clock });
    const process = (type: string): boolean => {
      const can = rateLimiter.canProcess(type, RATE_LIMITS[type]!);
      if (can) rateLimiter.record(type);
      return can;
    };
    const many = (type: string, times: number) => Array.from({ length: times }, () => process(type)).filter(Boolean);
    expect(many("send_webhook", 20)).toHaveLength(20);
    await clock.advance(59_000);
    expect(many("send_webhook", 20)).toHaveLength(10);
    expect(many("send_email", 200)).toHaveLength(120);
    await clock.advance(1_000);
    expect(many("send_webhook", 50)).toHaveLength(20);
    await clock.advance(60_000);
    expect(many("send_webhook", 50)).toHaveLength(30);
  });

  it("tryProcess checks and counts in one step", async () => {
    const clock = new FakeClock();
    const rateLimiter = new JobRateLimiter({ clock });
    expect(Array.from({ length: 4 }, () => rateLimiter.tryProcess("sync", 3))).toEqual([true, true, true, false]);
    expect(rateLimiter.canProcess("sync", 4)).toBe(true);
    await clock.advance(60_000);
    expect(rateLimiter.tryProcess("sync", 3)).toBe(true);
  });

  it("refuses what is not a type or a number of starts", () => {
    const rateLimiter = new JobRateLimiter();
    expect(() => rateLimiter.canProcess("sync", 0)).toThrow("expected `maxPerMinute` to be an integer >= 1, got 0");
    expect(() => rateLimiter.record(5 as unknown as string)).toThrow(OptionsError);
    expect(() => new JobRateLimiter({ window: 5 } as object)).toThrow("there is no such option");
  });
});
