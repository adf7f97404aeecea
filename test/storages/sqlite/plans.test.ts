import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob } from "./support.ts";

/** Every statement that a storage prepares while it does everything that it can do. */
async function everyStatement(): Promise<{ database: DatabaseSync; statements: ReadonlySet<string> }> {
  const clock = new FakeClock();
  const database = new DatabaseSync(":memory:");
  const statements = new Set<string>();
  const prepare = database.prepare.bind(database);
  database.prepare = (sql: string) => {
    statements.add(sql);
    return prepare(sql);
  };
  const storage = new SqliteStorage(database, { clock });
  const listener = new SqliteStorage(database, { clock });
  for (const listening of [false, true]) {
    const leave = listening ? listener.subscribe({ queue: null, event: () => {} }) : () => {};
    const idempotency = { key: `k${listening}`, fingerprint: "f", ttlMs: 1_000, onDuplicate: "replace" } as const;
    await storage.add([newJob({ idempotency }), newJob({ idempotency })]);
    await storage.add([newJob({ group: "g" }), newJob({ type: "u" }), newJob({ keepFor: 0 })]);
    await storage.add([newJob({ due: { inMs: 500 } }), newJob({ deadline: { inMs: 1 }, group: "late" })]);
    await storage.add(Array.from({ length: 8 }, () => newJob()));
    const limits = [
      { key: "l", max: 20, windowMs: 60_000 },
      { key: "m", max: 2_000, windowMs: 1_000 },
    ];
    await storage.claim(claimOf({ max: 1, types: ["u"] }));
    await storage.add(["t", "u", "u"].map((type) => newJob({ type, priority: 1 })));
    await storage.claim(claimOf({ max: 2, types: ["t", "u"] }));
    await storage.claim(claimOf({ max: 1 }));
    const { jobs } = await storage.claim(claimOf({ max: 20, limits }));
    const lease = jobs.map(({ id, token }) => ({ id, token }));
    await storage.heartbeat(lease, 30_000);
    await storage.report([{ ...lease[0]!, log: ["line"], progress: { percent: 1 } }]);
    const error = { name: "Error", message: "x" };
    const hold = { keys: ["h"], forMs: 1_000 };
    const outcomes: Outcome[] = [
      { ...lease[0]!, to: "completed", result: null },
      { ...lease[1]!, to: "retry", inMs: 1_000, error },
      { ...lease[2]!, to: "back", inMs: 0, held: true, error, hold, unstarted: ["l", "m"] },
      { ...lease[3]!, to: "dead", error },
      { ...lease[4]!, to: "cancelled", error },
      ...lease.slice(5).map(({ id, token }) => ({ id, token, to: "completed" as const, result: null })),
    ];
    await storage.claim(claimOf({ max: 0, settle: outcomes, limits }));
    for (const action of ["cancel", "retry", "promote", "remove"] as const) {
      await storage.change({ action, queue: "q", ids: jobs.map(({ id }) => id) });
      const states = ["waiting", "scheduled", "completed", "dead"] as const;
      const where = { states, type: "t", group: "g", endedForMs: 0 };
      await storage.change({ action, queue: "q", where, limit: 10 });
    }
    await storage.setPaused("q", "t", true);
    await storage.setPaused("q", "t", false);
    await storage.find(["a"]);
    await storage.add([newJob({ id: `h${listening}` })]);
    await storage.history(`h${listening}`);
    const list = { queue: "q", states: null, type: "t", group: "g", since: 1, until: 9e15, limit: 10, cursor: "99" };
    await storage.list(list);
    await storage.overview();
    const { rates } = storage;
    await rates.recordExecution("r");
    await rates.getExecutionCount("r", new Date(0).toISOString());
    await rates.getOldestExecutionAtOffset("r", 1);
    await rates.setNextAvailableTime("r", new Date(0).toISOString());
    const { token } = await rates.tryRecordExecution("r", { maxExecutions: 5, windowMs: 1_000 });
    await rates.settleExecution("r", token!, 5);
    await rates.cancelExecution("r", token!);
    await rates.tryRecordExecution("r", { maxExecutions: 1, windowMs: 1_000 });
    await rates.clear("r");
    await storage.claim(claimOf({ max: 5 }));
    leave();
    await clock.advance(40 * 86_400_000);
    while ((await storage.sweep()).more);
    await clock.advance(40 * 86_400_000);
    while ((await storage.sweep()).more);
  }
  await listener.close();
  database.prepare = prepare;
  return { database, statements };
}

/** Tables that may grow. The others have one row, or few. */
const LARGE = /sluice_(?:jobs|lanes|starts|limits|keys|attempts|log|events)\b/;

/** Statements that walk along an index on purpose. */
const WALKS: readonly RegExp[] = [
  // The first of all queues, the oldest event: they stop at the first row.
  /^SELECT queue FROM sluice_jobs ORDER BY queue LIMIT 1$/,
  /FROM sluice_events (?:WHERE at <= \? )?ORDER BY seq LIMIT/,
];

test("no statement walks through a table that may grow, or sorts one", async () => {
  const { database, statements } = await everyStatement();
  const ours = [...statements].filter((sql) => /^(?:SELECT|UPDATE|DELETE|INSERT)/.test(sql) && LARGE.test(sql));
  expect(ours.length).toBeGreaterThan(60);
  const wrong: string[] = [];
  for (const sql of ours) {
    if (WALKS.some((walk) => walk.test(sql))) continue;
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
    for (const { detail } of plan) {
      const scans = detail.startsWith("SCAN ") && LARGE.test(detail);
      if (scans || /TEMP B-TREE/.test(detail)) wrong.push(`${detail}: ${sql}`);
    }
  }
  expect(wrong).toEqual([]);
});
