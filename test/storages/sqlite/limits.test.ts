import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lease, Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule, temporaryDatabase } from "./support.ts";

function open() {
  const clock = new FakeClock();
  const database = new DatabaseSync(":memory:");
  return { clock, database, storage: new SqliteStorage(database, { clock }) };
}

/** What is wrong in the tables: totals that are no sums, slots of no job, lanes that wait for a limit that does not exist. */
function wrong(database: DatabaseSync): unknown[] {
  const totals = `SELECT name, grp, used, (SELECT total(n) FROM sluice_starts
      WHERE limit_id = sluice_limits.id AND sluice_limits.seen_at - at < window_ms) AS sum
    FROM sluice_limits WHERE window_ms IS NOT NULL AND used <> sum`;
  const holds = `SELECT token FROM sluice_slots
    WHERE until IS NULL AND token NOT IN (SELECT token FROM sluice_jobs WHERE state = 'active')`;
  const homeless = `SELECT limit_id FROM sluice_slots WHERE limit_id NOT IN (SELECT id FROM sluice_limits)
    UNION ALL SELECT limit_id FROM sluice_starts WHERE limit_id NOT IN (SELECT id FROM sluice_limits)`;
  const lanes = `SELECT id FROM sluice_lanes
    WHERE gate IS NOT NULL AND (waiting = 0 OR gate NOT IN (SELECT id FROM sluice_gates))`;
  const gates = `SELECT id FROM sluice_gates WHERE name NOT IN (SELECT name FROM sluice_rules)
    OR id NOT IN (SELECT gate FROM sluice_lanes WHERE gate IS NOT NULL)`;
  // The first lane that is ready is not before the place that its gate is known by.
  const late = `SELECT gate.id FROM sluice_gates AS gate JOIN sluice_lanes AS lane ON lane.gate = gate.id WHERE gate.front = 0
    AND (-lane.priority, lane.turn, lane.own, lane.head_at, lane.head_seq)
      < (-gate.priority, gate.turn, gate.own, gate.head_at, gate.head_seq)`;
  return [totals, holds, homeless, lanes, gates, late].flatMap((sql) => database.prepare(sql).all());
}

test("totals stay sums, and every slot in use belongs to a running job, whatever is done", async () => {
  const rules = [
    rule("window", { max: 5, windowMs: 700 }),
    rule("tokens", { max: 30, windowMs: 900 }, { weight: "n", estimate: 4 }),
    rule("tenant", { max: 9, windowMs: 500, concurrency: 2 }, { byGroup: true, weight: "n" }),
    rule("memory", { concurrency: 8 }, { weight: "m", types: ["b"] }),
    rule("breaker", { max: 99, windowMs: 50 }, { breaker: { failures: 2, openMs: 300, probes: 1, kinds: null } }),
  ];
  const step = fc.record({
    what: fc.constantFrom(
      "add",
      "add",
      "claim",
      "claim",
      "settle",
      "report",
      "wait",
      "sweep",
      "rates",
      "window",
      "reset",
    ),
    group: fc.constantFrom(null, "x", "y"),
    type: fc.constantFrom("a", "b"),
    weight: fc.integer({ min: 0, max: 6 }),
    to: fc.constantFrom("completed", "retry", "back", "unstarted", "dead"),
    ms: fc.constantFrom(1, 49, 50, 333, 700, 31_000, 90_000_000),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 50 }), async (steps) => {
      const { clock, database, storage } = open();
      await storage.limits.define(rules);
      let held: Lease[] = [];
      for (const { what, group, type, weight, to, ms } of steps) {
        if (what === "add") {
          await storage.add([newJob({ group, type, weights: { n: weight, m: weight } }), newJob({ group, type })]);
        } else if (what === "claim") {
          held.push(...(await storage.claim(claimOf({ max: 1 + weight }))).jobs);
        } else if (what === "settle") {
          await storage.settle(held.map((lease) => outcome(lease, to, ms)));
          held = [];
        } else if (what === "report") {
          await storage.report(held.map(({ id, token }) => ({ id, token, weights: { n: weight, m: weight } })));
        } else if (what === "wait") {
          await clock.advance(ms);
        } else if (what === "sweep") {
          while ((await storage.sweep()).more);
        } else if (what === "rates") {
          const { token } = await storage.rates.tryRecordExecution("window", { maxExecutions: 9, windowMs: ms });
          if (token !== undefined && weight > 0) await storage.rates.settleExecution("window", token, weight);
        } else if (what === "window") {
          await storage.limits.change("window", { quota: { windowMs: ms }, group: null });
        } else {
          await storage.limits.change("tenant", { reset: true, group });
        }
        expect(wrong(database), what).toEqual([]);
      }
      await storage.close();
      database.close();
    }),
    { numRuns: 150 },
  );
});

