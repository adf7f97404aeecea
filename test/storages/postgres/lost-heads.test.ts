import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob } from "./support.ts";

const open = emptyStorages();
const idsOf = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);
const TENANTS = Array.from({ length: 10 }, (_, n) => `t${n}`);

for (const [what, about] of Object.entries({
  "were cancelled": {},
  "were too late to start": { deadline: { inMs: 50 } },
  "have other keys now": {},
})) {
  test(`a lane whose first jobs ${what} takes the place of its remaining jobs`, async () => {
    const { storage, clock } = await open();
    await storage.add(TENANTS.map((tenant) => newJob({ id: `early ${tenant}`, keys: { tenant }, ...about })));
    await clock.advance(10);
    await storage.add([newJob({ id: "between", keys: { tenant: "x" } })]);
    await clock.advance(10);
    await storage.add(TENANTS.map((tenant) => newJob({ id: `late ${tenant}`, keys: { tenant } })));
    await storage.claim(anything({ max: 0 }));
    const ids = TENANTS.map((tenant) => `early ${tenant}`);
    if (what === "were cancelled") await storage.change({ action: "cancel", queue: "q", ids });
    if (what === "have other keys now") {
      for (const id of ids)
        await storage.update({ queue: "q", id, set: { keys: { tenant: "y" }, due: { inMs: 60_000 } } });
    }
    await clock.advance(100);
    expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual(["between"]);
  });
}

test("a lane with keys whose first jobs have started takes the place of its next job", async () => {
  const { storage } = await open();
  const add = (prefix: string, lane: string) =>
    storage.add(Array.from({ length: 40 }, (_, n) => newJob({ id: `${prefix}${n}`, keys: { tenant: `${lane}${n}` } })));
  await add("early", "a");
  await add("next", "b");
  await add("late", "a");
  const started: string[] = [];
  for (let n = 0; n < 41; n++) started.push(...idsOf(await storage.claim(anything({ max: 1 }))));
  expect(started).toEqual([...Array.from({ length: 40 }, (_, n) => `early${n}`), "next0"]);
});
