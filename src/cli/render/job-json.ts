import { fromJson } from "../../core/json.ts";
import type { ErrorRecord, JobRecord } from "../../core/job.ts";
import type { JobHistory } from "../../storage/job-storage.ts";
import { outlineOf } from "./payload.ts";
import { instant } from "./time.ts";

const orNull = (at: number | null) => (at === null ? null : instant(at));

/** A job for machines. What it was given and what it gave are outlined, unless `data` asks for them. */
export function jobJson(job: JobRecord, { data }: { readonly data: boolean }): Record<string, unknown> {
  const { id, queue, type, state, group, keys = null, priority, weights, attempt, maxAttempts, backoff, holds } = job;
  const payload = (text: string) => (data ? (fromJson(text) ?? null) : undefined);
  return {
    id,
    queue,
    type,
    state,
    group,
    keys,
    priority,
    weights,
    attempt,
    maxAttempts,
    backoff,
    holds,
    createdAt: instant(job.createdAt),
    dueAt: instant(job.dueAt),
    startedAt: orNull(job.startedAt),
    finishedAt: orNull(job.finishedAt),
    deadline: orNull(job.deadline),
    timeout: job.timeout,
    keepFor: job.keepFor,
    worker: job.worker,
    leaseUntil: orNull(job.leaseUntil),
    token: job.token,
    cancelRequested: job.cancelRequested,
    idempotencyKey: job.idempotencyKey,
    progress: job.progress && { ...job.progress, details: data ? job.progress.details : undefined },
    error: job.error,
    dataOutline: outlineOf(job.data),
    data: payload(job.data),
    resultOutline: job.result === null ? null : outlineOf(job.result),
    result: job.result === null ? undefined : payload(job.result),
  };
}

/** What a job has gone through. */
export function historyJson({ attempts, log }: JobHistory): {
  readonly attempts: readonly { readonly attempt: number; readonly error: ErrorRecord }[];
  readonly log: readonly { readonly at: string; readonly text: string }[];
} {
  return {
    attempts: attempts.map((one) => ({ ...one, startedAt: instant(one.startedAt), endedAt: instant(one.endedAt) })),
    log: log.map((line) => ({ ...line, at: instant(line.at) })),
  };
}
