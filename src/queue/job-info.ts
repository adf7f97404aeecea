import { fromJson } from "../core/json.ts";
import type { ErrorRecord, JobKeys, JobProgress, JobRecord, JobState } from "../core/job.ts";
import { dateAt } from "../storage/span.ts";

/** A job as it was at one moment. */
export interface JobInfo<Data = unknown, Result = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly data: Data;
  readonly state: JobState;
  readonly priority: number;
  readonly group: string | undefined;
  /** undefined: it has none. */
  readonly keys: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | undefined;
  /** How many attempts have begun. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  /** When it may start. */
  readonly runAt: Date;
  readonly startedAt: Date | undefined;
  readonly finishedAt: Date | undefined;
  readonly deadline: Date | undefined;
  readonly timeout: number | undefined;
  /** The id of the worker that runs it, or ran it last. */
  readonly worker: string | undefined;
  readonly cancelRequested: boolean;
  readonly progress: JobProgress | undefined;
  readonly result: Result | undefined;
  /** The error of the latest failed attempt. */
  readonly error: ErrorRecord | undefined;
  readonly idempotencyKey: string | undefined;
}

export function infoOf<Data = unknown, Result = unknown>(record: JobRecord): JobInfo<Data, Result> {
  return {
    id: record.id,
    queue: record.queue,
    type: record.type,
    data: fromJson(record.data) as Data,
    state: record.state,
    priority: record.priority,
    group: record.group ?? undefined,
    keys: record.keys,
    weights: record.weights ?? undefined,
    attempt: record.attempt,
    maxAttempts: record.maxAttempts,
    createdAt: new Date(record.createdAt),
    runAt: dateAt(record.dueAt),
    startedAt: toDate(record.startedAt),
    finishedAt: toDate(record.finishedAt),
    deadline: toDate(record.deadline),
    timeout: record.timeout ?? undefined,
    worker: record.worker ?? undefined,
    cancelRequested: record.cancelRequested,
    progress: record.progress ?? undefined,
    result: resultOf(record) as Result | undefined,
    error: record.error ?? undefined,
    idempotencyKey: record.idempotencyKey ?? undefined,
  };
}

function resultOf(record: JobRecord): unknown {
  return record.result === null ? undefined : fromJson(record.result);
}

function toDate(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at);
}