function outcome({ id, token }: Lease, to: string, inMs: number): Outcome {
  const error = { name: "Error", message: "x" };
  if (to === "completed") return { id, token, to, result: null };
  if (to === "retry" || to === "dead") return { id, token, to, inMs, error };
  return { id, token, to: "back", inMs, held: false, error: null, hold: null, unstarted: to === "unstarted" };
}

describe("several storages over one database", () => {
  test("a rule that one storage declares, changes or removes binds the others at once", async () => {
    const path = temporaryDatabase();
    const [mine, other] = [new SqliteStorage(path), new SqliteStorage(path)];
    await other.add(Array.from({ length: 9 }, () => newJob()));
    const started = async () => (await other.claim(claimOf({ max: 2 }))).jobs.length;
    expect(await started()).toBe(2);
    // Jobs that run already count.
    await mine.limits.define([rule("k", { concurrency: 3 })]);
    expect([await started(), await started()]).toEqual([1, 0]);
    await mine.limits.change("k", { quota: { concurrency: 4 }, group: null });
    expect(await started()).toBe(1);
    await mine.limits.remove("k");
    expect(await started()).toBe(2);
    await Promise.all([mine.close(), other.close()]);
  });

  test("a notification to other storages says whether a job may start", async () => {
    const clock = new FakeClock();
    const path = temporaryDatabase();
    const [mine, other] = [new SqliteStorage(path, { clock }), new SqliteStorage(path, { clock })];
    await mine.setup();
    const mayStarts: boolean[] = [];
    await other.setup();
    other.subscribe({ queue: "q", wake: (mayStart) => mayStarts.push(mayStart) });
    const looked = async () => {
      await clock.advance(1_000);
      return mayStarts.splice(0).at(-1);
    };
    await mine.add([newJob()]);
    expect(await looked()).toBe(true);
    await mine.add([newJob()]);
    expect(await looked()).toBe(false);
    await mine.limits.define([rule("k", { concurrency: 1 })]);
    const { jobs } = await mine.claim(claimOf());
    await looked();
    await mine.settle([{ id: jobs[0]!.id, token: jobs[0]!.token, to: "completed", result: null }]);
    expect(await looked()).toBe(true);
    await Promise.all([mine.close(), other.close()]);
  });

  test("a storage whose clock is a little behind counts no less of a group that was forgotten", async () => {
    const path = temporaryDatabase();
    const [early, late] = [new FakeClock(), new FakeClock()];
    const [mine, other] = [new SqliteStorage(path, { clock: early }), new SqliteStorage(path, { clock: late })];
    await mine.limits.define([rule("k", { max: 1, windowMs: 1_000 }, { byGroup: true })]);
    await mine.add([newJob({ group: "g" }), newJob({ group: "g" })]);
    const [first] = (await mine.claim(claimOf({ max: 2 }))).jobs;
    await Promise.all([early.advance(900), late.advance(997)]);
    // A step that writes reads the clock, and stores it for others to see, but not every time.
    await mine.add([newJob({ queue: "other" })]);
    await early.advance(100);
    while ((await mine.sweep()).more);
    const [second] = (await other.claim(claimOf())).jobs;
    expect(second!.startedAt! - first!.startedAt!).toBeGreaterThanOrEqual(1_000);
    await Promise.all([mine.close(), other.close()]);
  });
});

