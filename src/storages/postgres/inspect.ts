import { INSTANT_COLUMNS } from "../../storage/clock-repair.ts";
import {
  type CountFilter,
  type Inspection,
  type JobFacts,
  type LimitInUse,
  servedFacts,
  type WaitingJobs,
  waitingLeast,
} from "../../storage/inspection.ts";
import { workerOf, type WorkerRow } from "../../storage/workers.ts";
import type { PostgresExecutor, SqlValue } from "./driver.ts";
import { SCHEMA_VERSION, versionOf } from "./migrations.ts";

/** What is asked, and where its tables are. */
export interface Inspected {
  readonly executor: PostgresExecutor;
  readonly schema: string;
}

/** What can be seen of a storage from outside. Nothing here writes, and nothing here is on the way of a job. */
export function inspection(place: Inspected): Inspection {
  return {
    now: async () => (await timeOf(place)).wall,
    limits: (most) => rows<LimitInUse>(place, LIMITS, most),
    count: async (filter) => countJobs(place, filter),
  };
}

/** The version of the tables, and the one that this release works with. 0: there are none. */
export async function schemaOf({
  executor,
  schema,
}: Inspected): Promise<{ readonly found: number; readonly known: number }> {
  return { found: await versionOf((work) => work(executor), schema), known: SCHEMA_VERSION };
}

/** The clock of the storage, and how far it is ahead of the clock of the server. */
export function timeOf(
  place: Inspected,
): Promise<{ readonly now: number; readonly wall: number; readonly offsetMs: number }> {
  return one(place, TIME);
}

/** Takes the offset back (sql/steps.sql: repair_clock). The only thing here that writes. */
export async function repairClock(place: Inspected): Promise<number> {
  return (await one<{ by: number }>(place, "SELECT {schema}.repair_clock($1) AS by", INSTANT_COLUMNS)).by;
}

const TIME = `SELECT greatest(last, wall + skew) AS now, wall, greatest(skew, last - wall) AS "offsetMs"
  FROM {schema}.meta, LATERAL (SELECT {schema}.wall() AS wall) AS clock`;
const LIMITS = `SELECT * FROM (
    SELECT CASE WHEN grp = '' THEN name ELSE name || '[' || substr(grp, 2) || ']' END AS name, longest AS "windowMs",
      CASE WHEN held_until > now THEN held_until - now END AS "heldForMs",
      coalesce((SELECT sum(n) FROM {schema}.starts WHERE limit_id = l.id AND at > now - l.longest), 0) AS starts
    FROM {schema}.limits AS l, LATERAL (SELECT {schema}.present() AS now) AS clock) AS seen
  WHERE "heldForMs" IS NOT NULL OR starts > 0
  ORDER BY "heldForMs" IS NULL, starts DESC, name LIMIT $1`;
const COUNT = `SELECT count(*)::int AS n FROM {schema}.jobs
  WHERE queue = $1 AND state IN (SELECT json_array_elements_text($2::json))
    AND ($3::text IS NULL OR type = $3) AND ($4::text IS NULL OR grp = $4)
    AND ($5::float8 IS NULL OR finished_at < {schema}.present() - $5)`;

async function countJobs(place: Inspected, filter: CountFilter): Promise<number> {
  const { queue, states, type, group, endedForMs } = filter;
  return (await one<{ n: number }>(place, COUNT, queue, JSON.stringify(states), type, group, endedForMs)).n;
}

/** How many rows there are, by the statistics of the server: to count them would read through all of them. */
const ROWS = `SELECT relname AS "table", n_live_tup::float8 AS rows FROM pg_stat_all_tables WHERE schemaname = $1 ORDER BY 1`;
const EXPIRED = `SELECT count(*)::int AS jobs, coalesce($1 - min(lease_until), 0) AS "oldestMs"
  FROM {schema}.jobs WHERE state = 'active' AND lease_until <= $1`;
const OVERDUE = `SELECT count(*)::int AS jobs, coalesce($1 - min(delete_at), 0) AS "oldestMs"
  FROM {schema}.jobs WHERE delete_at IS NOT NULL AND delete_at <= $1`;
/** So many types are looked at, those that wait for the longest. */
const MOST_TYPES = 1_000;
const WAITING = `SELECT * FROM (
    SELECT queue, type, count(*) FILTER (WHERE state = 'waiting')::int AS waiting,
      $1 - min(due_at) FILTER (WHERE state = 'waiting') AS "oldestMs", $1 - max(started_at) AS "lastStartMs"
    FROM {schema}.jobs AS job
    WHERE NOT EXISTS (SELECT FROM {schema}.pauses AS pause
      WHERE pause.queue = job.queue AND pause.type IN ('', ':' || job.type))
    GROUP BY queue, type) AS seen
  WHERE "oldestMs" > $2
  ORDER BY "oldestMs" DESC LIMIT ${MOST_TYPES}`;
const WORKERS = `SELECT id, queue, info, since, seen_at AS "seenAt" FROM {schema}.workers WHERE until > $1 ORDER BY since, id`;
const RULES = "SELECT name FROM {schema}.rules ORDER BY name";
const FUTURE = `SELECT count(*)::int AS n FROM {schema}.jobs
  WHERE greatest(created_at, started_at, finished_at) > $1`;

/** A stamp may be so far ahead of the clock without anything being wrong. */
const FUTURE_MS = 5_000;

/** Reads through the tables: for inspection, not on the path of a job. */
export async function jobFacts(place: Inspected, now: number, stuckMs: number): Promise<JobFacts> {
  return {
    rows: await rows<{ table: string; rows: number }>(place, ROWS, place.schema),
    expired: await one<JobFacts["expired"]>(place, EXPIRED, now),
    overdue: await one<JobFacts["overdue"]>(place, OVERDUE, now),
    fromTheFuture: (await one<{ n: number }>(place, FUTURE, now + FUTURE_MS)).n,
    served: servedFacts({
      waiting: await rows<WaitingJobs>(place, WAITING, now, waitingLeast(stuckMs)),
      workers: (await rows<WorkerRow>(place, WORKERS, now)).map(workerOf),
      limits: (await rows<{ name: string }>(place, RULES)).map(({ name }) => name),
      stuckMs,
    }),
  };
}

/** The rows of a statement in which `{schema}` stands for the schema. */
export async function rows<Row>(place: Inspected, text: string, ...values: SqlValue[]): Promise<Row[]> {
  const answer = await place.executor.query(text.replaceAll("{schema}", `"${place.schema}"`), values);
  return answer.rows as Row[];
}

export async function one<Row>(place: Inspected, text: string, ...values: SqlValue[]): Promise<Row> {
  const [row] = await rows<Row>(place, text, ...values);
  return row!;
}
