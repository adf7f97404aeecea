import { describe, expect, it } from "vitest";
import {
  AdaptiveLimiter,
  concurrencyLimit,
  ConcurrencyLimiter,
  DelayLimiter,
  EvenlySpacedRateLimiter,
  holdFromHeaders,
  InMemoryRateLimiterStorage,
  limit,
  NullLimiter,
  OptionsError,
  rateLimit,
  RateLimiter,
  readRateLimitHeaders,
} from "../../src/index.ts";

/* Everything here is given on purpose what its type forbids. */
// oxlint-disable-next-line typescript/no-explicit-any
type Anything = any;

const storage = new InMemoryRateLimiterStorage();
const rate = { maxExecutions: 1, windowSizeInSeconds: 1 };
const fn = () => 1;

/** A way to give one option a value, and what kinds of values are right. */
interface Subject {
  readonly option: string;
  readonly kind: Kind;
  readonly give: (value: Anything) => unknown;
}

type Kind =
  | "weight"
  | "count"
  | "count or zero"
  | "count or Infinity"
  | "positive"
  | "growth"
  | "shrinkage"
  | "duration"
  | "positive duration"
  | "name"
  | "word"
  | "function"
  | "clock"
  | "signal";

const strings = ["", "5", "many"];
const neverRight: readonly unknown[] = [null, true, [], {}, [3], { valueOf: () => 3 }, 3n, Symbol("3")];
const notNumbers = [...neverRight, ...strings, () => 3, Number.NaN, Number.NEGATIVE_INFINITY, -1, -0.5];

/** What each kind of option must refuse. `undefined` is refused only where there is no default. */
const WRONG: Record<Kind, readonly unknown[]> = {
  weight: [...notNumbers, 0, 1.5, Number.POSITIVE_INFINITY, 2 ** 32],
  count: [...notNumbers, 0, 1.5, Number.POSITIVE_INFINITY, 2 ** 53],
  "count or zero": [...notNumbers, 1.5, Number.POSITIVE_INFINITY, 2 ** 53],
  "count or Infinity": [...notNumbers, 1.5, 2 ** 53],
  positive: [...notNumbers, 0, Number.POSITIVE_INFINITY, 1e-320, 1e306],
  growth: [...notNumbers, 0, 0.5, 1, Number.POSITIVE_INFINITY],
  shrinkage: [...notNumbers, 0, 1, 1.5, Number.POSITIVE_INFINITY],
  duration: [
    ...neverRight,
    ...strings,
    "5 s",
    "-5s",
    "5S",
    "5y",
    "s",
    "1e3ms",
    Number.NaN,
    -1,
    Number.POSITIVE_INFINITY,
  ],
  "positive duration": [...neverRight, ...strings, 0, "0s", "5 s", "-5s", Number.NaN, -1, Number.POSITIVE_INFINITY],
  name: [null, true, [], {}, 3, 3n, Symbol("3"), () => "x", "", "x".repeat(256)],
  word: [null, true, [], {}, 3, 3n, "", "Weight", "strict ", "other"],
  function: [null, true, [], {}, 3, 3n, "", "fn"],
  clock: [null, true, [], {}, 3, "", { now: fn, wall: fn }, () => 3],
  signal: [
    null,
    true,
    [],
    {},
    3,
    "",
    { aborted: false },
    { aborted: false, addEventListener: fn },
    new AbortController(),
  ],
};

