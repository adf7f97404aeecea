import pg from "pg";
import { expect, test } from "vitest";
import { calledName } from "../../../src/storages/postgres/migrations.ts";
import { addArgument, columnsOf, textsOf } from "../../../src/storages/postgres/jobs/add.ts";
import { outcomesOf } from "../../../src/storages/postgres/jobs/outcomes.ts";
import type { StartedJobs } from "../../../src/storages/postgres/jobs/started.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

/** How many jobs there are of each kind. A plan that reads a tenth of them has not used the index that is there for it. */
const MANY = 10_000;

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Join Filter"?: number;
  readonly Plans?: readonly Plan[];
}

interface Explained {
  readonly "Query Text": string;
  readonly Plan: Plan;
}

/** A database that many jobs were added to; ANALYZE may have been run. */
async function filled(analyzed: boolean): Promise<{ readonly client: pg.Client; readonly statements: Explained[] }> {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  await storage.close();
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  const jobs = (columns: string, values: string) =>
    client.query(`INSERT INTO sluice.jobs (id, queue, type, priority, data, max_attempts, backoff, created_at, due_at, ${columns})
      SELECT gen_random_uuid(), 'q', CASE WHEN n % 10 = 0 THEN 'u' ELSE 't' END, n % 3, '{}', 5, '{}', n, n, ${values}
      FROM generate_series(1, ${MANY}) AS n`);
  await client.query("ALTER TABLE sluice.jobs SET (autovacuum_enabled = false)");
  await jobs("state", "'waiting'");
  await jobs("state, deadline", "'waiting', 9e15");
  await client.query(`UPDATE sluice.jobs SET due_at = 9e15 + seq, state = 'scheduled' WHERE seq % 4 = 0`);
  await jobs("state, worker, lease_until, started_at, token", "'active', 'w', 9e15 + n, n, n");
  await jobs("state, finished_at, delete_at, started_at, token", "'completed', n, 9e15 + n, n, n");
  await jobs("state, finished_at, delete_at, token", "'dead', n, 9e15 + n, n");
  if (analyzed) await client.query("ANALYZE sluice.jobs");
  const statements: Explained[] = [];
  client.on("notice", ({ message = "" }) => {
    const from = message.indexOf("{");
    if (message.startsWith("duration:") && from > 0) statements.push(JSON.parse(message.slice(from)) as Explained);
  });
  await client.query(`LOAD 'auto_explain'; SET client_min_messages = log;
    SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
    SET auto_explain.log_timing = off; SET auto_explain.log_format = json`);
  return { client, statements };
}

