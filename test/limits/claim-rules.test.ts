import { describe, expect, it } from "vitest";
import { RulesInForce } from "../../src/limits/claim-rules.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import { ClaimLimits } from "../../src/planner/claim-limits.ts";
import { ToyKey } from "../planner/support.ts";
import { limitRule } from "../storages/jobs.ts";

const names = (rules: readonly LimitRule[]) => rules.map(({ name }) => name);

describe("the rules of a claim", () => {
  const rules = [
    limitRule("a", {}, { types: ["x", "y"] }),
    limitRule("b", {}),
    limitRule("c", {}, { types: ["y", "y"], byGroup: true }),
    limitRule("d", {}, { queues: ["r"], weight: "n" }),
    limitRule("e", {}, { types: ["x", "y"], queues: ["q", "r"] }),
  ];
  const inForce = new RulesInForce(rules);

  it("each type runs under the rules that name it or all types, in the order of the rules", () => {
    const claim = inForce.of("q").forClaim(null, []);
    expect(names(claim.of("x"))).toEqual(["a", "b", "e"]);
    expect(names(claim.of("y"))).toEqual(["a", "b", "c", "e"]);
    expect(names(claim.of("z"))).toEqual(["b"]);
    expect([names(claim.all), names(claim.forAll)]).toEqual([["a", "b", "c", "e"], ["b"]]);
  });

  it("a rule that names queues holds in these only", () => {
    expect(names(inForce.of("r").of("x"))).toEqual(["a", "b", "d", "e"]);
    expect(names(inForce.of("s").of("x"))).toEqual(["a", "b"]);
  });

  it("types under the same rules have the same list, also behind rules that the claim brings along", () => {
    const own = limitRule("own", {});
    for (const brought of [[], [own]]) {
      const claim = new RulesInForce([limitRule("two", {}, { types: ["x", "y"] }), rules[1]!])
        .of("q")
        .forClaim(null, brought);
      expect(claim.of("x")).toBe(claim.of("y"));
      expect(claim.of("z")).toBe(claim.of("w"));
      expect(names(claim.of("x"))).toEqual(["two", "b", ...names(brought)]);
      expect(names(claim.forAll)).toEqual(["b", ...names(brought)]);
    }
  });

  it("a claim of some types runs under the rules of these", () => {
    const index = inForce.of("q");
    expect(names(index.forClaim(["z"], []).all)).toEqual(["b"]);
    expect(names(index.forClaim(["x", "z"], []).all)).toEqual(["a", "b", "e"]);
    expect([index.forClaim(["x"], []).blocks, index.forClaim(["x", "y"], []).blocks]).toEqual([false, true]);
  });

  it("a claim does not look at rules of other types, however many there are", () => {
    let looks = 0;
    const many = Array.from({ length: 500 }, (_, i) => {
      const rule = limitRule(`limit ${i}`, {}, { types: [`t${i}`] });
      return Object.defineProperty({ ...rule }, "types", { get: () => ((looks += 1), [`t${i}`]) });
    });
    const all = new RulesInForce(many);
    const ask = () => {
      const claim = all.of("q").forClaim(null, []);
      const limits = new ClaimLimits(claim, (rule, group) => new ToyKey(rule, group, 1));
      for (let i = 0; i < 500; i++) expect(limits.ask(`t${i}`, { group: null }, null, 0).granted).toBe(true);
    };
    ask();
    looks = 0;
    ask();
    expect(looks).toBe(0);
  });
});
