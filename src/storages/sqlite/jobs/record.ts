import type { BackoffPlan, JobRecord, JobState } from "../../../core/job.ts";
import type { Keyed } from "../../../limits/rule.ts";
import { valuesOf } from "../driver.ts";
import { DEFAULT_BACKOFF, readBackoff, readError, readKeys, readProgress, readWeights } from "../../../storage/kept.ts";

/** A row of `sluice_jobs`. JSON columns may hold anything: they may have been written by hand. */
export interface JobRow {
  readonly seq: number;
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly state: JobState;
  readonly lane: number | null;
  readonly priority: number;
  readonly grp: string | null;
  readonly keys: string | null;
  readonly data: string;
  readonly weights: string | null;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly backoff: string;
  readonly timeout: number | null;
  readonly deadline: number | null;
  readonly deadline_wall: number | null;
  readonly keep_for: number | null;
  readonly holds: number;
  readonly created_at: number;
  readonly due_at: number;
  readonly due_wall: number | null;
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly worker: string | null;
  readonly lease_until: number | null;
  readonly token: number;
  readonly cancel_requested: number;
  readonly progress: string | null;
  readonly result: string | null;
  readonly error: string | null;
  readonly idempotency_key: string | null;
}

export const COLUMNS = `seq, id, queue, type, state, lane, priority, grp, keys, data, weights, attempt, max_attempts, backoff,
  timeout, deadline, deadline_wall, keep_for, holds, created_at, due_at, due_wall, started_at, finished_at, worker, lease_until, token,
  cancel_requested, progress, result, error, idempotency_key`;

/** The columns of a job that waits, as `waitingRow` reads them; those that its state decides are not among them. */
export const WAITING_COLUMNS = `seq, id, queue, type, lane, priority, grp, data, weights, attempt, max_attempts, backoff, timeout,
  deadline, deadline_wall, keep_for, holds, created_at, due_at, due_wall, cancel_requested, progress, error, idempotency_key,
  keys`;

type Waiting = [
  seq: number,
  id: string,
  queue: string,
  type: string,
  lane: number | null,
  priority: number,
  grp: string | null,
  data: string,
  weights: string | null,
  attempt: number,
  maxAttempts: number,
  backoff: string,
  timeout: number | null,
  deadline: number | null,
  deadlineWall: number | null,
  keepFor: number | null,
  holds: number,
  createdAt: number,
  dueAt: number,
  dueWall: number | null,
  cancelRequested: number,
  progress: string | null,
  error: string | null,
  idempotencyKey: string | null,
  keys: string | null,
];

/** A claim reads many: an array takes half the time of an object, the driver's part included. */
export function waitingRow(row: unknown): JobRow {
  const v = valuesOf(row) as Waiting;
  return {
    seq: v[0],
    id: v[1],
    queue: v[2],
    type: v[3],
    state: "waiting",
    lane: v[4],
    priority: v[5],
    grp: v[6],
    keys: v[24],
    data: v[7],
    weights: v[8],
    attempt: v[9],
    max_attempts: v[10],
    backoff: v[11],
    timeout: v[12],
    deadline: v[13],
    deadline_wall: v[14],
    keep_for: v[15],
    holds: v[16],
    created_at: v[17],
    due_at: v[18],
    due_wall: v[19],
    started_at: null,
    finished_at: null,
    worker: null,
    lease_until: null,
    token: 0,
    cancel_requested: v[20],
    progress: v[21],
    result: null,
    error: v[22],
    idempotency_key: v[23],
  };
}

/** The lease that a claim has just written. */
export interface NewLease {
  readonly worker: string;
  readonly startedAt: number;
  readonly leaseUntil: number;
  readonly token: number;
}

/** The job in a row, or what a claim has made of it. Its instants are those of the wall clock, which `skew` is ahead of. */
export function toRecord(row: JobRow, skew: number, lease?: NewLease): JobRecord {
  const startedAt = lease === undefined ? row.started_at : lease.startedAt;
  const leaseUntil = lease === undefined ? row.lease_until : lease.leaseUntil;
  return {
    id: row.id,
    queue: row.queue,
    type: row.type,
    data: row.data,
    state: lease === undefined ? row.state : "active",
    priority: row.priority,
    group: row.grp,
    keys: row.keys === null ? undefined : readKeys(row.keys),
    weights: weightsOf(row),
    attempt: lease === undefined ? row.attempt : row.attempt + 1,
    maxAttempts: row.max_attempts,
    backoff: row.backoff === "" ? DEFAULT_BACKOFF : readBackoff(row.backoff),
    timeout: row.timeout,
    deadline: row.deadline_wall ?? wallOf(row.deadline, skew),
    keepFor: row.keep_for,
    holds: row.holds,
    createdAt: row.created_at - skew,
    dueAt: row.due_wall ?? row.due_at - skew,
    startedAt: wallOf(startedAt, skew),
    finishedAt: wallOf(row.finished_at, skew),
    worker: lease === undefined ? row.worker : lease.worker,
    leaseUntil: wallOf(leaseUntil, skew),
    token: lease === undefined ? row.token : lease.token,
    cancelRequested: row.cancel_requested === 1,
    progress: row.progress === null ? null : readProgress(row.progress),
    result: row.result,
    error: row.error === null ? null : readError(row.error),
    idempotencyKey: row.idempotency_key,
  };
}

const DEFAULT_TEXT = JSON.stringify(DEFAULT_BACKOFF);

/** A back-off plan as it is kept. The default is nothing, a sixth of the row of a small job less. */
export function textOfBackoff(plan: BackoffPlan): string {
  const text = JSON.stringify(plan);
  return text === DEFAULT_TEXT ? "" : text;
}

const wallOf = (instant: number | null, skew: number): number | null => (instant === null ? null : instant - skew);

/** What the job weighs; null: nothing is said of that. */
export function weightsOf({ weights }: Pick<JobRow, "weights">): Readonly<Record<string, number>> | null {
  return weights === null ? null : readWeights(weights);
}

/** What limits count the job by. */
export function keyedOf({ grp, keys }: Pick<JobRow, "grp" | "keys">): Keyed {
  return keys === null ? { group: grp } : { group: grp, keys: readKeys(keys) };
}
