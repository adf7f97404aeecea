import pg from "pg";
import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
const idsOf = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);

test("a claim does not wait for gates of a limit that its jobs do not run under any more", async () => {
  const { storage, url } = await open();
  const limit = (types: readonly string[] | null) => rule("k", { concurrency: 10 }, { weight: "w", types });
  const job = (id: string, type: string, w: number) => newJob({ id, type, group: id, weights: { w } });
  await storage.limits.define([limit(null)]);
  await storage.add([job("x", "b", 5)]);
  expect(idsOf(await storage.claim(anything()))).toEqual(["x"]);
  await storage.add([job("heavy", "a", 9)]);
  expect(idsOf(await storage.claim(anything({ types: ["a"] })))).toEqual([]);
  await storage.limits.define([limit(["b"])]);
  await storage.add([job("other", "b", 9)]);
  expect(idsOf(await storage.claim(anything({ types: ["b"] })))).toEqual([]);
  await storage.add([job("light", "b", 1)]);
  expect(idsOf(await storage.claim(anything({ types: ["b"] })))).toEqual([]);
  // A transaction that has the lock of the limit has written to its gate, and is not committed yet.
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock(sluice.lock_key('limit', 'k'))");
    expect((await client.query("UPDATE sluice.gates SET until = until WHERE name = 'k'")).rowCount).toBe(1);
    const began = performance.now();
    expect(idsOf(await storage.claim(anything({ types: ["a"] })))).toEqual(["heavy"]);
    expect(performance.now() - began).toBeLessThan(1_000);
  } finally {
    await client.end();
  }
});