/** How many rows of a table each part of a plan has read, by how it did so. */
function looks(plan: Plan, table = "jobs"): { readonly how: string; readonly rows: number }[] {
  const below = (plan.Plans ?? []).flatMap((part) => looks(part, table));
  const loops = plan["Actual Loops"];
  const removed = (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Join Filter"] ?? 0);
  const seen = { how: plan["Index Name"] ?? plan["Node Type"], rows: (plan["Actual Rows"] + removed) * loops };
  const isScan = plan["Relation Name"] === table && plan["Node Type"].includes("Scan");
  return isScan || plan["Rows Removed by Join Filter"] !== undefined ? [seen, ...below] : below;
}

test.each([false, true])("no step reads more jobs than it has to, of very many (analyzed: %s)", async (analyzed) => {
  const { client, statements } = await filled(analyzed);
  try {
    const call = async (name: string, ...values: readonly unknown[]): Promise<unknown> => {
      statements.length = 0;
      const placeholders = values.map((_, i) => `$${i + 1}`).join(", ");
      const { rows } = await client.query<{ answer: string }>(
        `SELECT sluice.${calledName(name)}(${placeholders})::text AS answer`,
        [...values],
      );
      const wrong = statements.flatMap(({ "Query Text": text, Plan: plan }) =>
        looks(plan)
          .filter(({ rows: count }) => count > MANY / 10)
          .map(({ how, rows: count }) => ({ name, how, count, text })),
      );
      expect(wrong).toEqual([]);
      expect(statements.length).toBeGreaterThan(0);
      return JSON.parse(rows[0]!.answer);
    };
    const claimed = async (types: readonly string[] | null, settle: readonly Outcome[]): Promise<Outcome[]> => {
      const { text } = outcomesOf(settle);
      const request = {
        claim: 1,
        queue: "q",
        worker: "w",
        max: 50,
        types,
        lease_ms: 1_000,
        limits: [],
        ...("ids" in text ? text : { settle: text }),
      };
      const { jobs } = (await call("claim", JSON.stringify(request))) as { jobs: StartedJobs };
      const [, tokens, ids] = jobs;
      expect(ids.length).toBe(50);
      return ids.map((id, i) => ({ id, token: tokens[i]!, to: "completed", result: null }));
    };
    // Often enough for generic plans.
    let done = await claimed(["t"], []);
    for (let i = 0; i < 7; i++) done = await claimed([["t"], ["t", "u"], null][i % 3]!, done);
    const error = { name: "Error", message: "no" };
    const mixed = done.map((outcome, i): Outcome => {
      const { id, token } = outcome;
      if (i % 3 === 0) return outcome;
      return i % 3 === 1 ? { id, token, to: "retry", inMs: i, error } : { id, token, to: "dead", error };
    });
    const leases = done.map(({ id, token }, n) => ({ n, id, token }));
    await call("heartbeat", JSON.stringify(leases), 1_000);
    await call(
      "report",
      JSON.stringify(leases.map(({ n, id, token }) => ({ n, id, token, progress: '{"percent":1}', log: ["line"] }))),
    );
    expect(await call("settle", JSON.stringify(outcomesOf(mixed).text))).toMatchObject({ stale: [] });
    await call("find_jobs", JSON.stringify(done.map(({ id }) => id)), 2 ** 22);
    await call("job_history", done[1]!.id);
    const idempotency = { key: "k", fingerprint: "f", ttlMs: 1_000, onDuplicate: "replace" } as const;
    await call(
      "add",
      addArgument([newJob(), newJob({ due: { inMs: 5 } }), newJob({ idempotency }), newJob({ idempotency })]),
      true,
    );
    for (const [i, inMs] of [0, 0, 0, 5, 5, 5].entries()) {
      const jobs = [1, 2, 3].map((n) => newJob({ id: `${n} ${i}`, due: { inMs } }));
      for (const some of [jobs.slice(0, 1), jobs.slice(1)]) {
        await call("add_uniform", ...textsOf(some), ...Object.values(columnsOf(some[0]!)), null);
      }
    }
    for (const action of ["cancel", "retry", "promote", "remove"]) {
      await call("change", JSON.stringify({ action, queue: "q", ids: done.map(({ id }) => id) }));
      const states = action === "cancel" ? ["waiting", "scheduled"] : ["scheduled", "dead", "completed"];
      await call("change", JSON.stringify({ action, queue: "q", states, most: 50 }));
    }
    const states = ["waiting", "scheduled", "completed", "dead", "cancelled"];
    await call(
      "list_jobs",
      JSON.stringify({ queue: "q", states, since: 500, until: 9e15, most: 50, bytes: 2 ** 22, after: MANY }),
    );
    await call("sweep");
  } finally {
    await client.end();
  }
});

test("a confirmation and the end of a permit look up their limits, of very many", async () => {
  const { client, statements } = await filled(false);
  try {
    const seen = async (name: string, ...values: readonly unknown[]) => {
      statements.length = 0;
      const placeholders = values.map((_, i) => `$${i + 1}`).join(", ");
      await client.query(`SELECT sluice.${calledName(name)}(${placeholders})`, [...values]);
      expect(statements.length).toBeGreaterThan(0);
      return statements.flatMap(({ Plan: plan }) => looks(plan, "limits")).filter(({ rows }) => rows > MANY / 10);
    };
    await client.query(`INSERT INTO sluice.limits (name, grp, longest, prune_at)
      SELECT 'tenant', ':' || n, 1000, 9e15 FROM generate_series(1, ${MANY}) AS n`);
    await client.query(`INSERT INTO sluice.starts (limit_id, at, since, n, claim, token, began)
      SELECT id, 1, 1, 1, id, id, 1 FROM sluice.limits; SELECT setval('sluice.numbers', ${MANY * 10})`);
    for (let grant = 1; grant <= 7; grant++) {
      expect(await seen("confirm", JSON.stringify({ grants: [MANY - grant], called: [1] }))).toEqual([]);
      expect(await seen("give_permit", null, MANY - grant, MANY - grant, 1, 1, 9e15, "released", null)).toEqual([]);
      expect(
        await seen("give_permit", "tenant", MANY - 10 - grant, MANY - 10 - grant, 1, null, null, "cancelled", null),
      ).toEqual([]);
    }
  } finally {
    await client.end();
  }
});
