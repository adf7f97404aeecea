import { expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { Queue, Worker, type WorkerOptions } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { calledName } from "../../../src/storages/postgres/migrations.ts";
import { after, until } from "./office.ts";
import { once, temporaryDatabase } from "./server.ts";

const WAITING = 5_000;
const PER_SECOND = 5;
const EACH = 3;
const FOR_MS = 5_000;
/** However busy the machine is, so many jobs have started when the counts are read. */
const STARTS = 60;
/** The functions that a worker and its storage call when they begin and when they end, beside claims. */
const COMING_AND_GOING = 8;

/** Each takes another path in the server: one limit for all jobs, for one type, by turns of groups, and one that claims bring. */
const QUEUES: Readonly<Record<string, Pick<WorkerOptions, "limits" | "limiter">>> = {
  all: { limits: { "for all": { max: PER_SECOND, per: "1s", queues: ["all"] } } },
  typed: { limits: { "for one type": { max: PER_SECOND, per: "1s", queues: ["typed"], types: ["call"] } } },
  grouped: { limits: { "by turns": { max: PER_SECOND, per: "1s", queues: ["grouped"] } } },
  brought: { limiter: { max: PER_SECOND, duration: 1_000 } },
};

interface Counts {
  readonly calls: ReadonlyMap<string, number>;
  /** How many rows of jobs were looked at. */
  readonly rows: number;
}

/** What the server was asked, by function. It counts what a connection did when that has ended. */
async function counts(url: string): Promise<Counts> {
  const others = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`;
  await until(async () => (await once(url, others)).length === 0, 5_000, "all connections have ended");
  const calls = (await once(
    url,
    `SELECT p.proname AS name, s.calls::int AS n FROM pg_stat_user_functions s JOIN pg_proc p ON p.oid = s.funcid
      WHERE s.schemaname = 'sluice' AND p.proconfig IS NOT NULL AND p.proname NOT LIKE 'add%'`,
  )) as { name: string; n: number }[];
  const [table] = (await once(
    url,
    "SELECT (seq_tup_read + idx_tup_fetch)::int AS rows FROM pg_stat_user_tables WHERE relid = 'sluice.jobs'::regclass",
  )) as { rows: number }[];
  return { calls: new Map(calls.map(({ name, n }) => [name, n])), rows: table!.rows };
}

test("thousands of jobs behind a full limit cause hardly more calls to the server than jobs start", async () => {
  const url = await temporaryDatabase();
  await once(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET track_functions = 'all'`);
  const filling = new PostgresStorage(url);
  for (const name of Object.keys(QUEUES)) {
    const group = (i: number) => (name === "grouped" ? { group: `g${i % 100}` } : {});
    const jobs = Array.from({ length: WAITING }, (_, i) => ({ type: "call", data: {}, options: group(i) }));
    await new Queue(name, { storage: filling }).addBulk(jobs);
  }
  await filling.close();
  await once(url, "VACUUM ANALYZE sluice.jobs");
  const before = await counts(url);

  const began = systemClock.now();
  let starts = 0;
  const count = async () => void (starts += 1);
  const staff = Object.entries(QUEUES).flatMap(([name, options]) =>
    Array.from({ length: EACH }, () => {
      const storage = new PostgresStorage(url);
      return { storage, worker: new Worker(name, count, { storage, concurrency: PER_SECOND, ...options }) };
    }),
  );
  const adding = new PostgresStorage(url);
  let added = 0;
  const isOver = () => systemClock.now() - began >= FOR_MS && starts >= STARTS;
  while (!isOver()) {
    // Jobs are added all the time: no worker need look because of them.
    for (const name of Object.keys(QUEUES)) {
      await new Queue(name, { storage: adding }).add("call", {});
      added += 1;
    }
    await after(100);
  }
  await Promise.all(staff.map(({ worker }) => worker.stop()));
  const seconds = Math.ceil((systemClock.now() - began) / 1_000);
  await Promise.all([adding, ...staff.map(({ storage }) => storage)].map((storage) => storage.close()));

  const { calls, rows } = await counts(url);
  const since = (name: string) => (calls.get(name) ?? 0) - (before.calls.get(name) ?? 0);
  const asked = (name: string) => since(calledName(name));
  const all = [...calls.keys()].reduce((sum, name) => sum + since(name), 0);
  const what = `${starts} starts in ${seconds} s: ${JSON.stringify(Object.fromEntries(calls))}`;
  expect(asked("claim"), what).toBeGreaterThanOrEqual(starts / PER_SECOND);
  expect(asked("claim"), what).toBeLessThanOrEqual(starts + staff.length * seconds);
  // Producers notify of the jobs that they add.
  expect(asked("notify_others"), what).toBeLessThanOrEqual(added);
  const beside = all - asked("claim") - asked("notify_others");
  expect(beside, what).toBeLessThanOrEqual(starts + staff.length * COMING_AND_GOING);
  const looked = rows - before.rows;
  expect(looked, `${starts} starts, rows of jobs`).toBeLessThanOrEqual(20 * (starts + staff.length));
});
