import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LimitConflictError, OptionsError } from "../../src/core/errors.ts";
import {
  changeRule,
  declare,
  readStoredRule,
  refuseImpossible,
  ruleInForce,
  ruleOfClaim,
  type StoredRule,
} from "../../src/storage/stored-rules.ts";
import { limitRule, newJob } from "../storages/jobs.ts";

const RULE = limitRule("k", { max: 5, windowMs: 1_000 }, { byGroup: true, groups: { g: { max: 9, share: 2 } } });

const stored = (): StoredRule => declare(undefined, RULE, "refuse")!;

describe("a stored rule", () => {
  it("is at first what was declared", () => {
    expect(stored()).toEqual({ declared: RULE, quota: {}, groups: {}, paused: false, version: 1 });
    expect(ruleInForce(stored())).toEqual(RULE);
  });

  it("keeps apart what was declared and what was changed by hand", () => {
    let kept = changeRule(stored(), { quota: { max: 6 }, group: null })!;
    kept = changeRule(kept, { quota: { max: 7 }, group: "g" })!;
    kept = changeRule(kept, { quota: { windowMs: 20 }, group: "__proto__" })!;
    kept = changeRule(kept, { paused: true })!;
    const { quota, groups, paused } = ruleInForce(kept);
    expect([quota.max, paused, kept.version]).toEqual([6, true, 5]);
    expect(Object.entries(groups)).toEqual([
      ["g", { max: 7, share: 2 }],
      ["__proto__", { windowMs: 20 }],
    ]);
    expect(declare(kept, RULE, "refuse")).toBeUndefined();
    const anew = declare(kept, { ...RULE, estimate: 3, quota: { ...RULE.quota, concurrency: 4 } }, "update")!;
    expect(ruleInForce(anew).quota).toEqual({ max: 6, windowMs: 1_000, concurrency: 4, everyMs: null });
    const restored = changeRule(anew, { restore: true })!;
    expect(ruleInForce(restored)).toEqual({ ...anew.declared, paused: true });
  });

  it("is not written again for what changes nothing about it", () => {
    expect(changeRule(stored(), { paused: false })).toBeUndefined();
    expect(changeRule(stored(), { holdMs: 5, group: null })).toBeUndefined();
    expect(changeRule(stored(), { reset: true, group: null })).toBeUndefined();
    expect(changeRule(stored(), { remaining: 1, resetMs: 1, group: null })).toBeUndefined();
  });

  it("says in what another declaration differs, and does not mind the order of words", () => {
    const other = { ...RULE, quota: { ...RULE.quota, max: 6 } };
    expect(() => declare(stored(), other, "refuse")).toThrow(LimitConflictError);
    expect(() => declare(stored(), other, "refuse")).toThrow(
      /"k".* was declared differently before \(quota: .*5.* before/,
    );
    expect(declare(stored(), other, "keep")).toBeUndefined();
    expect(declare(stored(), other, "update")).toMatchObject({ version: 2, declared: other });
    const turned = Object.fromEntries(Object.entries(RULE).toReversed()) as unknown as typeof RULE;
    expect(declare(stored(), turned, "refuse")).toBeUndefined();
  });

  it("survives being text, and text that is something else is not taken for one", () => {
    expect(readStoredRule(JSON.stringify(stored()))).toEqual(stored());
    for (const text of ["", "null", "{}", "[]", '{"declared":{}}', '{"declared":{"name":"k"}}', "7"]) {
      expect(readStoredRule(text), text).toBeUndefined();
    }
  });

  it("of a claim is one for all of its jobs", () => {
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

  it("is refused by what the job says, the limit, and the most that fits", () => {
    const call = () => refuseImpossible([tokens, memory], [newJob(), newJob({ weights: { n: 11 } })]);
    expect(call).toThrow(OptionsError);
    expect(call).toThrow(/weights\.n.*at most 10.*"tokens"/s);
    expect(() => refuseImpossible([memory], [newJob({ weights: { gb: 5 }, group: "small" })])).toThrow(/at most 4/);
  });

  it("is told from what fits, exactly", () => {
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

  it("is nothing under a limit of nothing, which is a pause", () => {
    const none = limitRule("none", { max: 0, windowMs: 1 }, { weight: "n" });
    expect(() => refuseImpossible([none], [newJob({ weights: { n: 11 } })])).not.toThrow();
  });
});
