import { OptionsError } from "../../../core/errors.ts";
import { JOB_STATES, type JobRecord } from "../../../core/job.ts";
import type { Ending, Endings, JobHistory, JobPage, ListQuery } from "../../../storage/job-storage.ts";
import { STEP_BYTES } from "../../../storage/step-bytes.ts";
import type { Database } from "../database.ts";
import { type JobRow, toRecord } from "./record.ts";
import { readError } from "../../../storage/kept.ts";

/** So many are asked for at once, at most. */
const MOST = 1_000;

/** Many, or large ones, take several statements: no answer is larger than a step may be. */
export async function find(database: Database, ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
  const found: (JobRecord | undefined)[] = [];
  while (found.length < ids.length) {
    const asked = JSON.stringify(ids.slice(found.length, found.length + MOST));
    const rows = await database.call<readonly (JobRow | null)[]>("find_jobs", asked, STEP_BYTES);
    for (const row of rows) found.push(row === null ? undefined : toRecord(row));
  }
  return found;
}

/** The job that has the key. */
export async function findByKey(database: Database, queue: string, key: string): Promise<JobRecord | undefined> {
  const [row] = await database.call<readonly (JobRow | null)[]>("find_by_key", queue, key);
  return row === undefined || row === null ? undefined : toRecord(row);
}

type EndingRow = readonly [
  id: string,
  state?: "completed" | "dead" | "cancelled",
  result?: string | null,
  error?: string,
];

/** Of large results as many as a step may hold, and one more. */
export async function endings(database: Database, ids: readonly string[]): Promise<Endings> {
  if (ids.length === 0) return { ended: [], more: false };
  const { ended, more } = await database.call<{ readonly ended: readonly EndingRow[]; readonly more: boolean }>(
    "endings",
    JSON.stringify(ids),
    STEP_BYTES,
  );
  return { ended: ended.map(toEnding), more };
}

function toEnding([id, state, result, error]: EndingRow): Ending {
  if (state === undefined) return { id, state: "gone" };
  if (state === "completed") return { id, state, result: result ?? null };
  if (state === "dead") return { id, state, error: error === undefined ? null : readError(error) };
  return { id, state };
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
  const page = await database.call<{ readonly jobs: readonly JobRow[]; readonly more: boolean }>(
    "list_jobs",
    JSON.stringify({
      queue,
      states: [...new Set(states ?? JOB_STATES)],
      type,
      grp: group,
      since,
      until,
      most: limit,
      bytes: STEP_BYTES,
      after: cursor === null ? null : readCursor(cursor),
    }),
  );
  const jobs = page.jobs.map((row) => toRecord(row));
  return { jobs, cursor: page.more ? String(page.jobs.at(-1)![0]) : null };
}

/** A cursor is the place of the last job of a page in the order of adding. */
function readCursor(cursor: string): number {
  if (typeof cursor === "string" && /^[1-9]\d{0,15}$/.test(cursor)) return Number(cursor);
  throw new OptionsError("PostgresStorage", "cursor", cursor, "the `cursor` of a page");
}