const subjects: Subject[] = [
  { option: "maxConcurrentJobs", kind: "count or zero", give: (v) => new ConcurrencyLimiter(v) },
  {
    option: "maxConcurrentJobs",
    kind: "count or zero",
    give: (v) => (new ConcurrencyLimiter(1).maxConcurrentJobs = v),
  },
  { option: "count", kind: "word", give: (v) => new ConcurrencyLimiter(1, { count: v }) },
  { option: "name", kind: "name", give: (v) => new ConcurrencyLimiter(1, { name: v }) },
  { option: "clock", kind: "clock", give: (v) => new ConcurrencyLimiter(1, { clock: v }) },

  { option: "delayInMilliseconds", kind: "positive", give: (v) => new DelayLimiter(v) },
  { option: "name", kind: "name", give: (v) => new DelayLimiter(1, { name: v }) },
  { option: "clock", kind: "clock", give: (v) => new DelayLimiter(1, { clock: v }) },

  { option: "maxExecutions", kind: "count", give: (v) => new EvenlySpacedRateLimiter({ ...rate, maxExecutions: v }) },
  {
    option: "windowSizeInSeconds",
    kind: "positive",
    give: (v) => new EvenlySpacedRateLimiter({ ...rate, windowSizeInSeconds: v }),
  },
  { option: "guard", kind: "duration", give: (v) => new EvenlySpacedRateLimiter({ ...rate, guard: v }) },
  { option: "spacing", kind: "word", give: (v) => new EvenlySpacedRateLimiter({ ...rate, spacing: v }) },
  { option: "count", kind: "word", give: (v) => new EvenlySpacedRateLimiter({ ...rate, count: v }) },
  { option: "name", kind: "name", give: (v) => new EvenlySpacedRateLimiter({ ...rate, name: v }) },
  { option: "clock", kind: "clock", give: (v) => new EvenlySpacedRateLimiter({ ...rate, clock: v }) },

  { option: "queueName", kind: "name", give: (v) => new RateLimiter(storage, v, rate) },
  { option: "maxExecutions", kind: "count", give: (v) => new RateLimiter(storage, "q", { ...rate, maxExecutions: v }) },
  {
    option: "windowSizeInSeconds",
    kind: "positive",
    give: (v) => new RateLimiter(storage, "q", { ...rate, windowSizeInSeconds: v }),
  },
  {
    option: "initialBackoffDelay",
    kind: "positive",
    give: (v) => new RateLimiter(storage, "q", { ...rate, initialBackoffDelay: v }),
  },
  {
    option: "backoffMultiplier",
    kind: "growth",
    give: (v) => new RateLimiter(storage, "q", { ...rate, backoffMultiplier: v }),
  },
  {
    option: "maxBackoffDelay",
    kind: "positive",
    give: (v) => new RateLimiter(storage, "q", { ...rate, maxBackoffDelay: v }),
  },
  { option: "guard", kind: "duration", give: (v) => new RateLimiter(storage, "q", { ...rate, guard: v }) },
  {
    option: "grantTtl",
    kind: "positive duration",
    give: (v) => new RateLimiter(storage, "q", { ...rate, grantTtl: v }),
  },
  { option: "count", kind: "word", give: (v) => new RateLimiter(storage, "q", { ...rate, count: v }) },
  { option: "random", kind: "function", give: (v) => new RateLimiter(storage, "q", { ...rate, random: v }) },
  { option: "clock", kind: "clock", give: (v) => new RateLimiter(storage, "q", { ...rate, clock: v }) },

  { option: "floor", kind: "count", give: (v) => new AdaptiveLimiter({ floor: v }) },
  { option: "ceiling", kind: "count", give: (v) => new AdaptiveLimiter({ ceiling: v }) },
  { option: "initial", kind: "count", give: (v) => new AdaptiveLimiter({ initial: v }) },
  { option: "windowSizeInSeconds", kind: "positive", give: (v) => new AdaptiveLimiter({ windowSizeInSeconds: v }) },
  { option: "increase", kind: "positive", give: (v) => new AdaptiveLimiter({ increase: v }) },
  { option: "decrease", kind: "shrinkage", give: (v) => new AdaptiveLimiter({ decrease: v }) },
  { option: "guard", kind: "duration", give: (v) => new AdaptiveLimiter({ guard: v }) },
  { option: "count", kind: "word", give: (v) => new AdaptiveLimiter({ count: v }) },
  { option: "name", kind: "name", give: (v) => new AdaptiveLimiter({ name: v }) },
  { option: "clock", kind: "clock", give: (v) => new AdaptiveLimiter({ clock: v }) },

  { option: "clock", kind: "clock", give: (v) => new InMemoryRateLimiterStorage({ clock: v }) },

  { option: "fn", kind: "function", give: (v) => limit(v, new NullLimiter()) },
  { option: "maxQueue", kind: "count or Infinity", give: (v) => limit(fn, new NullLimiter(), { maxQueue: v }) },
  { option: "signal", kind: "signal", give: (v) => limit(fn, new NullLimiter(), { signal: v }) },
  { option: "weight", kind: "function", give: (v) => limit(fn, new NullLimiter(), { weight: v }) },
  { option: "settle", kind: "function", give: (v) => limit(fn, new NullLimiter(), { settle: v }) },
  { option: "windowMs", kind: "positive", give: (v) => rateLimit(fn, v) },
  { option: "requests", kind: "count", give: (v) => rateLimit(fn, 1, v) },
  { option: "max", kind: "count or zero", give: (v) => concurrencyLimit(fn, v) },

  { option: "maxHold", kind: "positive duration", give: (v) => readRateLimitHeaders(new Headers(), { maxHold: v }) },
  { option: "clock", kind: "clock", give: (v) => readRateLimitHeaders(new Headers(), { clock: v }) },
];

