import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule } from "./support.ts";

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
    const unsubscribe = listening ? listener.subscribe({ queue: null, event: () => {} }) : () => {};
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
    const hold = { names: ["h"], scope: true, forMs: 1_000 };
    const outcomes: Outcome[] = [
      { ...lease[0]!, to: "completed", result: null },
      { ...lease[1]!, to: "retry", inMs: 1_000, error },
      { ...lease[2]!, to: "back", inMs: 0, held: true, error, hold, unstarted: true },
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
    await underLimits(storage, clock);
    unsubscribe();
    await clock.advance(40 * 86_400_000);
    while ((await storage.sweep()).more);
    await clock.advance(40 * 86_400_000);
    while ((await storage.sweep()).more);
  }
  await listener.close();
  database.prepare = prepare;
  return { database, statements };
}

/** Everything that shared limits can do. */
async function underLimits(storage: SqliteStorage, clock: FakeClock): Promise<void> {
  const { limits } = storage;
  const breaker = { failures: 1, openMs: 10, probes: 1, kinds: null };
  // First limits for all jobs, then limits by group and breakers.
  await limits.define([rule("plain", { concurrency: 4 })]);
  await storage.add(
    Array.from({ length: 60 }, (_, i) => newJob({ queue: "types", type: `t${i % 20}`, priority: i % 2 })),
  );
  await storage.claim(claimOf({ queue: "types", max: 9 }));
  await storage.add(Array.from({ length: 6 }, () => newJob({ queue: "l" })));
  const plain = await storage.claim(claimOf({ queue: "l", max: 3 }));
  const ended = plain.jobs.map(({ id, token }) => ({ id, token, to: "completed" as const, result: null }));
  await storage.claim(claimOf({ queue: "l", max: 9, settle: ended }));
  await limits.define([
    rule("window", { max: 50, windowMs: 1_000 }, { queues: ["l"] }),
    rule("many", { max: 5_000, windowMs: 1_000, everyMs: 1 }, { types: ["u"] }),
    rule("tenant", { max: 12, windowMs: 1_000, concurrency: 2 }, { byGroup: true, weight: "n", breaker }),
    rule("pinned", { max: 90, windowMs: 1_000 }, { byGroup: true, weight: "n" }),
    rule("memory", { concurrency: 40 }, { weight: "m" }),
  ]);
  const jobs = (groups: number, said: object = {}) =>
    Array.from({ length: 60 }, (_, i) =>
      newJob({ queue: "l", type: i % 3 ? "t" : "u", group: `g${i % groups}`, weights: { n: 1, m: 1 }, ...said }),
    );
  await storage.add([...jobs(20), ...jobs(3), ...jobs(1), ...jobs(5, { due: { inMs: 5 } })]);
  await storage.add([newJob({ queue: "l", weights: { n: 12 }, priority: 9, group: "heavy" })]);
  const claims = [claimOf({ queue: "l", max: 30 }), claimOf({ queue: "l", max: 30, types: ["t", "u"] })];
  for (const request of [...claims, claimOf({ queue: "l", max: 0 }), claimOf({ queue: "l", max: 9, types: ["t"] })]) {
    const { jobs: started } = await storage.claim(request);
    const [first, second, third] = started;
    if (third === undefined) continue;
    await storage.report([{ id: first!.id, token: first!.token, weights: { n: 3, m: 0 } }]);
    const hold = { names: ["tenant"], scope: true, forMs: 1 };
    const error = { name: "Error", message: "x" };
    await storage.settle([
      { id: first!.id, token: first!.token, to: "back", inMs: 0, held: true, error: null, hold, unstarted: true },
      { id: second!.id, token: second!.token, to: "retry", inMs: 0, error },
      ...started.slice(2).map(({ id, token }) => ({ id, token, to: "completed" as const, result: null })),
    ]);
    await clock.advance(20);
  }
  const permit = await limits.take({ name: "tenant", group: "p", weight: null, ttlMs: 1_000 });
  if (permit.granted) {
    await limits.renew([permit.token], 2_000);
    await limits.give(permit.token, { used: 2 });
    await limits.give(permit.token, "cancelled");
  }
  const counted = await limits.take({ name: "pinned", group: null, weight: 1, ttlMs: 1_000 });
  if (counted.granted) {
    await limits.give(counted.token, "released");
    await limits.give(counted.token, { used: 4 });
  }
  const memory = await limits.take({ name: "memory", group: null, weight: 3, ttlMs: 1_000 });
  if (memory.granted) {
    await limits.give(memory.token, { used: 1 });
    await limits.give(memory.token, "released");
  }
  await limits.read({ name: null, group: null });
  await storage.backlog("l");
  const { jobs: listed } = await storage.list({ ...EVERYTHING, queue: "l", limit: 1 });
  await storage.explain(listed[0]!.id);
  await limits.change("tenant", { quota: { max: 8 }, group: null });
  await storage.claim(claims[0]!);
  await limits.change("tenant", { holdMs: 5, group: "g1" });
  await limits.change("tenant", { holdMs: 5, group: null });
  await limits.change("tenant", { remaining: 5, resetMs: 50, group: "g1" });
  await limits.change("tenant", { reset: true, group: null });
  await limits.change("tenant", { paused: false });
  for (const name of ["plain", "window", "many", "tenant", "pinned", "memory"]) await limits.remove(name);
  await heavyOnes(storage, clock);
  await keyedOnes(storage, clock);
}

