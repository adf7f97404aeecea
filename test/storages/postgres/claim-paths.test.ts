import type pg from "pg";
import { describe, expect, test } from "vitest";
import type { ClaimRequest } from "../../../src/storage/job-storage.ts";
import { window } from "../../../src/testing/suite/limit-words.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule, WAITING } from "./support.ts";

/** A claim that has run in a transaction that is still open. */
async function claimUnderWay(client: pg.PoolClient, said: Partial<ClaimRequest>): Promise<void> {
  const { leaseMs, ...request } = anything(said);
  await client.query("BEGIN");
  await client.query("SELECT sluice.claim_2($1)", [
    JSON.stringify({ ...request, settle: undefined, claim: 1, lease_ms: leaseMs }),
  ]);
}

describe("claims of one queue", () => {
  const open = emptyStorages();

  /** Does the second claim wait for the first one, of queue q, that has not been committed? */
  async function waits(first: Partial<ClaimRequest>, second: Partial<ClaimRequest>): Promise<boolean> {
    const { storage, pool } = await open();
    await storage.add([1, 2].map(() => newJob({ type: "plain" })));
    await storage.add(["a", "b"].map((group) => newJob({ type: "grouped", group })));
    // The arrivals of groups are folded by one claim at a time.
    await storage.claim(anything({ max: 0 }));
    const client = await pool.connect();
    try {
      await claimUnderWay(client, first);
      const seen = { done: false, waiting: false };
      const claim = storage.claim(anything(second)).finally(() => (seen.done = true));
      while (!seen.done && !seen.waiting) seen.waiting = (await client.query(WAITING)).rows.length > 0;
      await client.query("COMMIT");
      expect((await claim).jobs).toHaveLength(1);
      return seen.waiting;
    } finally {
      client.release();
    }
  }

  const free = { types: ["plain"], max: 1 };
  const grouped = { types: ["grouped"], max: 1 };
  const pairs = [
    ["that need no lanes do not wait for each other", free, free],
    ["among groups do not wait for those that need no lanes", free, grouped],
    ["that need no lanes do not wait for those among groups", grouped, free],
    ["among groups do not wait for each other", grouped, grouped],
  ] as const;
  test.each(pairs)("%s", async (_, first, second) => expect(await waits(first, second)).toBe(false));
});

describe("a claim of any type", () => {
  const open = emptyStorages();

  test("the claim reads no lanes if all jobs that wait run under the same limits", async () => {
    const { storage, clock, pool } = await open();
    const lanes = async () => (await pool.query("SELECT FROM sluice.lanes")).rows.length;
    await storage.limits.define([
      rule("k", window(2, 1_000), { types: ["a"] }),
      rule("l", window(9, 1_000), { types: ["b"] }),
    ]);
    await storage.add([1, 2, 3].map(() => newJob({ type: "a" })));
    expect(await storage.claim(anything())).toMatchObject({
      jobs: [{ type: "a" }, { type: "a" }],
      more: false,
      nextInMs: 1_000,
      blockedBy: "k",
    });
    // What comes due of another type is not kept back, though the limit is full.
    await storage.add([newJob({ type: "b", due: { inMs: 300 } }), newJob({ type: "a", due: { inMs: 200 } })]);
    expect(await storage.claim(anything())).toMatchObject({ jobs: [], more: false, nextInMs: 300, blockedBy: "k" });
    expect(await lanes()).toBe(0);
    await clock.advance(300);
    expect(await storage.claim(anything())).toMatchObject({ jobs: [{ type: "b" }], nextInMs: 700, blockedBy: "k" });
  });

  test("the claim knows which limits the other jobs wait for", async () => {
    const { storage, clock } = await open();
    await storage.limits.define([rule("k", window(1, 1_000), { types: ["a"], byGroup: true })]);
    await storage.add([1, 2].map(() => newJob({ type: "a", group: "g" })));
    await storage.add([newJob({ type: "b" })]);
    expect((await storage.claim(anything())).jobs).toHaveLength(2);
    await storage.add([newJob({ type: "b" })]);
    expect(await storage.claim(anything())).toMatchObject({
      jobs: [{ type: "b" }],
      nextInMs: 1_000,
      blockedBy: "k[g]",
    });
    await clock.advance(1_000);
    expect((await storage.claim(anything())).jobs).toMatchObject([{ type: "a" }]);
  });

  test("a claim that got all it wanted names no limit that only later jobs would wait for", async () => {
    const { storage, clock } = await open();
    await storage.limits.define([
      rule("by group", { concurrency: 2 }, { byGroup: true }),
      rule("all", { concurrency: 2 }),
    ]);
    await storage.claim(anything({ max: 0 }));
    for (let n = 0; n < 4; n++) await storage.add([newJob()]);
    const { jobs } = await storage.claim(anything({ max: 1 }));
    // A claim for other types comes between: the next one does not plan from an earlier snapshot.
    await storage.claim(anything({ max: 0, types: ["unknown"] }));
    await clock.advance(1);
    const settle = jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null }) as const);
    expect(await storage.claim(anything({ max: 1, settle }))).toMatchObject({ more: true, blockedBy: null });
  });

  test("a claim that got all it wanted says that there is no more where limits refuse all other lanes", async () => {
    const { storage } = await open();
    await storage.limits.define([rule("k", window(1, 1_000), { byGroup: true, by: ["tenant"] })]);
    const of = (tenant: string, model: string) => newJob({ keys: { tenant, model } });
    await storage.add(["a", "b", "c"].map((tenant) => of(tenant, "first")));
    await storage.add(Array.from({ length: 8 }, (_, n) => of("a", `m${n}`)));
    const claim = await storage.claim(anything({ max: 3 }));
    expect(claim.jobs).toHaveLength(3);
    expect(claim).toMatchObject({ more: false, nextInMs: 1_000, blockedBy: "k[a]" });
  });
});