function failureOf(give: () => unknown): unknown {
  try {
    give();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("bad input", () => {
  it.each(subjects.map((subject) => [`${subject.give}`.replace("(v) => ", ""), subject] as const))(
    "%s",
    (_, { option, kind, give }) => {
      for (const value of WRONG[kind]) {
        const error = failureOf(() => give(value));
        expect(error, `${option}: ${String(value)}`).toBeInstanceOf(OptionsError);
        expect(error).toMatchObject({ code: "SLUICE_OPTIONS", option, value });
        expect((error as OptionsError).message).toContain(`\`${option}\``);
      }
    },
  );

  const withOptions: Record<string, (options: Anything) => unknown> = {
    ConcurrencyLimiter: (options) => new ConcurrencyLimiter(1, options),
    DelayLimiter: (options) => new DelayLimiter(1, options),
    EvenlySpacedRateLimiter: (options) => new EvenlySpacedRateLimiter(options),
    RateLimiter: (options) => new RateLimiter(storage, "q", options),
    AdaptiveLimiter: (options) => new AdaptiveLimiter(options),
    InMemoryRateLimiterStorage: (options) => new InMemoryRateLimiterStorage(options),
    limit: (options) => limit(fn, new NullLimiter(), options),
    rateLimit: (options) => rateLimit(fn, 1, 1, options),
    concurrencyLimit: (options) => concurrencyLimit(fn, 1, options),
    readRateLimitHeaders: (options) => readRateLimitHeaders(new Headers(), options),
  };

  it.each(Object.entries(withOptions))(
    "%s refuses options that are no object, and names that it does not know",
    (owner, give) => {
      for (const options of [null, 3, "max", true, [], () => 1, new Map()]) {
        expect(failureOf(() => give(options))).toMatchObject({ option: "options", value: options });
      }
      const unknown = failureOf(() => give({ ...rate, maximum: 3 }));
      expect(unknown).toBeInstanceOf(OptionsError);
      expect((unknown as Error).message).toMatch(new RegExp(`^${owner}: expected \`(maximum|maxExecutions)\``));
    },
  );

  it("the error for a misspelt option suggests the right one", () => {
    expect(() => new RateLimiter(storage, "q", { maxExecution: 5, windowSizeInSeconds: 1 } as Anything)).toThrow(
      "RateLimiter: expected `maxExecution` to be left out (there is no such option), got 5 (number); did you mean `maxExecutions`?",
    );
    expect(() => new EvenlySpacedRateLimiter({ ...rate, windowSizeInsSeconds: 5 } as Anything)).toThrow(
      /did you mean `windowSizeInSeconds`/,
    );
    expect(() => limit(fn, new NullLimiter(), { maxqueue: 5 } as Anything)).toThrow(/did you mean `maxQueue`/);
    expect(() => new AdaptiveLimiter({ zzzzzzzz: 5 } as Anything)).toThrow(/known options: .*floor/);
    expect(() => new AdaptiveLimiter(JSON.parse('{ "__proto__": 5 }'))).toThrow(/`__proto__`/);
  });

  it("the error for a missing option names it", () => {
    expect(() => new (RateLimiter as Anything)(storage, "q")).toThrow(/`options` to be an object, got undefined/);
    expect(() => new RateLimiter(storage, "q", { windowSizeInSeconds: 1 } as Anything)).toThrow(
      "RateLimiter: expected `maxExecutions` to be an integer >= 1, got undefined",
    );
    expect(() => new (ConcurrencyLimiter as Anything)()).toThrow(
      /`maxConcurrentJobs` to be an integer >= 0, got undefined/,
    );
    expect(() => new (EvenlySpacedRateLimiter as Anything)()).toThrow(OptionsError);
    expect(() => (limit as Anything)(fn)).toThrow(/`limiter` to be a limiter, got undefined/);
    expect(() => (rateLimit as Anything)(fn)).toThrow(/`windowMs`/);
  });

  it("a RateLimiter refuses a maxBackoffDelay that is not above the initial one", () => {
    expect(() => new RateLimiter(storage, "q", { ...rate, initialBackoffDelay: 5, maxBackoffDelay: 5 })).toThrow(
      "RateLimiter: expected `maxBackoffDelay` to be greater than initialBackoffDelay (5), got 5 (number)",
    );
  });

  it("a RateLimiter refuses a clock that is not the storage's", () => {
    const other = { now: () => 0, wall: () => 0, after: () => () => {} };
    expect(() => new RateLimiter(storage, "q", { ...rate, clock: other })).toThrow(/the clock of its storage/);
  });

  it.each([
    ["weight", "weight"],
    ["signal", "signal"],
  ] as const)("acquire refuses a wrong %s, and takes nothing", async (option, kind) => {
    const limiter = new ConcurrencyLimiter(10);
    for (const value of WRONG[kind]) {
      await expect(limiter.acquire({ [option]: value } as Anything)).rejects.toMatchObject({ option, value });
      if (option === "weight")
        await expect(limiter.tryAcquire({ weight: value as number })).rejects.toBeInstanceOf(OptionsError);
    }
    await expect(limiter.acquire({ wieght: 2 } as Anything)).rejects.toThrow(/did you mean `weight`/);
    await expect(limiter.tryAcquire({ wieght: 2 } as Anything)).rejects.toThrow(/did you mean `weight`/);
    expect([limiter.running, limiter.waiting]).toEqual([0, 0]);
  });

  it("settle refuses a wrong weight and changes nothing", async () => {
    const limiter = new RateLimiter(new InMemoryRateLimiterStorage(), "q", {
      maxExecutions: 5,
      windowSizeInSeconds: 60,
    });
    const permit = await limiter.acquire({ weight: 5 });
    for (const value of WRONG["count or zero"]) {
      await expect(permit.settle(value as number)).rejects.toMatchObject({ option: "weight" });
    }
    expect(await limiter.canProceed()).toBe(false);
  });

  it("setNextAvailableTime refuses what is no date", async () => {
    const limiters = [new ConcurrencyLimiter(1), new DelayLimiter(1), new RateLimiter(storage, "q", rate)];
    for (const limiter of limiters) {
      for (const value of [undefined, null, 3, "2030-01-01", new Date(Number.NaN)]) {
        await expect(limiter.setNextAvailableTime(value as Date)).rejects.toMatchObject({ option: "date" });
      }
      expect(await limiter.canProceed()).toBe(true);
    }
    await expect(holdFromHeaders({} as Anything, new Headers())).rejects.toThrow(/`limiter`/);
  });

  it("bad input is printed without running any of it, and shortened", () => {
    const hostile = {
      get toString(): never {
        throw new Error("ran");
      },
    };
    expect(() => new ConcurrencyLimiter(hostile as Anything)).toThrow(/got an object$/);
    expect(() => new ConcurrencyLimiter("x".repeat(10_000) as Anything)).toThrow(/got "x{60}…" \(string\)$/);
    expect(() => new ConcurrencyLimiter(-0.5)).toThrow(/got -0.5 \(number\)$/);
    expect(() => new DelayLimiter(-0)).toThrow(/got -0 \(number\)$/);
  });

  it.each([
    [undefined, "undefined"],
    [null, "null"],
    [true, "true (boolean)"],
    [10n, "10n (bigint)"],
    [Symbol("x"), "a symbol"],
    [() => {}, "a function"],
    [[1], "an array"],
  ])("bad input is printed with its type: %#", (value, text) => {
    expect(() => new ConcurrencyLimiter(value as Anything)).toThrow(`got ${text}`);
  });

  it("the error for a weight that never fits names the option that helps, for the limiters that have it", async () => {
    const options = { weight: () => 3 };
    await expect(rateLimit(() => {}, 1_000, 2, options)()).rejects.toThrow(/at most 2, .* got 3 \(number\)$/);
    await expect(limit(() => {}, new ConcurrencyLimiter(2), options)()).rejects.toThrow(/`count: "starts"`$/);
  });
});
