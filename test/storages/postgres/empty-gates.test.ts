import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
const idsOf = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);

test("a job behind empty lanes at the gate of a removed limit is found", async () => {
  const { storage } = await open();
  await storage.limits.define([rule("k", { concurrency: 1 }, { byGroup: true, by: ["model"] })]);
  await storage.add([newJob({ id: "x", keys: { tenant: "x", model: "m" } })]);
  expect(idsOf(await storage.claim(anything({ max: 1 })))).toEqual(["x"]);
  const ids = Array.from({ length: 30 }, (_, n) => `j${n}`);
  await storage.add(ids.map((id) => newJob({ id, keys: { tenant: id, model: "m" } })));
  for (let n = 0; n < 40 && (await storage.claim(anything({ max: 1 }))).more; n++);
  await storage.change({ action: "cancel", queue: "q", ids: ids.slice(0, -1) });
  await storage.limits.remove("k");
  const started: string[] = [];
  for (let n = 0; n < 40; n++) {
    const claim = await storage.claim(anything({ max: 1 }));
    started.push(...idsOf(claim));
    if (!claim.more) break;
  }
  expect(started).toEqual(["j29"]);
});

test("gates without lanes do not make claims ask again and again", async () => {
  const { storage, clock, pool } = await open();
  await storage.limits.define([rule("k", { max: 1, windowMs: 1_000 }, { byGroup: true, by: ["tenant"] })]);
  const tenants = Array.from({ length: 15 }, (_, n) => `t${n}`);
  for (const name of ["a", "b"]) {
    await storage.add(tenants.map((tenant) => newJob({ id: `${name}${tenant}`, keys: { tenant } })));
  }
  expect((await storage.claim(anything({ max: 30 }))).jobs).toHaveLength(15);
  for (let n = 0; n < 40 && (await storage.claim(anything({ max: 1 }))).more; n++);
  await storage.change({ action: "cancel", queue: "q", ids: tenants.map((tenant) => `b${tenant}`) });
  await clock.advance(2_000);
  let claim = await storage.claim(anything({ max: 1 }));
  for (let n = 0; n < 10 && claim.more; n++) claim = await storage.claim(anything({ max: 1 }));
  expect(claim).toMatchObject({ jobs: [], more: false, nextInMs: null });
  expect((await pool.query("SELECT FROM sluice.gates")).rowCount).toBe(0);
});