test("a blocked lane is not looked at again until its instant, however many lanes there are", async () => {
  const { clock, database, storage } = open();
  await storage.limits.define([rule("k", { max: 1, windowMs: 1_000 }, { byGroup: true })]);
  const groups = Array.from({ length: 1_500 }, (_, i) => `g${i}`);
  await storage.add([...groups, ...groups].map((group) => newJob({ group })));
  let started = 0;
  for (let more = true; more;) {
    const claim = await storage.claim(claimOf({ max: 200 }));
    started += claim.jobs.length;
    ({ more } = claim);
  }
  expect(started).toBe(1_500);
  const ready = () =>
    database
      .prepare(`SELECT (SELECT count(*) FROM sluice_lanes WHERE waiting > 0 AND gate IS NULL) +
      (SELECT count(*) FROM sluice_gates WHERE until IS NULL) AS n`)
      .get();
  expect(ready()).toEqual({ n: 0 });
  await clock.advance(1_000);
  started = 0;
  for (let more = true; more;) {
    const claim = await storage.claim(claimOf({ max: 700 }));
    started += claim.jobs.length;
    ({ more } = claim);
  }
  expect(started).toBe(1_500);
});

test.each([
  { name: "a key", quota: { concurrency: 1 }, weight: null, most: 12 },
  { name: "a key that weighs jobs", quota: { concurrency: 10 }, weight: "n", most: 24 },
])("$name opens with few changes of rows, however many lanes wait for it", async ({ quota, weight, most }) => {
  const { database, storage } = open();
  await storage.limits.define([rule("model", quota, { byGroup: true, by: ["model"], weight })]);
  const of = { keys: { model: "large" }, weights: { n: 9 } };
  await storage.add(Array.from({ length: 10_000 }, (_, i) => newJob({ group: `g${i}`, ...of })));
  const changes = () => (database.prepare("SELECT total_changes() AS n").get() as { n: number }).n;
  let [running] = (await storage.claim(claimOf({ max: 10 }))).jobs;
  // Each lane is looked at once, and stands at the gate from then on.
  while ((await storage.claim(claimOf({ max: 10 }))).more);
  for (let i = 0; i < 3; i++) {
    const before = changes();
    const { id, token } = running!;
    const settle = [{ id, token, to: "completed" as const, result: null }];
    const { jobs, more } = await storage.claim(claimOf({ max: 10, settle }));
    expect(jobs.length).toBe(1);
    // A worker claims once more, because what waited only for the head may look again.
    if (more) expect((await storage.claim(claimOf({ max: 10 }))).jobs).toEqual([]);
    expect(changes() - before).toBeLessThanOrEqual(most);
    [running] = jobs;
  }
  expect(wrong(database)).toEqual([]);
});

test("a heavy job starts first when it fits, though other groups of its priority had their turn longer ago", async () => {
  const { clock, database, storage } = open();
  await storage.limits.define([rule("k", { max: 10, windowMs: 1_000 }, { weight: "n" })]);
  const add = (id: string, group: string, n: number) => storage.add([newJob({ id, group, weights: { n } })]);
  const ids = async () => (await storage.claim(claimOf({ max: 10 }))).jobs.map(({ id }) => id).join(" ");
  await add("h1", "h", 1);
  expect(await ids()).toBe("h1");
  await add("g1", "g", 5);
  expect(await ids()).toBe("g1");
  await add("heavy", "g", 9);
  expect(await ids()).toBe("");
  for (let i = 0; i < 5; i++) await add(`light${i}`, "h", 2);
  await clock.advance(1_000);
  expect(await ids()).toBe("heavy");
  expect(wrong(database)).toEqual([]);
});

