import type pg from "pg";
import { expect, test } from "vitest";
import type { JobRecord } from "../../../src/core/job.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
const GATES = 2_000;
const PLAN = { types: [], seen_types: [], seen_counts: [], lanes: [], places: [], kinds: [], emptied: [], page: 4 };

/** So many lanes, each at a gate of its own that is closed. */
async function block(pool: pg.Pool): Promise<void> {
  await pool.query(
    `INSERT INTO sluice.lanes
      (queue, type, priority, grp, keys, own, head_at, head_seq, used_at, ready, blocked_until, blocked_by, blocked_grp)
    SELECT 'q', 't', 0, '', '{"tenant":"u' || n || '"}', n, 1, 1, 1, true, 1e18, 'k', ':u' || n FROM generate_series(1, $1) n`,
    [GATES],
  );
  await pool.query("INSERT INTO sluice.gates SELECT 'k', ':u' || n, 'q', 't', 1e18 FROM generate_series(1, $1) n", [
    GATES,
  ]);
}

/** How many rows of gates and lanes a claim reads, by any plan. */
async function readBy(pool: pg.Pool, types: readonly string[] | null, queue = "q"): Promise<number> {
  const client = await pool.connect();
  try {
    const { leaseMs, ...request } = anything({ queue, max: 1, types });
    const text = JSON.stringify({ ...request, settle: undefined, claim: 1, lease_ms: leaseMs, bytes: 1e9, plan: PLAN });
    await client.query("BEGIN");
    await client.query("SELECT sluice.claim_2($1)", [text]);
    const { rows } = await client.query<{ read: number }>(
      `SELECT sum(pg_stat_get_xact_tuples_returned(c.oid))::int AS read FROM pg_class c
      WHERE c.relnamespace = 'sluice'::regnamespace AND (c.relname LIKE 'gates%' OR c.relname LIKE 'lanes%')`,
    );
    await client.query("ROLLBACK");
    return rows[0]!.read;
  } finally {
    client.release();
  }
}

test("a claim does not look at all gates that are closed", async () => {
  const { storage, pool } = await open();
  await storage.limits.define([rule("k", { max: 1, windowMs: 600_000 }, { byGroup: true, by: ["tenant"] })]);
  await storage.add([newJob({ keys: { tenant: "t" } }), newJob({ keys: { tenant: "t" } })]);
  expect((await storage.claim(anything())).jobs).toHaveLength(1);
  await block(pool);
  for (const types of [null, ["t"], ["other"]]) expect(await readBy(pool, types), String(types)).toBeLessThan(100);
});

test("a claim of any type under a limit of one does not look at all lanes where no job waits any more", async () => {
  const { storage, pool } = await open();
  await storage.limits.define([rule("k", { concurrency: 9 }, { types: ["t"] })]);
  // In a queue of its own: entries of what the other test has deleted may be there still, and would be read.
  await storage.add([newJob({ queue: "r" }), newJob({ queue: "r" })]);
  expect((await storage.claim(anything({ queue: "r", max: 1 }))).jobs).toHaveLength(1);
  await pool.query(
    `INSERT INTO sluice.lanes (queue, type, priority, grp, own, used_at, ready)
    SELECT 'r', 't', 0, ':u' || n, n, 1, false FROM generate_series(1, $1) n`,
    [GATES],
  );
  expect(await readBy(pool, null, "r")).toBeLessThan(100);
});

test("of very many lanes with heavy jobs at one key one is judged with every release", async () => {
  const { storage, pool } = await open();
  await storage.limits.define([rule("k", { concurrency: 10 }, { byGroup: true, by: ["tenant"], weight: "n" })]);
  const heavy = (doc: number) => newJob({ queue: "s", keys: { tenant: "t", doc: `${doc}` }, weights: { n: 9 } });
  await storage.add(Array.from({ length: 200 }, (_, doc) => heavy(doc)));
  const running: JobRecord[] = [];
  for (let more = true; more;) {
    const claim = await storage.claim(anything({ queue: "s", max: 10 }));
    running.push(...claim.jobs);
    ({ more } = claim);
  }
  for (let i = 0; i < 3; i++) {
    expect(running).toHaveLength(1);
    const { id, token } = running.pop()!;
    const settle = [{ id, token, to: "completed", result: null } as const];
    running.push(...(await storage.claim(anything({ queue: "s", max: 10, settle }))).jobs);
    const heads = "SELECT id FROM sluice.lanes WHERE queue = 's' AND heavy IS NOT NULL AND blocked_until IS NOT NULL";
    expect((await pool.query(heads)).rowCount).toBeLessThan(3);
  }
});
