import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();

for (const [what, rules] of Object.entries({
  "without limits": [],
  "under a limit by a key": [rule("k", { concurrency: 100 }, { byGroup: true, by: ["tenant"] })],
})) {
  test(`a group with more lanes than a start writes to leaves turns to the others: ${what}`, async () => {
    const { storage } = await open();
    await storage.limits.define(rules);
    const add = (group: string, many: number) =>
      storage.add(Array.from({ length: many }, (_, n) => newJob({ group, keys: { tenant: `t${n}` } })));
    await add("large", 1_500);
    await add("small", 5);
    for (let n = 0; n < 10; n++) await storage.claim(anything({ max: 0 }));
    const started: (string | null)[] = [];
    for (let n = 0; n < 20; n++)
      started.push(...(await storage.claim(anything({ max: 1 }))).jobs.map(({ group }) => group));
    expect(started.filter((group) => group === "small")).toHaveLength(5);
  });
}