/** A job that is too heavy for what is available, others behind it, and all that becomes of them. */
async function heavyOnes(storage: SqliteStorage, clock: FakeClock): Promise<void> {
  const { limits } = storage;
  await limits.define([
    rule("tokens", { max: 10, windowMs: 100 }, { weight: "n", queues: ["h"] }),
    rule("slots", { concurrency: 10 }, { weight: "m", queues: ["h"] }),
    rule("share", { max: 10, windowMs: 100 }, { weight: "n", queues: ["hg"], byGroup: true }),
  ]);
  for (const queue of ["h", "hg"]) {
    const of = (type: string, n: number, said: object = {}) => newJob({ queue, type, weights: { n, m: n }, ...said });
    await storage.add([of("light", 6)]);
    const { jobs } = await storage.claim(claimOf({ queue, types: ["light"], max: 1 }));
    const heavy = of("heavy", 8);
    const behind = of("heavy", 8);
    await storage.add([heavy, behind, of("light", 1), of("light", 1), of("heavy", 1, { due: { inMs: 5 } })]);
    const claims = async () => {
      for (const types of [["heavy"], ["light"]]) await storage.claim(claimOf({ queue, types, max: 9 }));
    };
    await claims();
    await storage.explain(behind.id);
    await clock.advance(5);
    const { id, token } = jobs[0]!;
    await storage.report([{ id, token, weights: { n: 5, m: 5 } }]);
    await storage.claim(claimOf({ queue, max: 9 }));
    await storage.change({ action: "remove", queue, ids: [heavy.id] });
    await claims();
    await storage.settle([{ id, token, to: "completed", result: null }]);
    await clock.advance(100);
    await claims();
  }
  await limits.change("share", { quota: { concurrency: 9 }, group: null });
  await limits.define([rule("slots", { concurrency: 9 }, { queues: ["h"] })]);
  for (const name of ["tokens", "slots", "share"]) await limits.remove(name);
}

/** Lanes with keys, in groups and without, of several types, at gates and not. */
async function keyedOnes(storage: SqliteStorage, clock: FakeClock): Promise<void> {
  const { limits } = storage;
  await limits.define([
    rule("model", { concurrency: 1 }, { byGroup: true, by: ["model"], queues: ["k", "kg"] }),
    rule(
      "tenant",
      { max: 2, windowMs: 50 },
      { byGroup: true, by: ["tenant"], queues: ["k", "kg"], groups: { a: { share: 2 } } },
    ),
  ]);
  for (const queue of ["k", "kg"]) {
    const jobs = Array.from({ length: 40 }, (_, i) =>
      newJob({
        queue,
        type: i % 3 ? "t" : "u",
        group: queue === "k" ? null : ["a", "b"][i % 2]!,
        ...(i % 7 > 0 && { keys: { model: `m${i % 5}`, tenant: `t${i % 4}` } }),
      }),
    );
    await storage.add(jobs);
    for (let i = 0; i < 6; i++) {
      const { jobs: started } = await storage.claim(claimOf({ queue, max: 4, types: i % 2 ? null : ["t", "u"] }));
      await storage.settle(started.map(({ id, token }) => ({ id, token, to: "completed" as const, result: null })));
      await clock.advance(20);
    }
    await storage.explain(jobs[39]!.id);
    await storage.change({ action: "remove", queue, ids: jobs.slice(-2).map(({ id }) => id) });
  }
  for (const name of ["model", "tenant"]) await limits.remove(name);
}

const EVERYTHING = { states: null, type: null, group: null, since: null, until: null, cursor: null };

/** Tables that may grow. The others have one row, or few. */
const LARGE = /sluice_(?:jobs|lanes|gates|starts|limits|slots|claims|keys|attempts|log|events)\b/;

/** Statements that scan an index on purpose. */
const SCANS: readonly RegExp[] = [
  // The first slots, the oldest event: they stop at the first row.
  /^SELECT 1 FROM sluice_slots LIMIT 1$/,
  // What users ask about limits and the backlog of a queue: it adds up lanes, and counts what is not in one.
  /^SELECT queue, type, total\(waiting\) AS waiting FROM sluice_lanes WHERE waiting > 0 GROUP BY queue, type$/,
  /^SELECT type, count\(\*\) AS n FROM sluice_jobs .* GROUP BY type$/,
  // Queues whose claims bring limits along: read when one is added or removed.
  /^SELECT queue FROM sluice_claims$/,
  // Active jobs, along the index of leases: what users ask goes through those that run.
  /^SELECT seq FROM sluice_jobs INDEXED BY sluice_jobs_leases WHERE /,
  /^SELECT DISTINCT queue FROM sluice_jobs WHERE lease_until > 0$/,
  /FROM sluice_events (?:WHERE at <= \? )?ORDER BY seq LIMIT/,
];

test("no statement scans or sorts a table that may grow", async () => {
  const { database, statements } = await everyStatement();
  const ours = [...statements].filter((sql) => /^(?:SELECT|UPDATE|DELETE|INSERT)/.test(sql) && LARGE.test(sql));
  expect(ours.length).toBeGreaterThan(60);
  const wrong: string[] = [];
  for (const sql of ours) {
    if (SCANS.some((scan) => scan.test(sql))) continue;
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
    for (const { detail } of plan) {
      const scans = detail.startsWith("SCAN ") && LARGE.test(detail);
      if (scans || /TEMP B-TREE/.test(detail)) wrong.push(`${detail}: ${sql}`);
    }
  }
  expect(wrong).toEqual([]);
});
