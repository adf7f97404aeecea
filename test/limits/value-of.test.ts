import fc from "fast-check";
import { expect, test } from "vitest";
import { valueOf } from "../../src/limits/rule.ts";
import { limitRule } from "../storages/jobs.ts";

const name = fc.oneof(
  fc.constantFrom("a", ",", "\\", "a,", ",a", "\\,", "a\\"),
  fc.string({ minLength: 1, maxLength: 3 }),
);
const part = fc.option(name, { nil: undefined });
const keyed = fc.record({ group: fc.option(name), tenant: part, model: part }).map(({ group, tenant, model }) => ({
  group,
  keys: { ...(tenant !== undefined && { tenant }), ...(model !== undefined && { model }) },
}));

test.each([[["tenant"]], [["tenant", "model"]], [["group", "model"]], [["group", "tenant", "model"]]])(
  "two jobs have one value under a limit by %j if all of these keys are the same, and only then",
  (by) => {
    const rule = limitRule("k", { concurrency: 1 }, { byGroup: true, by });
    const partsOf = ({ group, keys }: { group: string | null; keys: Record<string, string> }) =>
      by.map((one) => (one === "group" ? group : (keys[one] ?? null)));
    fc.assert(
      fc.property(keyed, keyed, (a, b) => {
        const same = JSON.stringify(partsOf(a)) === JSON.stringify(partsOf(b));
        expect(valueOf(rule, a) === valueOf(rule, b)).toBe(same);
        expect(valueOf(rule, a) === null).toBe(partsOf(a).every((value) => value === null));
      }),
      { numRuns: 2_000 },
    );
  },
);

test("a limit without keys has one value for all jobs, and a limit by group has the group as its value", () => {
  const job = { group: "g", keys: { tenant: "a" } };
  expect(valueOf(limitRule("k", { concurrency: 1 }), job)).toBeNull();
  expect(valueOf(limitRule("k", { concurrency: 1 }, { byGroup: true }), job)).toBe("g");
  expect(valueOf(limitRule("k", { concurrency: 1 }, { byGroup: true, by: ["constructor"] }), job)).toBeNull();
});
