import pg from "pg";
import type { NewJob } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { dataOf } from "../queue/bench.ts";
import { newDatabase, newPool } from "./database.ts";

/** So many jobs wait, in so many groups (0: without groups), and so many more have a delay of an hour before they do. */
export interface Backlog {
  readonly jobs: number;
  readonly groups: number;
  readonly delayed?: number;
}

const STEP = 1_000;

export function newJob(n: number, groups: number, id = idOf(n)): NewJob {
  return {
    id,
    queue: "bench",
    type: "bench",
    data: JSON.stringify(dataOf(n)),
    due: { inMs: 0 },
    priority: 0,
    group: groups === 0 ? null : `group ${n % groups}`,
    weights: null,
    maxAttempts: 5,
    backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
    timeout: null,
    deadline: null,
    keepFor: null,
    idempotency: null,
  };
}

function idOf(n: number): string {
  return `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
}

export interface Filled {
  readonly storage: PostgresStorage;
  /** How often jobs have come into a group that no claim has seen yet. Each claim opens lanes for some of them. */
  readonly arriving: () => Promise<number>;
}

/** The first jobs are added in the usual way; the others are copies of them, written in one statement. */
export async function filled({ jobs, groups, delayed = 0 }: Backlog): Promise<Filled> {
  const url = await newDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  await storage.add(Array.from({ length: Math.min(jobs, STEP) }, (_, n) => newJob(n, groups)));
  const client = new pg.Client(url);
  await client.connect();
  if (jobs > STEP) await copy(client, { jobs, groups });
  if (delayed > 0) await delay(client, delayed);
  // What the server does by itself some time after so much was added, and not in the middle of a measurement.
  await client.query("VACUUM ANALYZE sluice.jobs");
  await client.query("VACUUM ANALYZE sluice.arrivals");
  await client.query("CHECKPOINT");
  await client.end();
  const [overview] = await storage.overview("bench");
  const { waiting, scheduled } = overview!.counts;
  if (waiting !== jobs) throw new Error(`${waiting} jobs wait instead of ${jobs}`);
  if (scheduled !== delayed) throw new Error(`${scheduled} jobs are delayed instead of ${delayed}`);
  const pool = newPool(url, 1);
  return {
    storage,
    async arriving() {
      const { rows } = await pool.query<{ n: number }>("SELECT count(*)::int AS n FROM sluice.arrivals");
      return rows[0]!.n;
    },
  };
}

/** All columns of jobs but their number, and these. */
async function columnsBut(client: pg.Client, own: readonly string[]): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute WHERE attrelid = 'sluice.jobs'::regclass AND attnum > 0 AND NOT attisdropped
       AND attname <> ALL ($1) ORDER BY attnum`,
    [["seq", ...own]],
  );
  return rows.map(({ name }) => name).join(", ");
}

/** Copies of the first jobs, as if they had been added with a delay. */
async function delay(client: pg.Client, count: number): Promise<void> {
  const columns = await columnsBut(client, ["id", "state", "due_at"]);
  await client.query(
    `INSERT INTO sluice.jobs (id, state, due_at, ${columns})
     SELECT 'delayed ' || k, 'scheduled', due_at + 3600000 + k, ${columns}
     FROM generate_series(1, $1::int) AS k JOIN sluice.jobs ON seq = (k - 1) % ${STEP} + 1 ORDER BY k`,
    [count],
  );
}

async function copy(client: pg.Client, { jobs, groups }: Backlog): Promise<void> {
  const columns = await columnsBut(client, ["id", "grp"]);
  await client.query(
    `INSERT INTO sluice.jobs (id, grp, ${columns})
     SELECT 'copy ' || n, CASE WHEN $2::int > 0 THEN 'group ' || n % $2::int END, ${columns}
     FROM sluice.jobs CROSS JOIN LATERAL (SELECT (seq - 1) % ${STEP} + k * ${STEP} AS n
       FROM generate_series(1, $1::int / ${STEP} - 1) AS k) AS copies ORDER BY n`,
    [jobs, groups],
  );
  // As if they had been added as the first were.
  await client.query(
    `INSERT INTO sluice.arrivals (queue, type, priority, grp, due_at, job)
     SELECT queue, type, priority, grp, due_at, seq FROM sluice.jobs WHERE grp IS NOT NULL AND seq > ${STEP} ORDER BY seq`,
  );
}
