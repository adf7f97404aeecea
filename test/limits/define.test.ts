import { runInNewContext } from "node:vm";
import { describe, expect, expectTypeOf, it } from "vitest";
import {
  type DefinedLimits,
  defineLimits,
  type LimitDefinition,
  type LimitDefinitions,
  Limits,
  MemoryStorage,
  OptionsError,
} from "../../src/index.ts";
import { readLimits } from "../../src/limits/define.ts";

/** The error that these definitions are refused with. */
function refusal(definitions: unknown, options: unknown = {}): OptionsError {
  try {
    defineLimits(definitions as LimitDefinitions, options as object);
  } catch (error) {
    expect(error).toBeInstanceOf(OptionsError);
    return error as OptionsError;
  }
  throw new Error("it was not refused");
}

/** Not a plain object. */
class Own {
  readonly a = { every: 1, all: true };
}

/** One limit, the rest of which is right. */
const windowed = (rest: object) => ({ mail: { max: 10, per: "1s", types: ["send"], ...rest } });

describe("defineLimits", () => {
  it("defineLimits accepts the example of the guide", () => {
    const limits = defineLimits({
      email_provider: { max: 120, per: "1m", types: ["send_email", "send_digest"] },
      openai_tokens: { max: 200_000, per: "1m", weight: "tokens", estimate: 1_500, types: ["chat"] },
      tenant: { max: 10, per: "1s", by: "group", overrides: { acme: { max: 50 } } },
      gpu: { concurrency: 2, types: ["infer"] },
      crawler: { every: "500ms", queues: ["crawl"] },
    });
    const none = { max: null, windowMs: null, concurrency: null, everyMs: null };
    const rule = {
      types: null,
      queues: null,
      byGroup: false,
      groups: {},
      weight: null,
      estimate: 1,
      breaker: null,
      paused: false,
    };
    expect(limits).toMatchObject({ onConflict: "update", version: null, owner: null });
    expect(limits.rules).toEqual([
      {
        ...rule,
        name: "email_provider",
        quota: { ...none, max: 120, windowMs: 60_000 },
        types: ["send_digest", "send_email"],
      },
      {
        ...rule,
        name: "openai_tokens",
        quota: { ...none, max: 200_000, windowMs: 60_000 },
        types: ["chat"],
        weight: "tokens",
        estimate: 1_500,
      },
      {
        ...rule,
        name: "tenant",
        quota: { ...none, max: 10, windowMs: 1_000 },
        byGroup: true,
        groups: { acme: { max: 50 } },
      },
      { ...rule, name: "gpu", quota: { ...none, concurrency: 2 }, types: ["infer"] },
      { ...rule, name: "crawler", quota: { ...none, everyMs: 500 }, queues: ["crawl"] },
    ]);
  });

  it("defined limits are frozen", () => {
    const limits = defineLimits({
      tenant: {
        max: 5,
        per: "1s",
        types: ["a"],
        queues: ["q"],
        by: "group",
        overrides: { acme: { max: 9 } },
        breaker: { failures: 1, open: "1s", kinds: ["E"] },
      },
    });
    const within = (value: unknown): object[] =>
      typeof value === "object" && value !== null ? [value, ...Object.values(value).flatMap((one) => within(one))] : [];
    // The whole, the list, the rule, its quota, types, queues, groups, that of acme, the breaker and its kinds.
    expect(within(limits)).toHaveLength(10);
    expect(within(limits).every((one) => Object.isFrozen(one))).toBe(true);
  });

  it("defineLimits accepts objects without a prototype, and of another realm", () => {
    const bare = Object.assign(Object.create(null) as object, { a: { every: 1, all: true } });
    const foreign: unknown = runInNewContext("({ a: { every: 1, all: true } })");
    for (const given of [bare, foreign]) expect(defineLimits(given as never).rules).toHaveLength(1);
  });

  it("defineLimits turns -0 into 0", () => {
    const [rule] = defineLimits({ a: { max: -0, per: 1, concurrency: -0, guard: -0, all: true } }).rules;
    expect([rule!.quota.max, rule!.quota.concurrency, rule!.quota.windowMs]).toEqual([0, 0, 1]);
    expect(Object.is(rule!.quota.max, 0)).toBe(true);
  });

  it("the order of names and properties does not change a rule", () => {
    const [one] = defineLimits({ a: { concurrency: 1, types: ["b", "a", "b"], queues: ["y", "x"] } }).rules;
    const [other] = defineLimits({ a: { queues: ["x", "y"], types: ["a", "b"], concurrency: 1 } }).rules;
    expect(JSON.stringify(one)).toBe(JSON.stringify(other));
    expect(one?.types).toEqual(["a", "b"]);
  });

  it("the guard is added to every window", () => {
    const [rule] = defineLimits({
      t: { max: 5, per: "1s", guard: "50ms", by: "group", overrides: { slow: { per: "2s" } } },
    }).rules;
    expect(rule?.quota.windowMs).toBe(1_050);
    expect(rule?.groups).toEqual({ slow: { windowMs: 2_050 } });
  });

  it("one limit may have breakers, shares and several amounts", () => {
    const [rule] = defineLimits({
      t: {
        max: 5,
        per: 1_000,
        concurrency: 0,
        every: "10ms",
        by: "group",
        types: ["a"],
        overrides: { big: { share: 3, concurrency: 4, every: "5ms" } },
        breaker: { failures: 3, open: "30s", kinds: ["TypeError", "E2", "TypeError"] },
      },
    }).rules;
    expect(rule?.quota).toEqual({ max: 5, windowMs: 1_000, concurrency: 0, everyMs: 10 });
    expect(rule?.groups).toEqual({ big: { share: 3, concurrency: 4, everyMs: 5 } });
    expect(rule?.breaker).toEqual({ failures: 3, openMs: 30_000, probes: 1, kinds: ["E2", "TypeError"] });
    const [any] = defineLimits({ t: { every: 1, all: true, breaker: { failures: 1, open: 5, probes: 2 } } }).rules;
    expect(any?.breaker).toEqual({ failures: 1, openMs: 5, probes: 2, kinds: null });
  });

  it("names like `__proto__` and `constructor` are accepted like any other", () => {
    const overrides = JSON.parse('{"__proto__": {"max": 2}, "constructor": {"max": 3}}') as Record<
      string,
      { max: number }
    >;
    const [rule] = defineLimits({ constructor: { max: 1, per: 1, by: "group" as const, overrides } }).rules;
    expect(rule?.name).toBe("constructor");
    expect(Object.entries(rule?.groups ?? {})).toEqual([
      ["__proto__", { max: 2 }],
      ["constructor", { max: 3 }],
    ]);
  });

  it.each<[what: string, definitions: unknown, option: string, message: RegExp]>([
    [
      "no object",
      [],
      "limits",
      /^defineLimits: expected `limits` to be what defineLimits\(\) gives, or a plain object/,
    ],
    [
      "a promise of limits",
      Promise.resolve({ a: { every: 1, all: true } }),
      "limits",
      /a plain object of limits by name/,
    ],
    ["a Limits", new Limits(new MemoryStorage()), "limits", /a plain object/],
    ["a Date", new Date(), "limits", /a plain object/],
    ["a RegExp", /x/, "limits", /a plain object/],
    ["a Map", new Map(), "limits", /a plain object/],
    ["a WeakMap", new WeakMap(), "limits", /a plain object/],
    ["something of a class", new Own(), "limits", /a plain object/],
    ["what is only inherited", Object.create({ a: { every: 1, all: true } }), "limits", /a plain object/],
    ["overrides of a class", windowed({ by: "group", overrides: new Date() }), "overrides", /a plain object of names/],
    ["no definition", { mail: 5 }, "options", /^defineLimits limits\.mail: /],
    ["a misspelt option", windowed({ conurrency: 2 }), "conurrency", /limits\.mail: .*did you mean `concurrency`/],
    ["an unknown option", windowed({ zebra: 2 }), "zebra", /known options: max, per/],
    ["max without per", { mail: { max: 1, types: ["a"] } }, "per", /limits\.mail: expected `per`.*with `max`/],
    ["per without max", { mail: { per: "1s", types: ["a"] } }, "max", /expected `max`.*with `per`/],
    ["no amount", { mail: { types: ["a"] } }, "max", /or else `concurrency` or `every`/],
    ["a fraction", windowed({ max: 1.5 }), "max", /an integer >= 0, got 1\.5/],
    ["less than nothing", windowed({ concurrency: -1 }), "concurrency", /an integer >= 0/],
    ["text for a number", windowed({ max: "10" }), "max", /an integer >= 0, got "10"/],
    ["null", windowed({ max: null }), "max", /got null/],
    ["a window of nothing", windowed({ per: 0 }), "per", /a duration > 0/],
    ["a duration in no unit", windowed({ per: "1 minute" }), "per", /a duration > 0/],
    ["spacing of nothing", windowed({ every: "0s" }), "every", /a duration > 0/],
    ["a guard before nothing", windowed({ guard: -1 }), "guard", /a duration >= 0/],
    ["a guard without a window", { a: { concurrency: 1, guard: 5, all: true } }, "guard", /no window/],
    ["nothing that says for which jobs", { a: { concurrency: 1 } }, "all", /true where none of `types`/],
    ["all and types", windowed({ all: true }), "all", /left out where `types`/],
    ["all and groups", { a: { every: 1, by: "group", all: true } }, "all", /left out where `types`/],
    ["all that is not true", { a: { every: 1, all: false } }, "all", /true, or left out/],
    ["no types", windowed({ types: [] }), "types", /at least one/],
    ["one type that is no array", windowed({ types: "send" }), "types", /an array of names/],
    ["a hole among types", windowed({ types: [, "a"] }), "types", /an array of names/], // oxlint-disable-line no-sparse-arrays
    ["an empty name", windowed({ queues: [""] }), "queues", /1 to 255/],
    ["by an empty name", windowed({ by: "" }), "by", /"group", the name of a key of jobs, or an array/],
    ["by a number", windowed({ by: 5 }), "by", /the name of a key/],
    ["by nothing", windowed({ by: [] }), "by", /1 to 8 different names/],
    ["by a name twice", windowed({ by: ["tenant", "tenant"] }), "by", /1 to 8 different names/],
    ["by a hole", windowed({ by: [, "tenant"] }), "by", /1 to 8 different names/], // oxlint-disable-line no-sparse-arrays
    ["by nine names", windowed({ by: "abcdefghi".split("") }), "by", /1 to 8 different names/],
    [
      "overrides of several keys",
      windowed({ by: ["tenant", "model"], overrides: { a: { max: 1 } } }),
      "overrides",
      /left out where there are several names in `by`/,
    ],
    [
      "a share of a key",
      windowed({ by: "tenant", overrides: { a: { share: 2 } } }),
      "share",
      /overrides\.a: .*left out where it is not `by: "group"`: only groups take turns/,
    ],
    [
      "an override of no name",
      windowed({ by: "tenant", overrides: { "": { max: 1 } } }),
      "name of a tenant in `overrides`",
      /1 to 255/,
    ],
    [
      "an estimate that never fits for a key",
      windowed({ weight: "t", estimate: 5, by: "tenant", overrides: { small: { max: 4 } } }),
      "estimate",
      /at most 4, all that ever fits for the tenant "small"/,
    ],
    ["overrides of no groups", windowed({ overrides: { a: { max: 1 } } }), "overrides", /by: "group"/],
    ["overrides that are no object", windowed({ by: "group", overrides: [1] }), "overrides", /a plain object of names/],
    ["an override of nothing", windowed({ by: "group", overrides: { a: {} } }), "max", /overrides\.a: .*or else `per`/],
    ["a misspelt override", windowed({ by: "group", overrides: { a: { mx: 1 } } }), "mx", /did you mean `max`/],
    [
      "a share of nothing",
      windowed({ by: "group", overrides: { a: { share: 0 } } }),
      "share",
      /an integer from 1 to 2147483647/,
    ],
    [
      "half a window for a group",
      { a: { concurrency: 1, by: "group", overrides: { b: { max: 1 } } } },
      "per",
      /overrides\.b: .*no window of its own/,
    ],
    [
      "a window for a group where concurrency is weighed",
      { a: { concurrency: 9, weight: "gb", by: "group", overrides: { b: { max: 1, per: 1 } } } },
      "max",
      /concurrency that is weighed/,
    ],
    ["a weight of spacing", { a: { every: 1, weight: "tokens", all: true } }, "weight", /neither `max` nor/],
    ["an estimate of nothing", windowed({ estimate: 5 }), "estimate", /no `weight`/],
    ["an estimate of zero", windowed({ weight: "t", estimate: 0 }), "estimate", /an integer from 1/],
    ["an estimate that never fits", windowed({ weight: "t", estimate: 11 }), "estimate", /at most 10/],
    [
      "an estimate that never fits for a group",
      windowed({ weight: "t", estimate: 5, by: "group", overrides: { small: { max: 4 } } }),
      "estimate",
      /at most 4, all that ever fits for the group "small"/,
    ],
    [
      "an estimate of what is held",
      { a: { concurrency: 2, weight: "gb", estimate: 3, all: true } },
      "estimate",
      /at most 2/,
    ],
    ["a breaker that is no object", windowed({ breaker: 3 }), "options", /limits\.mail\.breaker: /],
    [
      "a breaker that never opens",
      windowed({ breaker: { open: "1s" } }),
      "failures",
      /an integer from 1 to 2147483647/,
    ],
    ["a breaker that opens for no time", windowed({ breaker: { failures: 1, open: 0 } }), "open", /a duration > 0/],
    ["a breaker without kinds", windowed({ breaker: { failures: 1, open: 1, kinds: [] } }), "kinds", /at least one/],
    [
      "a breaker that nothing probes",
      windowed({ breaker: { failures: 1, open: 1, probes: 0 } }),
      "probes",
      /from 1 to 2147483647/,
    ],
    ["a name that is reserved", { "queue:mail": { every: 1, all: true } }, "name of a limit", /begin with "queue:"/],
    ["no name", { "": { every: 1, all: true } }, "name of a limit", /1 to 255/],
    ["too long a name", { ["x".repeat(256)]: { every: 1, all: true } }, "name of a limit", /1 to 255/],
  ])("refuses %s", (_, definitions, option, message) => {
    const error = refusal(definitions);
    expect(error.option).toBe(option);
    expect(error.message).toMatch(message);
  });

  it("by names of keys are kept in their order, and by the group alone is the same however it is written", () => {
    const { rules } = defineLimits({
      group: { every: 1, by: "group" },
      listed: { every: 1, by: ["group"] },
      tenant: { every: 1, by: "tenant", overrides: { acme: { every: 2 } } },
      one: { every: 1, by: ["tenant"], overrides: { acme: { every: 2 } } },
      both: { every: 1, by: ["tenant", "model"] },
      turned: { every: 1, by: ["model", "group"] },
      odd: { every: 1, by: "__proto__" },
    });
    expect(rules.map(({ byGroup, by }) => (byGroup ? by : "none"))).toEqual([
      undefined,
      undefined,
      ["tenant"],
      ["tenant"],
      ["tenant", "model"],
      ["model", "group"],
      ["__proto__"],
    ]);
    expect(Object.keys(rules[0]!)).not.toContain("by");
    expect({ ...rules[1], name: "" }).toEqual({ ...rules[0], name: "" });
    expect(rules[2]?.groups).toEqual({ acme: { everyMs: 2 } });
  });

  it("the estimate of a limit with a maximum of 0 may exceed it", () => {
    expect(() => defineLimits({ a: { max: 0, per: 1, weight: "t", estimate: 5, all: true } })).not.toThrow();
  });

  it("defineLimits refuses an unknown `onConflict`", () => {
    expect(refusal({ a: { every: 1, all: true } }, { onConflict: "replace" }).option).toBe("onConflict");
    expect(refusal({ a: { every: 1, all: true } }, { onConflit: "keep" }).message).toContain(
      "did you mean `onConflict`",
    );
    expect(defineLimits({ a: { every: 1, all: true } }, { onConflict: "keep" }).onConflict).toBe("keep");
  });

  it("readLimits returns defined limits as they are, and checks plain objects", () => {
    const limits = defineLimits({ a: { every: 1, all: true } }, { onConflict: "update" });
    expect(readLimits("Queue", limits)).toBe(limits);
    expect(readLimits("Queue", { a: { every: 1, all: true } })).toEqual({ ...limits, onConflict: "update" });
    expect(() => readLimits("Queue", { a: { every: 0, all: true } })).toThrow("Queue limits.a: expected `every`");
    expect(() => readLimits("Queue", { ...limits })).toThrow(OptionsError);
    expect(() => readLimits("Queue", null)).toThrow("Queue: expected `limits`");
  });
});

