import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob } from "./support.ts";

function open() {
  const clock = new FakeClock();
  const database = new DatabaseSync(":memory:");
  return { clock, database, storage: new SqliteStorage(database, { clock }) };
}

test("an invalid row that was written by hand fails no call", async () => {
  const { database, storage } = open();
  await storage.add([newJob({ id: "bad", maxAttempts: 1 }), newJob({ id: "good" })]);
  database.exec(`UPDATE sluice_jobs SET data = '{oops', weights = '[', backoff = '"never"', progress = '7', error = '{}'
    WHERE id = 'bad'`);
  const { jobs } = await storage.claim(claimOf({ max: 2 }));
  expect(jobs).toMatchObject([
    {
      id: "bad",
      data: "{oops",
      weights: null,
      backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
      progress: null,
      error: { name: "Error" },
    },
    { id: "good", backoff: { kind: "fixed", delay: 1_000 } },
  ]);
  database.exec("UPDATE sluice_attempts SET error = 'x'");
  expect(await storage.list({ ...everything, queue: "q" })).toMatchObject({ jobs: [{ id: "good" }, { id: "bad" }] });
  const error = { name: "Error", message: "no" };
  expect(await storage.settle([{ id: "bad", token: jobs[0]!.token, to: "dead", error }])).toEqual([]);
  database.exec("UPDATE sluice_attempts SET error = 'x'");
  expect((await storage.history("bad")).attempts).toMatchObject([{ error: { name: "Error" } }]);
});

const everything = {
  queue: "q",
  states: null,
  type: null,
  group: null,
  since: null,
  until: null,
  limit: 100,
  cursor: null,
};

test("the tables refuse what breaks the state machine", async () => {
  const { database, storage } = open();
  await storage.add([newJob({ id: "j" })]);
  for (const wrong of [
    "state = 'active'",
    "state = 'completed'",
    "state = 'running'",
    "lease_until = 1",
    "finished_at = 1",
    "lane = NULL",
    "result = '1'",
  ]) {
    expect(() => database.exec(`UPDATE sluice_jobs SET ${wrong}`), wrong).toThrow(/CHECK/);
  }
});

