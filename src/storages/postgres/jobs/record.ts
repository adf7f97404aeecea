import type { JobRecord, JobState } from "../../../core/job.ts";
import { DEFAULT_BACKOFF, readBackoff, readError, readKeys, readProgress, readWeights } from "../../../storage/kept.ts";

/**
 * A job as steps answer with it: its columns in this order (sql/jobs.sql: job_json); the last of them are left out together
 * where they are empty. What is kept as JSON may be anything: it may have been written by hand.
 */
export type JobRow = readonly [
  seq: number,
  id: string,
  queue: string,
  type: string,
  state: JobState,
  priority: number,
  data: string,
  attempt: number,
  maxAttempts: number,
  backoff: string | null,
  keepFor: number | null,
  createdAt: number,
  dueAt: number,
  startedAt: number | null,
  worker: string | null,
  leaseUntil: number | null,
  token: number,
  group?: string | null,
  weights?: unknown,
  timeout?: number | null,
  deadline?: number | null,
  holds?: number,
  finishedAt?: number | null,
  cancelRequested?: boolean,
  progress?: string | null,
  result?: string | null,
  error?: string | null,
  idempotencyKey?: string | null,
  keys?: string | null,
];

/** The job in a row. `now`: one that has come due by then waits, whether or not a step has written that down. */
export function toRecord(row: JobRow, now = Number.NEGATIVE_INFINITY): JobRecord {
  const [state, dueAt, progress = null, error = null] = [row[4], row[12], row[24], row[26]];
  return {
    id: row[1],
    queue: row[2],
    type: row[3],
    data: row[6],
    state: state === "scheduled" && dueAt <= now ? "waiting" : state,
    priority: row[5],
    group: row[17] ?? null,
    keys: typeof row[28] === "string" ? readKeys(row[28]) : undefined,
    weights: readWeights(row[18]),
    attempt: row[7],
    maxAttempts: row[8],
    backoff: row[9] === null ? DEFAULT_BACKOFF : readBackoff(row[9]),
    timeout: row[19] ?? null,
    deadline: row[20] ?? null,
    keepFor: row[10],
    holds: row[21] ?? 0,
    createdAt: row[11],
    dueAt,
    startedAt: row[13],
    finishedAt: row[22] ?? null,
    worker: row[14],
    leaseUntil: row[15],
    token: row[16],
    cancelRequested: row[23] ?? false,
    progress: progress === null ? null : readProgress(progress),
    result: row[25] ?? null,
    error: error === null ? null : readError(error),
    idempotencyKey: row[27] ?? null,
  };
}