describe("types of limits", () => {
  it("the types of limits accept valid combinations and refuse others", () => {
    expectTypeOf(defineLimits).returns.toEqualTypeOf<DefinedLimits>();
    expectTypeOf<{ max: 1; per: "1s"; all: true }>().toExtend<LimitDefinition>();
    expectTypeOf<{
      max: 1;
      per: "1s";
      concurrency: 1;
      every: 5;
      types: ["a"];
      queues: ["b"];
    }>().toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 16; weight: "gb"; by: "group" }>().toExtend<LimitDefinition>();
    // What is left out may be left out by name.
    expectTypeOf<{ every: 1; all: true; max: undefined; weight: undefined }>().toExtend<LimitDefinition>();
    expectTypeOf<{ max: 1; all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ per: 1; all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1 }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; guard: 5; all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; all: true; types: ["a"] }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; all: false }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; by: "tenant"; overrides: { a: { concurrency: 2 } } }>().toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; by: ["tenant", "model"] }>().toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; by: 5 }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ every: 1; by: "group"; overrides: { a: { share: 2 } } }>().toExtend<LimitDefinition>();
    expectTypeOf<{ every: 1; by: "tenant"; overrides: { a: { share: 2 } } }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ every: 1; by: ["a", "b"]; overrides: { a: { every: 2 } } }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ every: 1; weight: "t"; all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; estimate: 5; all: true }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ concurrency: 1; types: ["a"]; overrides: { a: { max: 1 } } }>().not.toExtend<LimitDefinition>();
    expectTypeOf<{ max: 1; per: "1 minute"; all: true }>().not.toExtend<LimitDefinition>();
    // @ts-expect-error -- misspelt
    expect(() => defineLimits({ a: { concurency: 1, every: 5, all: true } })).toThrow(OptionsError);
    // @ts-expect-error -- there is no such answer
    expect(() => defineLimits({ a: { every: 5, all: true } }, { onConflict: "replace" })).toThrow(OptionsError);
  });
});
