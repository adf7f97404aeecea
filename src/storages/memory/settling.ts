import type { ErrorRecord } from "../../core/job.ts";
import type { Heartbeat, Lease, Outcome, Report } from "../../storage/job-storage.ts";
import { STALLED } from "../../storage/stalled.ts";
import type { Book } from "./book.ts";
import type { StoredJob } from "./lanes.ts";
import {
  cancelCharges,
  countAttempt,
  holdLimits,
  releaseSlots,
  returnWeights,
  settleWeights,
} from "./limits/charges.ts";
import { recordFailure, recordLines } from "./stored-job.ts";

type Back = Extract<Outcome, { to: "back" }>;

/** Ends leases, and answers with the jobs whose lease was lost. */
export function settle(book: Book, outcomes: readonly Outcome[], now: number): string[] {
  const stale: string[] = [];
  for (const outcome of outcomes) {
    const job = held(book, outcome);
    if (job !== undefined) {
      settleOne(book, job, outcome, now);
      continue;
    }
    stale.push(outcome.id);
    if (outcome.to === "back" && outcome.unstarted) unspend(book, outcome, now);
  }
  return stale;
}

/** The handler of this lease was never called: if a sweep has ended the lease meanwhile, the attempt is not counted. */
function unspend(book: Book, { id, token }: Lease, now: number): void {
  const job = book.jobs.get(id);
  const last = job?.attempts?.at(-1);
  // Only if the job has not changed since; a dead job only if this was its last attempt.
  if (job?.token !== token || last?.attempt !== job.attempt || last.startedAt !== job.startedAt) return;
  const spent = job.state === "dead" && job.attempt >= job.maxAttempts;
  if (last.error.code !== STALLED || !(spent || job.state === "waiting" || job.state === "scheduled")) return;
  job.attempts!.pop();
  job.attempt -= 1;
  job.error = job.attempts!.at(-1)?.error ?? null;
  if (!spent) return;
  book.reopen(job);
  comeBack(book, job, now);
}

/** The job, if this is its latest lease and the sweep has not ended it. */
function held(book: Book, { id, token }: Lease): StoredJob | undefined {
  const job = book.jobs.get(id);
  return job !== undefined && job.token === token && job.state === "active" ? job : undefined;
}

function settleOne(book: Book, job: StoredJob, outcome: Outcome, now: number): void {
  const { queue, id, type, attempt } = job;
  const { subscribers } = book;
  switch (outcome.to) {
    case "completed":
      job.result = outcome.result;
      countAttempt(book, job, null, now);
      endLease(book, job, now);
      book.queues.get(queue)!.ran(type, now - job.startedAt!);
      book.end(job, "completed", now);
      if (subscribers.hearEvents) subscribers.event({ event: "completed", queue, id, type, attempt });
      return;
    case "dead":
      recordFailure(job, outcome.error, now);
      countAttempt(book, job, outcome.error, now);
      endLease(book, job, now);
      endDead(book, job, outcome.error, now);
      return;
    case "cancelled":
      if (outcome.error !== null) recordFailure(job, outcome.error, now);
      endLease(book, job, now);
      endCancelled(book, job, now);
      return;
    case "retry":
      recordFailure(job, outcome.error, now);
      countAttempt(book, job, outcome.error, now);
      endLease(book, job, now);
      break;
    case "back":
      giveBack(book, job, outcome, now);
      endLease(book, job, now);
      break;
  }
  if (job.cancelRequested) {
    endCancelled(book, job, now);
    return;
  }
  if (outcome.inMs > 0) backOff(job, now + outcome.inMs);
  comeBack(book, job, now);
  subscribers.event({ event: "retried", queue, id, type, attempt, inMs: outcome.inMs, error: outcome.error });
}

/** The job is due later, and then takes its old place. */
function backOff(job: StoredJob, until: number): void {
  job.firstDueAt = job.dueAt;
  job.dueAt = until;
}

/** Spends no attempt. Its limits may be held, and may become available again. */
function giveBack(book: Book, job: StoredJob, outcome: Back, now: number): void {
  const { held: refused, settled = [], error, hold, unstarted } = outcome;
  job.attempt -= 1;
  if (refused) job.holds += 1;
  if (error !== null) job.error = error;
  if (hold !== null) holdLimits(book, job, hold, now);
  if (unstarted) cancelCharges(book, job, now);
  else if (refused) returnWeights(book, job, settled, now);
}

/** Ends the lease and releases its slots. The job is in no place then. */
export function endLease(book: Book, job: StoredJob, now: number): void {
  releaseSlots(book, job, now);
  book.release(job);
}

/** Puts a job that is in no place back into the queue. */
export function comeBack(book: Book, job: StoredJob, now: number): void {
  job.worker = null;
  book.enter(job, now);
}

/** Ends a cancelled job that is in no place. */
export function endCancelled(book: Book, job: StoredJob, now: number): void {
  book.end(job, "cancelled", now);
  book.subscribers.event({ event: "cancelled", queue: job.queue, id: job.id, type: job.type });
}

/** Ends a failed job that is in no place. */
export function endDead(book: Book, job: StoredJob, error: ErrorRecord, now: number): void {
  const { queue, id, type, attempt } = job;
  job.error = error;
  book.end(job, "dead", now);
  book.subscribers.event({ event: "dead", queue, id, type, attempt, error });
}

/** Ends a job that waits or is scheduled and cannot start. That is no attempt. */
export function endUnstarted(book: Book, job: StoredJob, error: ErrorRecord, now: number): void {
  book.withdraw(job, now);
  endDead(book, job, error, now);
}

/** Renews leases that have not expired. */
export function heartbeat(book: Book, leases: readonly Lease[], leaseMs: number, now: number): Heartbeat {
  const lost: string[] = [];
  const cancelled: string[] = [];
  for (const lease of leases) {
    const job = held(book, lease);
    if (job === undefined || job.leaseUntil! <= now) {
      lost.push(lease.id);
      continue;
    }
    job.leaseUntil = now + leaseMs;
    book.leases.moved(job);
    if (job.cancelRequested) cancelled.push(job.id);
  }
  return { lost, cancelled };
}

/** Writes progress, log lines and real weights, and answers with the jobs whose lease was lost. */
export function report(book: Book, reports: readonly Report[], now: number): string[] {
  const lost: string[] = [];
  for (const one of reports) {
    const job = held(book, one);
    if (job === undefined) {
      lost.push(one.id);
      continue;
    }
    if (one.weights !== undefined) settleWeights(book, job, one.weights, now);
    if (one.log !== undefined) recordLines(job, one.log, now);
    const { queue, id, type, attempt } = job;
    for (const warning of one.warnings ?? []) {
      book.subscribers.event({ event: "warning", queue, id, type, attempt, ...warning });
    }
    if (one.progress === undefined) continue;
    job.progress = one.progress;
    book.subscribers.event({ event: "progress", queue, id, type, progress: one.progress });
  }
  return lost;
}
