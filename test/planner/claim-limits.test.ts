import { describe, expect, it } from "vitest";
import { RulesInForce } from "../../src/limits/claim-rules.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../src/limits/wait.ts";
import { ClaimLimits } from "../../src/planner/claim-limits.ts";
import { limitRule } from "../storages/jobs.ts";
import { ToyKey } from "./support.ts";

function under(
  rules: readonly LimitRule[],
  left: Readonly<Record<string, number>> = {},
  full: Readonly<Record<string, number>> = {},
) {
  const keys: ToyKey[] = [];
  const limits = new ClaimLimits(new RulesInForce(rules).of("q").forClaim(null, []), (rule, group) => {
    const key = new ToyKey(rule, group, left[rule.name] ?? 9, full[rule.name]);
    keys.push(key);
    return key;
  });
  return { limits, keys };
}

describe("the limits of one claim", () => {
  const general = limitRule("general", {}, { types: ["a", "b"] });
  const grouped = limitRule("grouped", {}, { byGroup: true, weight: "n" });
  const elsewhere = limitRule("elsewhere", {}, { queues: ["r"] });

  it("a claim makes one key for each limit of its queue and types, and one for each group", () => {
    const { limits, keys } = under([general, grouped, elsewhere]);
    expect(under([general]).limits.ask("c", { group: null }, null, 0)).toEqual({ granted: true, charges: [] });
    expect([limits.weighs("a"), under([general]).limits.weighs("a")]).toEqual([true, false]);
    for (let i = 0; i < 3; i++) {
      limits.ask("a", { group: "g" }, null, 0);
      limits.ask("b", { group: "g" }, null, 0);
      limits.ask("c", { group: null }, null, 0);
    }
    expect(keys.map(({ rule, group }) => [rule.name, group])).toEqual([
      ["general", null],
      ["grouped", "g"],
      ["grouped", null],
    ]);
  });

  it("a granted decision lists all charges, and deciding charges nothing", () => {
    const { limits, keys } = under([general, grouped]);
    const decision = limits.ask("a", { group: "g" }, { n: 4 }, 0);
    expect(decision.granted && decision.charges.map(({ key, charge }) => [key.rule.name, charge])).toEqual([
      ["general", { weight: 1, slots: 1 }],
      ["grouped", { weight: 1, slots: 4 }],
    ]);
    expect(keys.map(({ left }) => left)).toEqual([9, 9]);
    if (decision.granted) limits.take(decision.charges);
    expect(keys.map(({ left }) => left)).toEqual([8, 8]);
  });

  it("a refusal names the key with the longest wait, and a key that can never fit before all others", () => {
    const rules = ["a", "b", "c"].map((name) => limitRule(name, {}));
    const short = under(rules, { a: 0, b: 0, c: 9 }, { a: 10, b: 30 }).limits.ask("t", { group: null }, null, 0);
    expect(!short.granted && [short.by.rule.name, short.wait]).toEqual(["b", 30]);
    const held = under(rules, { a: 0, b: 0, c: 0 }, { a: 10, b: WHEN_RELEASED, c: 99 }).limits.ask(
      "t",
      { group: null },
      null,
      0,
    );
    expect(!held.granted && [held.by.rule.name, held.wait]).toEqual(["b", WHEN_RELEASED]);
    const never = limitRule("never", { max: 2, windowMs: 1 }, { weight: "n" });
    const impossible = under([...rules, never], { a: 0 }).limits.ask("t", { group: null }, { n: 3 }, 0);
    expect(!impossible.granted && [impossible.by.rule.name, impossible.wait]).toEqual(["never", NEVER]);
  });

  it("a key that a heavy head closes stays open for higher priorities and for heads that it refused before", () => {
    const weighed = limitRule("weighed", {}, { weight: "n" });
    const { limits, keys } = under([weighed]);
    const wait = (priority: number, since = Number.POSITIVE_INFINITY) => {
      const decision = limits.ask("t", { group: null }, null, priority);
      keys[0]!.since = since;
      const again = limits.ask("t", { group: null }, null, priority);
      keys[0]!.since = Number.POSITIVE_INFINITY;
      return [decision, again].map((one) => (one.granted ? 0 : one.wait));
    };
    const close = (ms: number, priority: number, since: number) => {
      keys[0]!.since = since;
      limits.close(keys[0]!, ms, { type: "t", priority });
      keys[0]!.since = Number.POSITIVE_INFINITY;
    };
    expect(wait(0)).toEqual([0, 0]);
    close(0, 5, 1);
    expect(wait(0)).toEqual([0, 0]);
    close(30, 5, 3);
    expect([wait(6), wait(5, 2), wait(5, 3), wait(4, 2)]).toEqual([
      [0, 0],
      [30, 0],
      [30, 30],
      [30, 30],
    ]);
    close(20, 5, 2);
    expect([wait(5, 1), wait(5, 2), wait(5, 3)]).toEqual([
      [30, 0],
      [30, 20],
      [30, 30],
    ]);
    close(10, 4, 9);
    expect([wait(6), wait(4, 1)]).toEqual([
      [0, 0],
      [30, 30],
    ]);
  });

  it("the earliest start of a type ignores limits by group and counts for one", () => {
    const rules = [general, limitRule("other", {}, { types: ["a"] }), grouped];
    const { limits } = under(rules, { general: 0, other: 0, grouped: 0 }, { general: 20, other: 50, grouped: 90 });
    expect(limits.earliest("a")).toMatchObject({ wait: 50, by: { rule: { name: "other" } } });
    expect(limits.earliest("b").wait).toBe(20);
    expect(limits.earliest("z")).toEqual({ wait: 0, by: null });
  });
});