test("all that is stored for limits is deleted in time", async () => {
  const { clock, database, storage } = open();
  const breaker = { failures: 9, openMs: 1, probes: 1, kinds: null };
  await storage.limits.define([
    rule("g", { max: 9, windowMs: 1_000, concurrency: 5 }, { byGroup: true, weight: "n" }),
    rule("k", { max: 9, windowMs: 1_000, everyMs: 1 }, { breaker }),
  ]);
  for (let i = 0; i < 20; i++) {
    await storage.add([newJob({ group: `g${i}` })]);
    const { jobs } = await storage.claim(claimOf({ limits: [{ key: `l${i}`, max: 5, windowMs: 500 }] }));
    const { id, token } = jobs[0]!;
    await storage.settle([{ id, token, to: "completed", result: null }]);
    await storage.limits.take({ name: "g", group: `p${i}`, weight: 1, ttlMs: 500 });
    await storage.limits.change("g", { holdMs: 300, group: `h${i}` });
    await clock.advance(200);
  }
  for (let i = 0; i < 20; i++) {
    await clock.advance(2 * 86_400_000);
    while ((await storage.sweep()).more);
  }
  for (const table of ["limits", "starts", "slots", "claims", "lanes"]) {
    expect(database.prepare(`SELECT count(*) AS n FROM sluice_${table}`).get(), table).toEqual({ n: 0 });
  }
});

test("invalid rows that were written by hand fail no call", async () => {
  const { database, storage } = open();
  await storage.limits.define([rule("k", { max: 5, windowMs: 1_000, concurrency: 5 })]);
  await storage.add([newJob({ id: "j" }), newJob(), newJob()]);
  const { jobs } = await storage.claim(claimOf());
  database.exec(`UPDATE sluice_jobs SET limits = '[{"a":1}, [], ["x"], 7' WHERE id = 'j'`);
  const { id, token } = jobs[0]!;
  expect(await storage.report([{ id, token, weights: { n: 1 } }])).toEqual([]);
  const back = { to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true } as const;
  expect(await storage.settle([{ id, token, ...back }])).toEqual([]);
  expect((await storage.limits.read({ name: "k", group: null }))[0]!.states[0]!.held).toBe(0);
  database.exec(`INSERT INTO sluice_rules VALUES ('odd', '{'); UPDATE sluice_meta SET settings = settings + 1`);
  expect((await storage.claim(claimOf({ max: 3 }))).jobs.length).toBe(3);
  for (const garbage of ["", ":", "1:2", "a:b:c:d:e", "1:999:1:1:1", "-1:1:1:1:1"]) {
    await storage.limits.give(garbage, "cancelled");
    expect(await storage.limits.renew([garbage], 1_000)).toEqual([garbage]);
  }
});

test("the limiter of the storage counts together with jobs", async () => {
  const { storage } = open();
  await storage.limits.define([rule("k", { max: 2, windowMs: 1_000 })]);
  await storage.add([newJob(), newJob(), newJob()]);
  const permit = await storage.limiter("k").acquire();
  expect((await storage.claim(claimOf({ max: 3 }))).jobs.length).toBe(1);
  await permit.cancel();
  expect((await storage.claim(claimOf({ max: 3 }))).jobs.length).toBe(1);
});

test("jobs without a group under a limit by group do not count with starts under its bare name", async () => {
  const { clock, storage } = open();
  await storage.rates.tryRecordExecution("k", { maxExecutions: 1, windowMs: 1_000 });
  await storage.limits.define([rule("k", { max: 1, windowMs: 1_000 }, { byGroup: true })]);
  const groups = async () => (await storage.limits.read({ name: "k", group: null }))[0]!.groups;
  expect(await groups()).toBe(0);
  await storage.add([newJob(), newJob()]);
  expect((await storage.claim(claimOf({ max: 2 }))).jobs.length).toBe(1);
  expect(await groups()).toBe(1);
  await storage.limits.change("k", { reset: true, group: null });
  expect((await storage.rates.tryRecordExecution("k", { maxExecutions: 1, windowMs: 1_000 })).granted).toBe(false);
  await clock.advance(5_000);
  while ((await storage.sweep()).more);
  expect(await groups()).toBe(0);
});

