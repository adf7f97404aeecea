import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  AdaptiveLimiter,
  CompositeLimiter,
  ConcurrencyLimiter,
  holdFromHeaders,
  type HeaderSource,
  InMemoryRateLimiterStorage,
  OptionsError,
  RateLimiter,
  readRateLimitHeaders,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { SixMethodLimiter } from "./support.ts";

const clock = new FakeClock(Date.UTC(2030, 0, 1, 12, 0, 0));
const read = (headers: Record<string, string>) => readRateLimitHeaders(new Headers(headers), { clock });
const inSeconds = (s: number) => new Date(clock.wall() + s * 1_000);

describe("readRateLimitHeaders", () => {
  it.each([
    ["seconds", { "retry-after": "30" }, 30_000],
    ["seconds with a fraction", { "retry-after": "1.5" }, 1_500],
    ["zero", { "retry-after": "0" }, 0],
    ["an HTTP date", { "retry-after": inSeconds(90).toUTCString() }, 90_000],
    ["an HTTP date in the past", { "retry-after": inSeconds(-90).toUTCString() }, 0],
    [
      "a date by the clock of the service",
      { date: inSeconds(3_600).toUTCString(), "retry-after": inSeconds(3_605).toUTCString() },
      5_000,
    ],
    ["seconds, sent twice", { "retry-after": "120, 60" }, 120_000],
    ["the oldest form of a date", { "retry-after": "Tue Jan  1 12:00:05 2030" }, 5_000],
    ["the second oldest", { "retry-after": "Tuesday, 01-Jan-30 12:00:05 GMT" }, 5_000],
    ["milliseconds", { "retry-after-ms": "250", "retry-after": "1" }, 250],
  ])("Retry-After as %s", (_, headers, expected) => {
    expect(read(headers as Record<string, string>)).toMatchObject({ retryInMs: expected, holdMs: expected });
  });

  it.each([
    [
      "seconds from now",
      { "x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "42" },
      42_000,
    ],
    [
      "an instant in seconds",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": `${clock.wall() / 1_000 + 42}` },
      42_000,
    ],
    [
      "an instant in milliseconds",
      { "x-rate-limit-remaining": "0", "x-rate-limit-reset": `${clock.wall() + 42_000}` },
      42_000,
    ],
    ["a span, for requests", { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s" }, 62_500],
    ["a span, for tokens", { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms" }, 120],
    [
      "an RFC 3339 instant",
      { "anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": inSeconds(7).toISOString() },
      7_000,
    ],
    [
      "input tokens",
      {
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": inSeconds(7).toISOString(),
      },
      7_000,
    ],
    ["the three IETF fields", { "ratelimit-limit": "100", "ratelimit-remaining": "0", "ratelimit-reset": "5" }, 5_000],
    ["more than used up", { "x-ratelimit-remaining": "-3", "x-ratelimit-reset": "5" }, 5_000],
    ["the IETF field", { ratelimit: '"default";r=0;t=30' }, 30_000],
    [
      "the IETF field without a time, by its policy",
      { ratelimit: '"a";r=0', "ratelimit-policy": '"a";q=5;w=60' },
      60_000,
    ],
    ["the IETF field with several quotas", { ratelimit: '"burst";r=3;t=1, "daily";r=0;t=4000' }, 4_000_000],
    ["the IETF field as it was", { ratelimit: "limit=100, remaining=0, reset=5" }, 5_000],
  ])("a quota that is used up, reset as %s", (_, headers, expected) => {
    expect(read(headers as Record<string, string>).holdMs).toBe(expected);
  });

  it("readRateLimitHeaders reports quotas that are not used up, and holds nothing for them", () => {
    expect(
      read({
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "12",
        "anthropic-ratelimit-requests-reset": inSeconds(20).toISOString(),
        ratelimit: '"day";r=7;t=60',
      }),
    ).toEqual({
      status: undefined,
      retryInMs: undefined,
      quotas: [
        { name: "requests", limit: 50, remaining: 12, resetInMs: 20_000 },
        { name: "day", limit: undefined, remaining: 7, resetInMs: 60_000 },
      ],
      holdMs: 0,
    });
  });

  it("readRateLimitHeaders uses the longest of several holds", () => {
    expect(
      read({
        "retry-after": "3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "10s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "2s",
      }).holdMs,
    ).toBe(10_000);
  });

  it.each([
    "",
    "soon",
    "-1",
    "1e9",
    "NaN",
    "Infinity",
    "0x10",
    "12abc",
    "9".repeat(400),
    "Tomorrow, maybe",
    "1m1",
    "about 2099",
    "maybe 5",
    "5, soon",
  ])("readRateLimitHeaders makes nothing of %j", (text) => {
    expect(
      read({ "retry-after": text, "x-ratelimit-remaining": "0", "x-ratelimit-reset": text, ratelimit: text }).holdMs,
    ).toBe(0);
  });

  it("readRateLimitHeaders holds for a day at most by default", () => {
    expect(read({ "retry-after": "99999999" }).holdMs).toBe(86_400_000);
    const headers = new Headers({ "retry-after": "99999999" });
    expect(readRateLimitHeaders(headers, { clock, maxHold: "1m" }).holdMs).toBe(60_000);
  });

  it("readRateLimitHeaders survives any input, quickly, and never returns a negative number", () => {
    const text = fc.oneof(
      fc.string(),
      fc.stringMatching(/^[\d.;,="smhd rt:-]*$/),
      fc.date({ noInvalidDate: true }).map(String),
    );
    fc.assert(
      fc.property(text, text, text, (a, b, c) => {
        const values: Record<string, string> = {
          "retry-after": a,
          ratelimit: b,
          "x-ratelimit-reset": c,
          date: b,
          "x-ratelimit-remaining": "0",
        };
        const { holdMs } = readRateLimitHeaders({ get: (name) => values[name] ?? null }, { clock });
        expect(holdMs).toBeGreaterThanOrEqual(0);
        expect(holdMs).toBeLessThanOrEqual(86_400_000);
      }),
    );
  });

  it("readRateLimitHeaders refuses what has no headers", () => {
    for (const source of [undefined, null, 429, "retry-after: 3", {}, { headers: { "retry-after": "3" } }]) {
      expect(() => readRateLimitHeaders(source as unknown as HeaderSource)).toThrow(OptionsError);
    }
  });
});

describe("holdFromHeaders", () => {
  it("holdFromHeaders holds any limiter for as long as the response says", async () => {
    const limiter = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "api", {
      maxExecutions: 5,
      windowSizeInSeconds: 1,
    });
    const response = new Response(null, { status: 429, headers: { "retry-after": "30" } });
    expect(await holdFromHeaders(limiter, response, { clock })).toMatchObject({ status: 429, retryInMs: 30_000 });
    expect(await limiter.canProceed()).toBe(false);
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(clock.wall() + 30_001);

    const own = new SixMethodLimiter(1);
    const dates: Date[] = [];
    own.setNextAvailableTime = async (...given: Date[]) => void dates.push(...given);
    await holdFromHeaders(own, response.headers, { clock });
    expect(dates).toEqual([inSeconds(30.001)]);
  });

  it("holdFromHeaders goes by the clock of the limiter", async () => {
    const other = new FakeClock(Date.UTC(2040, 0, 1));
    const limiter = new ConcurrencyLimiter(1, { clock: other });
    await holdFromHeaders(limiter, new Headers({ "retry-after": "60" }));
    expect((await limiter.getNextAvailableTime()).getTime()).toBe(other.wall() + 60_001);
  });

  it("holdFromHeaders does not hold a limiter without a rate-limit header", async () => {
    const limiter = new ConcurrencyLimiter(1, { clock });
    await holdFromHeaders(limiter, new Response("fine"), { clock });
    expect(await limiter.canProceed()).toBe(true);
  });

  it("holdFromHeaders teaches an adaptive limiter", async () => {
    const limiter = new AdaptiveLimiter({ initial: 8, clock });
    await holdFromHeaders(limiter, new Response(null, { status: 429 }), { clock });
    expect(limiter.allowance).toBe(4);
    while ((await limiter.tryAcquire()).granted);
    await clock.advance(1_000);
    await holdFromHeaders(limiter, new Response("fine"), { clock });
    expect(limiter.allowance).toBe(5);
    await holdFromHeaders(limiter, new Headers(), { clock }); // no status, no lesson
    expect(limiter.allowance).toBe(5);
    while ((await limiter.tryAcquire()).granted);
    await clock.advance(1_000);
    await holdFromHeaders(limiter, new Response(null, { status: 502 }), { clock }); // broken: that says nothing
    expect(limiter.allowance).toBe(5);
    const busy = new Response(null, { status: 503, headers: { "retry-after": "1" } });
    await holdFromHeaders(new CompositeLimiter([new ConcurrencyLimiter(1, { clock }), limiter]), busy, { clock });
    expect(limiter.allowance).toBe(2);
  });
});