test("an add that is refused does not fail others of the same turn", async () => {
  const { database, storage } = open();
  const idempotency = { key: "k", fingerprint: "f", ttlMs: 60_000, onDuplicate: "reject" } as const;
  await storage.add([newJob({ id: "first", idempotency })]);
  const results = await Promise.allSettled([
    storage.add([newJob({ id: "a" })]),
    storage.add([newJob({ id: "b", group: "g" }), newJob({ id: "c", group: "g", idempotency })]),
    storage.add([newJob({ id: "d", group: "g", idempotency: { ...idempotency, key: "other" } })]),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  const found = await storage.find(["a", "b", "c", "d"]);
  expect(found.map((job) => job?.id)).toEqual(["a", undefined, undefined, "d"]);
  expect(counted(database)).toBe(true);
});

/** Do the lanes count what waits in them? */
function counted(database: DatabaseSync): boolean {
  const wrong = database
    .prepare(
      `SELECT 1 FROM sluice_lanes WHERE waiting <>
        (SELECT count(*) FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting')
      UNION ALL SELECT 1 FROM sluice_jobs WHERE state = 'waiting' AND lane NOT IN (SELECT id FROM sluice_lanes)`,
    )
    .all();
  return wrong.length === 0;
}

test("lanes count the jobs that wait in them, whatever is done, and all of them can be claimed in the end", async () => {
  const step = fc.record({
    what: fc.constantFrom(
      "add",
      "add",
      "later",
      "claim",
      "claim",
      "settle",
      "sweep",
      "cancel",
      "retry",
      "remove",
      "wait",
    ),
    group: fc.constantFrom(null, "", "a", "b"),
    type: fc.constantFrom("t", "u"),
    priority: fc.constantFrom(0, 1, -2.5),
    to: fc.constantFrom("completed", "retry", "back", "dead", "cancelled"),
    ms: fc.constantFrom(0, 10, 1_000, 31_000, 3_700_000),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { clock, database, storage } = open();
      await storage.setup();
      const ids: string[] = [];
      let held: { id: string; token: number }[] = [];
      for (const { what, group, type, priority, to, ms } of steps) {
        const some = ids.slice(-3);
        if (what === "add" || what === "later") {
          const due = { inMs: what === "add" ? 0 : ms };
          const deadline = ms === 1_000 ? { inMs: 40_000 } : null;
          const job = newJob({ group, type, priority, due, deadline, keepFor: ms === 10 ? 0 : null });
          ids.push(job.id);
          await storage.add([job]);
        } else if (what === "claim") {
          held.push(...(await storage.claim(claimOf({ max: 3 }))).jobs);
        } else if (what === "settle") {
          const error = { name: "Error", message: "x" };
          await storage.settle(
            held.map(({ id, token }): Outcome => {
              if (to === "completed") return { id, token, to, result: null };
              if (to === "back")
                return { id, token, to, inMs: ms, held: false, error: null, hold: null, unstarted: false };
              return to === "retry" ? { id, token, to, inMs: ms, error } : { id, token, to, error };
            }),
          );
          held = [];
        } else if (what === "sweep") {
          await storage.sweep();
        } else if (what === "wait") {
          await clock.advance(ms);
        } else {
          await storage.change({ action: what, queue: "q", ids: some });
        }
        expect(counted(database), what).toBe(true);
      }
      await clock.advance(4_000_000);
      while ((await storage.sweep()).more);
      const { jobs, more } = await storage.claim(claimOf({ max: 1_000 }));
      expect(more).toBe(false);
      const [view] = await storage.overview("q");
      expect(view === undefined ? 0 : view.counts.waiting + view.counts.scheduled).toBe(0);
      expect(jobs.every(({ state }) => state === "active")).toBe(true);
      await storage.close();
      database.close();
    }),
    { numRuns: 60 },
  );
});

describe("rows that are no longer needed", () => {
  test("starts, names, keys, lanes, events and ended jobs are deleted when their time has come", async () => {
    const { clock, database, storage } = open();
    const other = new SqliteStorage(database, { clock });
    other.subscribe({ queue: null, event: () => {} });
    for (let i = 0; i < 30; i++) {
      const idempotency = { key: `k${i}`, fingerprint: "f", ttlMs: 1_000, onDuplicate: "return" } as const;
      await storage.add([newJob({ group: `g${i}`, keepFor: 1_000, idempotency })]);
      const limits = [{ key: `l${i}`, max: 10, windowMs: 1_000 }];
      const { jobs } = await storage.claim(claimOf({ limits }));
      const { id, token } = jobs[0]!;
      await storage.report([{ id, token, log: ["one", "two"] }]);
      await storage.settle([{ id, token, to: "completed", result: null }]);
      await storage.rates.tryRecordExecution("named", { maxExecutions: 100, windowMs: 1_000 });
    }
    await other.close();
    for (let i = 0; i < 5; i++) {
      await clock.advance(2 * 86_400_000);
      while ((await storage.sweep()).more);
    }
    for (const table of ["jobs", "log", "attempts", "keys", "lanes", "limits", "starts", "events", "processes"]) {
      expect(database.prepare(`SELECT count(*) AS n FROM sluice_${table}`).get(), table).toEqual({ n: 0 });
    }
    expect(await storage.sweep()).toEqual({ stalled: 0, deleted: 0, more: false });
  });

  test("a limiter without a sweep deletes its own old starts", async () => {
    const { clock, database, storage } = open();
    for (let i = 0; i < 1_000; i++) {
      await storage.rates.tryRecordExecution("l", { maxExecutions: 5, windowMs: 100 });
      await clock.advance(25);
    }
    const { n } = database.prepare("SELECT count(*) AS n FROM sluice_starts").get() as { n: number };
    expect(n).toBeLessThan(100);
  });
});

test("a bound limits how many events are kept for subscribers that do not read them", async () => {
  const { clock, database, storage } = open();
  const other = new SqliteStorage(database, { clock });
  await other.setup();
  const unsubscribe = other.subscribe({ queue: null, event: () => {} });
  for (let i = 0; i < 25; i++) await storage.add(Array.from({ length: 1_000 }, () => newJob()));
  while ((await storage.sweep()).more);
  const { n } = database.prepare("SELECT count(*) AS n FROM sluice_events").get() as { n: number };
  expect(n).toBe(10_000);
  unsubscribe();
  await other.close();
});
