import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ClaimRequest, Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule } from "./support.ts";

function open() {
  const clock = new FakeClock();
  const database = new DatabaseSync(":memory:");
  return { clock, database, storage: new SqliteStorage(database, { clock }) };
}

const TYPES = Array.from({ length: 14 }, (_, i) => `t${i}`);

/** The next jobs of a claim without limits and groups, found by reading all that wait. */
function expected(database: DatabaseSync, { max, types }: ClaimRequest, paused: ReadonlySet<string>): string[] {
  const rows = database
    .prepare("SELECT id, type FROM sluice_jobs WHERE state = 'waiting' ORDER BY priority DESC, due_at, seq")
    .all() as { id: string; type: string }[];
  const wanted = rows.filter(({ type }) => !paused.has(type) && (types === null || types.includes(type)));
  return wanted.slice(0, max).map(({ id }) => id);
}

/** Lanes whose stored first job is wrong; and groups of which some lanes store it and some do not. */
function wrongLanes(database: DatabaseSync): readonly unknown[] {
  return database
    .prepare(
      `SELECT id FROM sluice_lanes WHERE waiting > 0 AND first_at IS NOT NULL AND (first_at, first_seq) IS NOT
        (SELECT due_at, seq FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1)
      UNION ALL SELECT min(id) FROM sluice_lanes WHERE keys = '' GROUP BY queue, priority, grp
        HAVING count(first_at) NOT IN (0, count(*)) OR (count(*) > 8 AND count(first_at) = 0)`,
    )
    .all();
}

const step = fc.record({
  what: fc.constantFrom(
    ...([
      "add",
      "add",
      "add",
      "claim",
      "claim",
      "settle",
      "cancel",
      "retry",
      "update",
      "pause",
      "wait",
      "limit",
    ] as const),
  ),
  types: fc.subarray(TYPES, { minLength: 1 }),
  asks: fc.boolean(),
  grouped: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  keyed: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  priority: fc.constantFrom(0, 0, 0, 1),
  max: fc.integer({ min: 1, max: 12 }),
  to: fc.constantFrom("completed", "retry", "back", "dead"),
  ms: fc.constantFrom(0, 10, 3_700_000),
});

test("claims from lanes of many types start jobs in the order of priority and due time, whatever comes between them", async () => {
  let checked = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), fc.boolean(), async (steps, mayGroup) => {
      const { clock, database, storage } = open();
      await storage.setup();
      await storage.add(TYPES.map((type) => newJob({ type })));
      const ids: string[] = [];
      const paused = new Set<string>();
      let held: { id: string; token: number }[] = [];
      let others = false;
      for (const { what, types, asks, grouped, keyed, priority, max, to, ms } of steps) {
        const some = ids.slice(-5);
        if (what === "add") {
          const group = grouped && mayGroup ? "g" : null;
          const keys = keyed && mayGroup ? { tenant: "a" } : undefined;
          others ||= group !== null || keys !== undefined;
          const jobs = types.map((type) => newJob({ type, priority, group, due: { inMs: ms }, ...(keys && { keys }) }));
          ids.push(...jobs.map(({ id }) => id));
          await storage.add(jobs);
        } else if (what === "claim") {
          const request = claimOf({ max, types: asks ? types : null });
          // Jobs that came due are brought into the lanes by a claim that takes none.
          await storage.claim({
            ...request,
            max: 0,
            settle: [{ id: "none", token: 1, to: "completed", result: null }],
          });
          const next = expected(database, request, paused);
          const { jobs, more } = await storage.claim(request);
          held.push(...jobs);
          if (others) continue;
          checked += 1;
          expect(jobs.map(({ id }) => id)).toEqual(next);
          expect(more).toBe(expected(database, request, paused).length > 0);
        } else if (what === "settle") {
          const error = { name: "Error", message: "x" };
          const outcomes = held.map(({ id, token }): Outcome => {
            if (to === "completed") return { id, token, to, result: null };
            if (to === "back")
              return { id, token, to, inMs: ms, held: false, error: null, hold: null, unstarted: false };
            return to === "retry" ? { id, token, to, inMs: ms, error } : { id, token, to, error };
          });
          await storage.settle(outcomes);
          held = [];
        } else if (what === "pause") {
          for (const type of types.slice(0, 2)) {
            const on = !paused.has(type);
            if (on) paused.add(type);
            else paused.delete(type);
            await storage.setPaused("q", type, on);
          }
        } else if (what === "wait") {
          await clock.advance(ms);
          while ((await storage.sweep()).more);
        } else if (what === "update") {
          for (const id of some) await storage.update({ queue: "q", id, set: { priority } });
        } else if (what === "limit") {
          // A claim under a limit of one type takes another path, and leaves the lanes right, too.
          await storage.limits.define([rule("one", { max: 2, windowMs: 1_000 }, { types: [types[0]!] })]);
          held.push(...(await storage.claim(claimOf({ max }))).jobs);
          await storage.limits.remove("one");
        } else {
          await storage.change({ action: what, queue: "q", ids: some });
        }
        expect(wrongLanes(database), what).toEqual([]);
      }
      for (const type of paused) await storage.setPaused("q", type, false);
      await clock.advance(4_000_000);
      while ((await storage.sweep()).more);
      expect((await storage.claim(claimOf({ max: 1_000 }))).more).toBe(false);
      const [view] = await storage.overview("q");
      expect(view === undefined ? 0 : view.counts.waiting + view.counts.scheduled).toBe(0);
      await storage.close();
      database.close();
    }),
    { numRuns: 100 },
  );
  expect(checked).toBeGreaterThan(200);
});

