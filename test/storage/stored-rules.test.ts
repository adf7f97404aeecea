import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LimitConflictError, OptionsError } from "../../src/core/errors.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import { declareRules } from "../../src/storage/declarations.ts";
import type { OnConflict } from "../../src/storage/limit-storage.ts";
import {
  changeRule,
  readStoredRule,
  refuseImpossible,
  ruleInForce,
  ruleOfClaim,
  type StoredRule,
} from "../../src/storage/stored-rules.ts";
import { limitRule, newJob } from "../storages/jobs.ts";

const RULE = limitRule("k", { max: 5, windowMs: 1_000 }, { byGroup: true, groups: { g: { max: 9, share: 2 } } });

const NOW = 7_000;

/** What becomes of a rule that is declared; undefined: nothing. */
function declare(
  before: StoredRule | undefined,
  rule: LimitRule,
  onConflict: OnConflict = "update",
): StoredRule | undefined {
  const kept = new Map(before === undefined ? [] : [[rule.name, before]]);
  return declareRules({ stored: kept, owners: new Map() }, [rule], { onConflict }, NOW).writes[0];
}

const stored = (): StoredRule => declare(undefined, RULE)!;

describe("a stored rule", () => {
  it("a stored rule is at first what was declared", () => {
    expect(stored()).toEqual({
      declared: RULE,
      quota: {},
      groups: {},
      paused: false,
      revision: 1,
      version: null,
      owners: [],
    });
    expect(ruleInForce(stored())).toEqual(RULE);
  });

  it("a stored rule keeps the declaration and the changes of operators apart", () => {
    let kept = changeRule(stored(), { quota: { max: 6 }, group: null }, NOW)!;
    kept = changeRule(kept, { quota: { max: 7 }, group: "g" }, NOW)!;
    kept = changeRule(kept, { quota: { windowMs: 20 }, group: "__proto__" }, NOW)!;
    kept = changeRule(kept, { paused: true }, NOW)!;
    const { quota, groups, paused } = ruleInForce(kept);
    expect([quota.max, paused, kept.revision]).toEqual([6, true, 5]);
    expect(Object.entries(groups)).toEqual([
      ["g", { max: 7, share: 2 }],
      ["__proto__", { windowMs: 20 }],
    ]);
    expect(declare(kept, RULE, "reject")).toBeUndefined();
    const anew = declare(kept, { ...RULE, types: ["t"] })!;
    expect(ruleInForce(anew).quota).toEqual({ max: 6, windowMs: 1_000, concurrency: null, everyMs: null });
    const restored = changeRule(anew, { restore: true }, NOW)!;
    // The window of one group is longer again.
    expect(ruleInForce(restored)).toEqual({ ...anew.declared, paused: true, blindUntil: NOW + 980 });
  });

  it("a stored rule is not written again if nothing changes", () => {
    expect(changeRule(stored(), { paused: false }, NOW)).toBeUndefined();
    expect(changeRule(stored(), { holdMs: 5, group: "g" }, NOW)).toBeUndefined();
    const forAll = declare(undefined, { ...RULE, byGroup: false, groups: {} }, "reject")!;
    expect(changeRule(forAll, { holdMs: 5, group: null }, NOW)).toBeUndefined();
    expect(changeRule(stored(), { reset: true, group: null }, NOW)).toBeUndefined();
    expect(changeRule(stored(), { remaining: 1, resetMs: 1, group: null }, NOW)).toBeUndefined();
  });

  it("a stored rule keeps a hold of all its groups until it is resumed or reset", () => {
    const held = changeRule(stored(), { holdMs: 50, group: null }, NOW)!;
    expect([held.heldUntil, held.revision]).toEqual([NOW + 50, 1]);
    expect(ruleInForce(held)).toEqual({ ...RULE, heldUntil: NOW + 50 });
    expect(changeRule(held, { holdMs: 10, group: null }, NOW)!.heldUntil).toBe(NOW + 50);
    expect(ruleInForce(changeRule(held, { paused: false }, NOW)!)).toEqual(RULE);
    expect(ruleInForce(changeRule(held, { reset: true, group: null }, NOW)!)).toEqual(RULE);
    expect(changeRule(held, { reset: true, group: "g" }, NOW)).toBeUndefined();
  });

  it("a stored rule has a full window for as long as the window reaches further back than it counted", () => {
    const blindFor = (kept: StoredRule) => (kept.blindUntil === undefined ? 0 : kept.blindUntil - NOW);
    expect(blindFor(changeRule(stored(), { quota: { windowMs: 1_500 }, group: null }, NOW)!)).toBe(500);
    expect(blindFor(changeRule(stored(), { quota: { windowMs: 900 }, group: null }, NOW)!)).toBe(0);
    expect(blindFor(changeRule(stored(), { quota: { windowMs: 1_200 }, group: "x" }, NOW)!)).toBe(200);
    const forAll = declare(undefined, { ...RULE, byGroup: false, groups: {} }, "reject")!;
    expect(blindFor(declare(forAll, RULE)!)).toBe(1_000);
    expect(blindFor(changeRule(forAll, { quota: { windowMs: 9_000 }, group: null }, NOW)!)).toBe(0);
    const longer = changeRule(stored(), { quota: { windowMs: 1_500 }, group: null }, NOW)!;
    expect(ruleInForce(changeRule(longer, { reset: true, group: null }, NOW)!).blindUntil).toBeUndefined();
  });

  it("a declaration differs by its numbers, and not by the order of its keys", () => {
    const other = { ...RULE, quota: { ...RULE.quota, max: 6 } };
    expect(() => declare(stored(), other, "reject")).toThrow(LimitConflictError);
    expect(() => declare(stored(), other, "reject")).toThrow(
      /"k".* was declared differently before \(quota: .*5.* before/,
    );
    expect(declare(stored(), other, "keep")).toBeUndefined();
    expect(declare(stored(), other)).toMatchObject({ revision: 2, declared: other });
    const turned = Object.fromEntries(Object.entries(RULE).toReversed()) as unknown as typeof RULE;
    expect(declare(stored(), turned, "reject")).toBeUndefined();
  });

  it("a stored rule survives a round trip as text, and other text is refused", () => {
    expect(readStoredRule(JSON.stringify(stored()))).toEqual(stored());
    for (const text of ["", "null", "{}", "[]", '{"declared":{}}', '{"declared":{"name":"k"}}', "7"]) {
      expect(readStoredRule(text), text).toBeUndefined();
    }
  });

  it("a limit of a claim is a rule for all its jobs", () => {
    expect(ruleOfClaim({ key: "queue:q", max: 3, windowMs: 50 })).toEqual(
      limitRule("queue:q", { max: 3, windowMs: 50 }),
    );
  });
});

describe("what can never fit", () => {
  const tokens = limitRule("tokens", { max: 10, windowMs: 1 }, { weight: "n", types: ["t"] });
  const memory = limitRule(
    "memory",
    { concurrency: 4 },
    { weight: "gb", byGroup: true, groups: { big: { concurrency: 9 } } },
  );

  it("a weight that can never fit is refused with the weight, the limit, and the maximum", () => {
    const call = () => refuseImpossible([tokens, memory], [newJob(), newJob({ weights: { n: 11 } })]);
    expect(call).toThrow(OptionsError);
    expect(call).toThrow(/weights\.n.*at most 10.*"tokens"/s);
    expect(() => refuseImpossible([memory], [newJob({ weights: { gb: 5 }, group: "small" })])).toThrow(/at most 4/);
    expect(() => refuseImpossible([{ ...memory, estimate: 5 }], [newJob()])).toThrow(/at most 4/);
  });

  it("the largest weight that fits is accepted, and anything above is refused", () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 15 }),
        fc.nat({ max: 12 }),
        fc.constantFrom("t", "u"),
        fc.constantFrom("big", "small", null),
        (n, gb, type, group) => {
          const fits = (n <= 10 || type === "u") && gb <= (group === "big" ? 9 : 4);
          const call = () => refuseImpossible([tokens, memory], [newJob({ type, group, weights: { n, gb } })]);
          if (fits) expect(call).not.toThrow();
          else expect(call).toThrow(OptionsError);
        },
      ),
    );
  });

  it("no weight is refused under a limit of 0, which is a pause", () => {
    const none = limitRule("none", { max: 0, windowMs: 1 }, { weight: "n" });
    expect(() => refuseImpossible([none], [newJob({ weights: { n: 11 } })])).not.toThrow();
  });
});
