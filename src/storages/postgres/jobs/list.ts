import { OptionsError } from "../../../core/errors.ts";
import { JOB_STATES, type JobRecord } from "../../../core/job.ts";
import type { JobHistory, JobPage, ListQuery } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";
import { type JobRow, toRecord } from "./record.ts";
import { readError } from "../../../storage/kept.ts";

export async function find(database: Database, ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
  if (ids.length === 0) return [];
  const rows = await database.call<readonly (JobRow | null)[]>("find_jobs", JSON.stringify(ids));
  return rows.map((row) => (row === null ? undefined : toRecord(row)));
}

/** The job that has the key. */
export async function findByKey(database: Database, queue: string, key: string): Promise<JobRecord | undefined> {
  const [row] = await database.call<readonly (JobRow | null)[]>("find_by_key", queue, key);
  return row === undefined || row === null ? undefined : toRecord(row);
}

interface History {
  readonly attempts: readonly (readonly [
    attempt: number,
    startedAt: number,
    endedAt: number,
    worker: string,
    error: string,
  ])[];
  readonly log: readonly (readonly [at: number, attempt: number, text: string])[];
}

export async function history(database: Database, id: string): Promise<JobHistory> {
  const { attempts, log } = await database.call<History>("job_history", id);
  return {
    attempts: attempts.map(([attempt, startedAt, endedAt, worker, error]) => ({
      attempt,
      startedAt,
      endedAt,
      worker,
      error: readError(error),
    })),
    log: log.map(([at, attempt, text]) => ({ at, attempt, text })),
  };
}

export async function list(database: Database, query: ListQuery): Promise<JobPage> {
  const { queue, states, type, group, since, until, limit, cursor } = query;
  const rows = await database.call<readonly JobRow[]>(
    "list_jobs",
    JSON.stringify({
      queue,
      states: [...new Set(states ?? JOB_STATES)],
      type,
      grp: group,
      since,
      until,
      // One more, to see whether there is another page.
      most: limit + 1,
      after: cursor === null ? null : readCursor(cursor),
    }),
  );
  const jobs = rows.slice(0, limit).map((row) => toRecord(row));
  return { jobs, cursor: rows.length > limit ? String(rows[limit - 1]![0]) : null };
}

/** A cursor is the place of the last job of a page in the order of adding. */
function readCursor(cursor: string): number {
  if (typeof cursor === "string" && /^[1-9]\d{0,15}$/.test(cursor)) return Number(cursor);
  throw new OptionsError("PostgresStorage", "cursor", cursor, "the `cursor` of a page");
}