/** Counts the statements that are run from now on. */
function countStatements(database: DatabaseSync): { count: number } {
  const counted = { count: 0 };
  const prepare = database.prepare.bind(database);
  database.prepare = (sql: string) => {
    const statement = prepare(sql);
    return new Proxy(statement, {
      get(target, key) {
        const value = Reflect.get(target, key, target) as unknown;
        if (typeof value !== "function") return value;
        return (...args: unknown[]): unknown => {
          if (key === "run" || key === "get" || key === "all") counted.count += 1;
          return Reflect.apply(value, target, args);
        };
      },
    });
  };
  return counted;
}

const LARGE = { max: 1_000, windowMs: 60_000 };
const typesUpTo = (count: number) => Array.from({ length: count }, (_, i) => `t${i}`);
const everyOther = (types: readonly string[]) => types.filter((_, i) => i % 2 === 0);

test.each<{ name: string; rules: (types: readonly string[]) => ReturnType<typeof rule>[] }>([
  { name: "without limits", rules: () => [] },
  { name: "under a limit of one type", rules: () => [rule("one", LARGE, { types: ["t3"] })] },
  { name: "under a limit of every other type", rules: (types) => [rule("half", LARGE, { types: everyOther(types) })] },
  { name: "under a limit for each type", rules: (types) => types.map((type) => rule(type, LARGE, { types: [type] })) },
  { name: "under a limit by group", rules: () => [rule("group", LARGE, { byGroup: true })] },
  { name: "under a limit that weighs jobs", rules: () => [rule("weight", LARGE, { weight: "w" })] },
  {
    name: "under a limit for all that is full",
    rules: () => [rule("all", { concurrency: 2 }), rule("one", LARGE, { types: ["t3"] })],
  },
])("the number of statements of a claim $name does not grow with the number of types that wait", async ({ rules }) => {
  const statements: number[] = [];
  for (const types of [100, 500].map(typesUpTo)) {
    const { database, storage } = open();
    const counted = countStatements(database);
    const limits = rules(types);
    if (limits.length > 0) await storage.limits.define(limits);
    await storage.add(types.map((type) => newJob({ type })));
    await storage.claim(claimOf());
    counted.count = 0;
    for (const asked of [null, types]) await storage.claim(claimOf({ max: 5, types: asked }));
    statements.push(counted.count);
    const [view] = await storage.overview("q");
    expect(view!.counts.active).toBe(limits[0]?.name === "all" ? 2 : 11);
    await storage.close();
  }
  expect(statements[1]).toBe(statements[0]);
});

test("types that a full limit blocks are passed over in pages", async () => {
  const { database, storage } = open();
  const counted = countStatements(database);
  const types = typesUpTo(600);
  await storage.limits.define([rule("full", { concurrency: 1 }, { types: types.slice(0, 500) })]);
  await storage.add(types.map((type) => newJob({ type })));
  expect((await storage.claim(claimOf())).jobs.map(({ type }) => type)).toEqual(["t0"]);
  counted.count = 0;
  const { jobs } = await storage.claim(claimOf({ max: 3 }));
  expect(jobs.map(({ type }) => type)).toEqual(["t500", "t501", "t502"]);
  // One of them reports, once, that jobs wait for the limit.
  expect(counted.count).toBeLessThan(62);
  await storage.close();
});

test("the number of statements of a claim does not grow with limits of types that do not wait, also where groups wait", async () => {
  const statements: number[] = [];
  for (const types of [10, 200].map(typesUpTo)) {
    const { database, storage } = open();
    const counted = countStatements(database);
    await storage.limits.define(types.map((type) => rule(type, LARGE, { types: [type] })));
    await storage.add(["t1", "t2", "t3"].map((type) => newJob({ type, group: type === "t1" ? "g" : null })));
    await storage.claim(claimOf({ max: 1 }));
    counted.count = 0;
    await storage.claim(claimOf({ max: 1 }));
    statements.push(counted.count);
    await storage.close();
  }
  expect(statements[1]).toBe(statements[0]);
});
