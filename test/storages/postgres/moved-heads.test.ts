import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
const idsOf = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);

for (const [what, of] of Object.entries({
  keys: (value: string) => ({ keys: { tenant: value } }),
  group: (value: string) => ({ group: value }),
})) {
  test(`a heavy head that leaves its lane by a change of its ${what} leaves the lane free`, async () => {
    const { storage } = await open();
    await storage.limits.define([rule("k", { concurrency: 10 }, { weight: "w" })]);
    await storage.add([newJob({ id: "x", ...of("x"), weights: { w: 5 } })]);
    expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual(["x"]);
    await storage.add([newJob({ id: "heavy", ...of("a"), weights: { w: 9 } })]);
    expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual([]);
    await storage.update({ queue: "q", id: "heavy", set: of("b") });
    await storage.limits.remove("k");
    expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual(["heavy"]);
    await storage.add([newJob({ id: "next", ...of("a") })]);
    expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual(["next"]);
  });
}
