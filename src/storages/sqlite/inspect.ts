import {
  type CountFilter,
  type JobFacts,
  type LimitInUse,
  servedFacts,
  type WaitingJobs,
  waitingLeast,
} from "../../storage/inspection.ts";
import { workerOf, type WorkerRow } from "../../storage/workers.ts";
import type { JobState } from "../../core/job.ts";
import type { SqliteConnection, SqlValue } from "./driver.ts";
import { jobsIn } from "./jobs/select.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

/*
 * What can be seen of a database from outside. Nothing here writes, and nothing here is on
 * the way of a job: these are questions that the storage itself never asks.
 */

/** The version of the tables, and the one that this release works with. 0: there are none. */
export function schemaOf(connection: SqliteConnection): { readonly found: number; readonly known: number } {
  const there =
    (one(connection, "SELECT count(*) AS n FROM sqlite_master WHERE name = 'sluice_meta'") as { n: number }).n > 0;
  const found = there ? (one(connection, "SELECT version FROM sluice_meta") as { version: number }).version : 0;
  return { found, known: SCHEMA_VERSION };
}

/** The clock of the storage, and how far it is ahead of `wall`, the clock of this computer. */
export function timeOf(
  connection: SqliteConnection,
  wall: number,
): { readonly now: number; readonly offsetMs: number } {
  const { last, skew } = one(connection, "SELECT last, skew FROM sluice_meta") as { last: number; skew: number };
  const now = Math.max(last, wall + skew);
  return { now, offsetMs: now > wall + skew ? now - wall : skew };
}

const LIMITS = `SELECT iif(grp = '', name, name || '[' || substr(grp, 2) || ']') AS name, longest AS windowMs, CASE WHEN held_until > ?1 THEN held_until - ?1 END AS heldForMs,
    (SELECT total(n) FROM sluice_starts WHERE limit_id = sluice_limits.id AND at > ?1 - longest) AS starts
  FROM sluice_limits WHERE heldForMs IS NOT NULL OR starts > 0
  ORDER BY heldForMs IS NULL, starts DESC, name LIMIT +?2`;

/** Limits that hold something back or have counted something lately, those that hold first. */
export function limitsOf(connection: SqliteConnection, now: number, most: number): readonly LimitInUse[] {
  return all<LimitInUse>(connection, LIMITS, now, most);
}

const countIn = (state: JobState) => `SELECT count(*) AS n FROM ${jobsIn(state)}
  AND (?3 IS NULL OR type = ?3) AND (?4 IS NULL OR grp = ?4) AND (?5 IS NULL OR finished_at < ?5)`;

/** How many jobs a change would meet. */
export function countJobs(connection: SqliteConnection, filter: CountFilter, now: number): number {
  const { queue, states, type, group, endedForMs } = filter;
  const endedBefore = endedForMs === null ? null : now - endedForMs;
  let count = 0;
  for (const state of new Set(states)) {
    count += (one(connection, countIn(state), queue, state, type, group, endedBefore) as { n: number }).n;
  }
  return count;
}

/** What the file says about itself, whatever is in it. */
export interface FileFacts {
  /** The version of the SQLite that reads it. */
  readonly sqlite: string;
  readonly journal: string;
  readonly pageBytes: number;
  readonly pages: number;
  readonly freePages: number;
}

export function fileFacts(connection: SqliteConnection): FileFacts {
  const pragma = (name: string) => Object.values(one(connection, `PRAGMA ${name}`) as object)[0] as unknown;
  return {
    sqlite: (one(connection, "SELECT sqlite_version() AS version") as { version: string }).version,
    journal: String(pragma("journal_mode")),
    pageBytes: Number(pragma("page_size")),
    pages: Number(pragma("page_count")),
    freePages: Number(pragma("freelist_count")),
  };
}

/** What is broken in the file; nothing, as a rule. `full` looks at every index as well. */
export function brokenIn(connection: SqliteConnection, { full }: { readonly full: boolean }): readonly string[] {
  const rows = all<Record<string, unknown>>(connection, `PRAGMA ${full ? "integrity_check" : "quick_check"}(20)`);
  return rows.map((row) => String(Object.values(row)[0])).filter((line) => line !== "ok");
}

/** The health of what is kept. */
export interface SqliteJobFacts extends JobFacts {
  /** Lanes whose count of waiting jobs is not what there is. */
  readonly wrongLanes: number;
}

const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'sluice_*' ORDER BY name";
const EXPIRED = `SELECT count(*) AS jobs, coalesce(?1 - min(lease_until), 0) AS oldestMs
  FROM sluice_jobs WHERE lease_until IS NOT NULL AND lease_until <= ?1`;
const OVERDUE = `SELECT count(*) AS jobs, coalesce(?1 - min(delete_at), 0) AS oldestMs
  FROM sluice_jobs WHERE delete_at IS NOT NULL AND delete_at <= ?1`;
/** So many types are looked at, those that wait for the longest. */
const MOST_TYPES = 1_000;
const WAITING = `SELECT queue, type, sum(state = 'waiting') AS waiting,
    ?1 - min(CASE WHEN state = 'waiting' THEN due_at END) AS oldestMs, ?1 - max(started_at) AS lastStartMs
  FROM sluice_jobs AS job
  WHERE NOT EXISTS (SELECT 1 FROM sluice_pauses AS pause
    WHERE pause.queue = job.queue AND pause.type IN ('', ':' || job.type))
  GROUP BY queue, type
  HAVING oldestMs > ?2
  ORDER BY oldestMs DESC LIMIT ${MOST_TYPES}`;
const WORKERS =
  "SELECT id, queue, info, since, seen_at AS seenAt FROM sluice_workers WHERE until > ? ORDER BY since, id";
const RULES = "SELECT name FROM sluice_rules ORDER BY name";
const FUTURE = `SELECT count(*) AS n FROM sluice_jobs
  WHERE max(created_at, coalesce(started_at, 0), coalesce(finished_at, 0)) > ?`;
const WRONG_LANES = `SELECT count(*) AS n FROM sluice_lanes WHERE waiting <>
  (SELECT count(*) FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting')`;

/** Clocks of two processes may differ by so much without anything being wrong. */
const FUTURE_MS = 5_000;

/** Reads through the tables: for inspection, not on the path of a job. */
export function jobFacts(connection: SqliteConnection, now: number, stuckMs: number): SqliteJobFacts {
  const tables = all<{ name: string }>(connection, TABLES);
  return {
    rows: tables.map(({ name }) => ({
      table: name,
      rows: (one(connection, `SELECT count(*) AS n FROM "${name.replaceAll('"', '""')}"`) as { n: number }).n,
    })),
    expired: one(connection, EXPIRED, now) as JobFacts["expired"],
    overdue: one(connection, OVERDUE, now) as JobFacts["overdue"],
    fromTheFuture: (one(connection, FUTURE, now + FUTURE_MS) as { n: number }).n,
    served: servedFacts({
      waiting: all<WaitingJobs>(connection, WAITING, now, waitingLeast(stuckMs)),
      workers: all<WorkerRow>(connection, WORKERS, now).map(workerOf),
      limits: all<{ name: string }>(connection, RULES).map(({ name }) => name),
      stuckMs,
    }),
    wrongLanes: (one(connection, WRONG_LANES) as { n: number }).n,
  };
}

function all<Row>(connection: SqliteConnection, sql: string, ...values: SqlValue[]): Row[] {
  return connection.prepare(sql).all(...values) as Row[];
}

function one(connection: SqliteConnection, sql: string, ...values: SqlValue[]): unknown {
  return connection.prepare(sql).get(...values);
}
