import { pauseUntil } from "../../limits/pause.ts";
import { cancelStart } from "../../limits/window.ts";
import type { Heartbeat, Lease, Outcome, Report } from "../../storage/job-storage.ts";
import type { Book } from "./book.ts";
import { recordFailure, recordLines, type StoredJob } from "./stored-job.ts";

type Back = Extract<Outcome, { to: "back" }>;

/** Ends leases, and answers with the jobs whose lease was lost. */
export function settle(book: Book, outcomes: readonly Outcome[], now: number): string[] {
  const stale: string[] = [];
  for (const outcome of outcomes) {
    const job = held(book, outcome);
    if (job === undefined) stale.push(outcome.id);
    else settleOne(book, job, outcome, now);
  }
  return stale;
}

/** The job, if this is its latest lease and nobody has taken it away. */
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
      book.release(job);
      book.end(job, "completed", now);
      if (subscribers.hearEvents) subscribers.event({ event: "completed", queue, id, type, attempt });
      return;
    case "dead":
      recordFailure(job, outcome.error, now);
      book.release(job);
      book.end(job, "dead", now);
      subscribers.event({ event: "dead", queue, id, type, attempt, error: outcome.error });
      return;
    case "cancelled":
      if (outcome.error !== null) recordFailure(job, outcome.error, now);
      book.release(job);
      endCancelled(book, job, now);
      return;
    case "retry":
      recordFailure(job, outcome.error, now);
      book.release(job);
      break;
    case "back":
      giveBack(book, job, outcome, now);
      book.release(job);
      break;
  }
  if (job.cancelRequested) {
    endCancelled(book, job, now);
    return;
  }
  if (outcome.to === "retry" || outcome.inMs > 0) job.dueAt = now + outcome.inMs;
  comeBack(book, job, now);
  subscribers.event({ event: "retried", queue, id, type, attempt, inMs: outcome.inMs, error: outcome.error });
}

/** It has not spent an attempt; its limits may have to wait, and may have room again. */
function giveBack(book: Book, job: StoredJob, { held: counts, error, hold, unstarted }: Back, now: number): void {
  job.attempt -= 1;
  if (counts) job.holds += 1;
  if (error !== null) job.error = error;
  for (const key of hold?.keys ?? []) {
    pauseUntil(book.ledger(key).pause, book.toLedgerTime(now) + hold!.forMs);
  }
  for (const { key, ledger, log, seq } of unstarted === undefined ? [] : job.starts) {
    if (!unstarted!.includes(key)) continue;
    cancelStart({ log, seq, weight: 1, expired: 0 });
    book.freed(ledger);
  }
}

/** It stood nowhere and is in the queue again. */
export function comeBack(book: Book, job: StoredJob, now: number): void {
  job.worker = null;
  book.enter(job, now);
  book.subscribers.wake(job.queue);
}

/** It stood nowhere and ends because somebody wanted it to. */
export function endCancelled(book: Book, job: StoredJob, now: number): void {
  book.end(job, "cancelled", now);
  book.subscribers.event({ event: "cancelled", queue: job.queue, id: job.id, type: job.type });
}

/** Keeps leases that have not run out. */
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

/** Writes progress and log lines, and answers with the jobs whose lease was lost. */
export function report(book: Book, reports: readonly Report[], now: number): string[] {
  const lost: string[] = [];
  for (const one of reports) {
    const job = held(book, one);
    if (job === undefined) {
      lost.push(one.id);
      continue;
    }
    if (one.log !== undefined) recordLines(job, one.log, now);
    if (one.progress === undefined) continue;
    job.progress = one.progress;
    const { queue, id, type } = job;
    book.subscribers.event({ event: "progress", queue, id, type, progress: one.progress });
  }
  return lost;
}
