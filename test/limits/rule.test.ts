import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  applies,
  blindFor,
  chargeOf,
  concurrencyWait,
  labelOf,
  type LimitRule,
  mostOf,
  NO_QUOTA,
  quotaOf,
  shareOf,
  weighed,
} from "../../src/limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../src/limits/wait.ts";
import { limitRule } from "../storages/jobs.ts";

const rule = (said: Partial<LimitRule> = {}) => limitRule("k", { max: 10, windowMs: 1_000 }, said);

describe("a rule", () => {
  it("a rule applies to the queues and types it names; without names, to all", () => {
    const named = rule({ queues: ["q"], types: ["t", "u"] });
    expect(["q t", "q u", "q v", "r t"].map((of) => applies(named, ...(of.split(" ") as [string, string])))).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(applies(rule({ queues: ["q"] }), "q", "anything")).toBe(true);
    expect(applies(rule(), "r", "v")).toBe(true);
    expect(applies(rule({ types: [] }), "r", "v")).toBe(false);
  });

  it("a rule has numbers of its own for some groups, whatever their names", () => {
    const groups = { big: { max: 50, share: 4 }, ["__proto__"]: { concurrency: 1 } };
    const grouped = rule({ byGroup: true, groups });
    expect(quotaOf(grouped, "big")).toMatchObject({ max: 50, windowMs: 1_000 });
    expect(quotaOf(grouped, "__proto__")).toMatchObject({ max: 10, concurrency: 1 });
    expect(quotaOf(grouped, "constructor")).toEqual(grouped.quota);
    expect(quotaOf(grouped, null)).toEqual(grouped.quota);
    expect(quotaOf({ ...grouped, byGroup: false }, "big")).toEqual(grouped.quota);
  });

  it("a rule lacks a record of earlier starts where it is newly by group, or its window is longer", () => {
    const forAll = rule();
    const grouped = rule({ byGroup: true });
    const of = (one: LimitRule, windowMs: number | null) => ({ ...one, quota: { ...one.quota, windowMs } });
    expect(blindFor(forAll, grouped)).toBe(1_000);
    expect(blindFor(grouped, forAll)).toBe(1_000);
    expect(blindFor(grouped, of(grouped, 1_500))).toBe(500);
    expect(blindFor(grouped, of(grouped, 700))).toBe(0);
    expect(blindFor(grouped, { ...grouped, groups: { ["__proto__"]: { max: 1 }, g: { windowMs: 4_000 } } })).toBe(
      3_000,
    );
    expect(blindFor(of(grouped, null), grouped)).toBe(1_000);
    expect(blindFor(grouped, of(grouped, null))).toBe(0);
    // A log for all jobs records itself how far back it reaches.
    expect(blindFor(forAll, of(forAll, 9_000))).toBe(0);
    expect(blindFor(of(forAll, null), forAll)).toBe(1_000);
  });

  it("the share of a group is the largest of any rule, and 1 if no rule gives one", () => {
    const rules = [3, 5, 2].map((share) => rule({ byGroup: true, groups: { g: { share }, h: { max: 2 } } }));
    expect([shareOf(rules, "g"), shareOf(rules, "h"), shareOf(rules, "toString"), shareOf(rules, null)]).toEqual([
      5, 1, 1, 1,
    ]);
    expect(shareOf([], "g")).toBe(1);
  });

  it("a weight counts in the window if there is one, else in the concurrency; a missing weight is the estimate", () => {
    const tokens = rule({ weight: "tokens", estimate: 7 });
    expect(chargeOf(tokens, { tokens: 3 })).toEqual({ weight: 3, slots: 1 });
    expect(chargeOf(tokens, { other: 3 })).toEqual({ weight: 7, slots: 1 });
    expect(chargeOf(tokens, null)).toEqual({ weight: 7, slots: 1 });
    expect(chargeOf({ ...tokens, weight: "constructor" }, { tokens: 3 })).toEqual({ weight: 7, slots: 1 });
    const memory = { ...tokens, quota: { ...NO_QUOTA, concurrency: 16 } };
    expect(chargeOf(memory, { tokens: 3 })).toEqual({ weight: 1, slots: 3 });
    expect(chargeOf(rule(), { tokens: 3 })).toEqual({ weight: 1, slots: 1 });
    expect(weighed(memory.quota, 0)).toEqual({ weight: 1, slots: 0 });
  });

  it("a charge above the maximum can never fit; a maximum of 0 is a pause and not impossible", () => {
    const quota = { ...NO_QUOTA, max: 10, windowMs: 1, concurrency: 3 };
    expect(mostOf(quota, { weight: 10, slots: 3 })).toBeUndefined();
    expect(mostOf(quota, { weight: 11, slots: 1 })).toBe(10);
    expect(mostOf(quota, { weight: 1, slots: 4 })).toBe(3);
    expect(mostOf({ ...quota, max: 0, concurrency: 0 }, { weight: 11, slots: 4 })).toBeUndefined();
    expect(mostOf(NO_QUOTA, { weight: 1e9, slots: 1e9 })).toBeUndefined();
  });

  it("the label of a limit is its name, with the group where it is by group", () => {
    expect([labelOf("tenant", "acme"), labelOf("gpu", null), labelOf("k", "")]).toEqual(["tenant[acme]", "gpu", "k[]"]);
  });
});

describe("concurrency", () => {
  it("a start that does not fit beside the slots in use waits for the first of them to expire", () => {
    const small = fc.nat({ max: 12 });
    fc.assert(
      fc.property(small, small, small, fc.constantFrom(5, WHEN_RELEASED), (concurrency, held, slots, expiresIn) => {
        const wait = concurrencyWait(concurrency, held, slots, expiresIn);
        if (held + slots <= concurrency) expect(wait).toBe(0);
        else if (concurrency === 0) expect(wait).toBe(WHEN_RELEASED);
        else expect(wait).toBe(slots > concurrency ? NEVER : expiresIn);
        expect(concurrencyWait(null, held, slots, expiresIn)).toBe(0);
      }),
    );
  });
});