test("a slot that another queue releases and takes again at once does not drop the jobs that waited for it", async () => {
  const { storage } = open();
  await storage.limits.define([rule("k", { concurrency: 1 }, { byGroup: true })]);
  await storage.add([newJob({ queue: "p" }), newJob({ queue: "p" }), newJob({ queue: "r" })]);
  const done = ({ id, token }: Lease) => ({ id, token, to: "completed" as const, result: null });
  const [first] = (await storage.claim(claimOf({ queue: "p" }))).jobs;
  for (const queue of ["p", "r"]) expect((await storage.claim(claimOf({ queue }))).jobs).toEqual([]);
  const mayStarts: boolean[] = [];
  storage.subscribe({ queue: "r", wake: (mayStart) => mayStarts.push(mayStart) });
  const [second] = (await storage.claim(claimOf({ queue: "p", settle: [done(first!)] }))).jobs;
  expect([second !== undefined, mayStarts.length]).toEqual([true, 0]);
  await storage.settle([done(second!)]);
  expect(mayStarts).toEqual([true]);
});

test("a permit that was settled is remembered as such, however often the sweep runs", async () => {
  const { clock, storage } = open();
  const { limits } = storage;
  const swept = async (ms: number) => {
    await clock.advance(ms);
    while ((await storage.sweep()).more);
  };
  for (const byGroup of [false, true]) {
    const name = `k${byGroup}`;
    await limits.define([rule(name, { max: 10, windowMs: 50 }, { byGroup })]);
    const used = async () => (await limits.read({ name, group: byGroup ? "g" : null }))[0]!.states[0]!.used;
    const take = async () => {
      const taken = await limits.take({ name, group: "g", weight: 1, ttlMs: 500 });
      return taken.granted ? taken.token : "";
    };
    const token = await take();
    await limits.give(token, { used: 5 });
    await swept(60_000);
    await limits.give(token, { used: 6 });
    expect(await used(), "what is more").toBe(1);
    await swept(60_000);
    await limits.give(token, { used: 6 });
    expect(await used(), "nothing more").toBe(0);
    const released = await take();
    await swept(60_000);
    await limits.give(released, "released");
    await swept(60_000);
    await limits.give(released, { used: 9 });
    expect(await used(), "after its end").toBe(0);
  }
  await swept(3 * 86_400_000);
  await swept(3 * 86_400_000);
});

test("two starts of one claim are spaced, though the claim finds out meanwhile that the clock of another process is fast", async () => {
  const path = temporaryDatabase();
  const [fast, own] = [new FakeClock(), new FakeClock()];
  fast.stepWall(200);
  await using other = new SqliteStorage(path, { clock: fast });
  await using storage = new SqliteStorage(path, { clock: own });
  const group = rule("group", { max: 5, windowMs: 1_000 }, { byGroup: true });
  await storage.limits.define([rule("spaced", { everyMs: 150 }), group]);
  const take = (name: string) => other.limits.take({ name: "group", group: name, weight: null, ttlMs: 10 });
  await Promise.all([fast.advance(1_000), own.advance(1_000)]);
  await take("first");
  await Promise.all([fast.advance(240), own.advance(240)]);
  await take("g");
  await storage.add([newJob({ group: "other" }), newJob({ group: "g" })]);
  const { jobs, nextInMs } = await storage.claim(claimOf({ max: 10 }));
  expect([jobs.length, nextInMs]).toEqual([1, 150]);
});
