import type { ErrorRecord, JobRecord } from "../../core/job.ts";
import type { NewJob, When } from "../../storage/job-storage.ts";
import { NOWHERE } from "./heap.ts";
import type { Counts, StoredJob } from "./lanes.ts";
import type { Charged } from "./limits/limit-state.ts";

/** The charges of a start without limits. */
export const NO_CHARGES: readonly Charged[] = [];

const ATTEMPTS_KEPT = 100;
const LINES_KEPT = 1_000;

export function instantOf(when: When, now: number, skew: number): number {
  return "at" in when ? when.at + skew : now + when.inMs;
}

export const givenInstant = (when: When | null): number | null => (when !== null && "at" in when ? when.at : null);

/** A new job that is in no lane yet. `skew`: as `Book.skew`. */
export function newJob(job: NewJob, seq: number, counts: Counts, now: number, skew: number): StoredJob {
  const dueAt = Math.max(now, instantOf(job.due, now, skew));
  return {
    id: job.id,
    queue: job.queue,
    type: job.type,
    data: job.data,
    state: "waiting",
    priority: job.priority,
    group: job.group,
    keys: job.keys,
    weights: job.weights,
    attempt: 0,
    maxAttempts: job.maxAttempts,
    backoff: job.backoff,
    timeout: job.timeout,
    deadline: job.deadline === null ? null : instantOf(job.deadline, now, skew),
    keepFor: job.keepFor,
    holds: 0,
    createdAt: now,
    dueAt,
    dueWall: dueAt > now ? givenInstant(job.due) : null,
    deadlineWall: givenInstant(job.deadline),
    startedAt: null,
    finishedAt: null,
    worker: null,
    leaseUntil: null,
    token: 0,
    cancelRequested: false,
    progress: null,
    result: null,
    error: null,
    idempotencyKey: job.idempotency?.key ?? null,
    seq,
    firstDueAt: undefined,
    counts,
    gone: false,
    deleteAt: Number.POSITIVE_INFINITY,
    slot: NOWHERE,
    lane: undefined,
    before: undefined,
    after: undefined,
    watched: undefined,
    charges: NO_CHARGES,
    attempts: undefined,
    log: undefined,
  };
}

/** What others see of it, as it is at this moment: with instants by the wall clock. */
export function copyOf(job: StoredJob, skew: number): JobRecord {
  return {
    id: job.id,
    queue: job.queue,
    type: job.type,
    data: job.data,
    state: job.state,
    priority: job.priority,
    group: job.group,
    keys: job.keys,
    weights: job.weights,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    backoff: job.backoff,
    timeout: job.timeout,
    deadline: job.deadlineWall ?? wallOf(job.deadline, skew),
    keepFor: job.keepFor,
    holds: job.holds,
    createdAt: job.createdAt - skew,
    dueAt: job.dueWall ?? job.dueAt - skew,
    startedAt: wallOf(job.startedAt, skew),
    finishedAt: wallOf(job.finishedAt, skew),
    worker: job.worker,
    leaseUntil: wallOf(job.leaseUntil, skew),
    token: job.token,
    cancelRequested: job.cancelRequested,
    progress: job.progress,
    result: job.result,
    error: job.error,
    idempotencyKey: job.idempotencyKey,
  };
}

const wallOf = (instant: number | null, skew: number): number | null => (instant === null ? null : instant - skew);

/** Writes down that the attempt under way did not end well. */
export function recordFailure(job: StoredJob, error: ErrorRecord, now: number): void {
  job.error = error;
  job.attempts ??= [];
  job.attempts.push({
    attempt: job.attempt,
    startedAt: job.startedAt ?? now,
    endedAt: now,
    worker: job.worker ?? "",
    error,
  });
  if (job.attempts.length > ATTEMPTS_KEPT) job.attempts.shift();
}

export function recordLines(job: StoredJob, texts: readonly string[], now: number): void {
  job.log ??= [];
  for (const text of texts) job.log.push({ at: now, attempt: job.attempt, text });
  if (job.log.length > LINES_KEPT) job.log.splice(0, job.log.length - LINES_KEPT);
}
