import type { ErrorRecord } from "../../core/job.ts";
import type { Sweep } from "../../storage/job-storage.ts";
import { stalledError } from "../../storage/stalled.ts";
import type { Book } from "./book.ts";
import type { Lane, StoredJob } from "./lanes.ts";
import { countAttempt } from "./limits/charges.ts";
import { forgetExpired } from "./limits/taking.ts";
import { comeBack, endCancelled, endDead, endLease, endUnstarted } from "./settling.ts";
import { recordFailure } from "./stored-job.ts";

/** At most so many of each kind are handled in one step. */
const STEP = 500;

/** A lane remembers its turn for so long after the last job has left it. */
const LANE_KEPT_MS = 3_600_000;

const TOO_LATE: ErrorRecord = {
  name: "JobTimeoutError",
  code: "SLUICE_TIMEOUT",
  message: "the deadline passed before the job could start",
};

export function sweep(book: Book, now: number): Sweep {
  const stalled = recover(book, now);
  endOverdue(book, now, STEP);
  const deleted =
    deleteEnded(book, now) +
    deleteKeys(book, now) +
    deleteLanes(book, now) +
    pruneLimits(book, now) +
    book.workers.prune(now);
  return { stalled, deleted, more: isMore(book, now) };
}

function isMore(book: Book, now: number): boolean {
  const { leases, deadlines, ended, keys } = book;
  const next = [leases.first?.leaseUntil, deadlines.first?.at, ended.first?.deleteAt, keys.first?.expiresAt];
  if (next.some((at) => (at ?? Number.POSITIVE_INFINITY) <= now)) return true;
  const time = book.limitTime(now);
  return book.permits.hasExpired(time) || book.limits.hasIdle(time);
}

/** Deletes the limit states of groups that cannot affect a decision any more. */
function pruneLimits(book: Book, now: number): number {
  const time = book.limitTime(now);
  forgetExpired(book, time, STEP);
  return book.limits.prune(time, STEP, (limitState) => book.gates.has(limitState));
}

/** Jobs whose lease has expired return to the queue, unless that was their last attempt or they are cancelled. */
function recover(book: Book, now: number): number {
  for (let done = 0; done < STEP; done++) {
    const job = book.leases.first;
    if (job === undefined || job.leaseUntil! > now) return done;
    stall(book, job, now);
  }
  return STEP;
}

function stall(book: Book, job: StoredJob, now: number): void {
  const { queue, id, type, attempt } = job;
  const worker = job.worker ?? "";
  const error = stalledError(worker);
  recordFailure(job, error, now);
  countAttempt(book, job, error, now);
  endLease(book, job, now);
  book.subscribers.event({ event: "stalled", queue, id, type, attempt, worker });
  if (job.cancelRequested) {
    endCancelled(book, job, now);
  } else if (attempt >= job.maxAttempts) {
    endDead(book, job, error, now);
  } else {
    // To its old place: it must not wait behind the whole backlog again because its worker died.
    comeBack(book, job, now);
  }
}

/** Ends jobs whose deadline has passed before they started, at most `most`. */
export function endOverdue(book: Book, now: number, most: number): void {
  for (let done = 0; done < most; done++) {
    const first = book.deadlines.first;
    if (first === undefined || first.at > now) return;
    endUnstarted(book, first.job, TOO_LATE, now);
  }
}

function deleteEnded(book: Book, now: number): number {
  for (let done = 0; done < STEP; done++) {
    const job = book.ended.first;
    if (job === undefined || job.deleteAt > now) return done;
    book.delete(job, now);
    dropVacant(book, job.queue);
  }
  return STEP;
}

function deleteKeys(book: Book, now: number): number {
  for (let done = 0; done < STEP; done++) {
    const key = book.keys.first;
    if (key === undefined || key.expiresAt > now) return done;
    book.keys.remove(key);
    key.queue.keys.delete(key.key);
    dropVacant(book, key.queue.name);
  }
  return STEP;
}

function deleteLanes(book: Book, now: number): number {
  let done = 0;
  for (const lane of book.idle) {
    if (done === STEP || lane.emptySince + LANE_KEPT_MS > now) break;
    deleteLane(book, lane);
    done += 1;
  }
  return done;
}

function deleteLane(book: Book, lane: Lane): void {
  book.idle.delete(lane);
  book.queues.get(lane.line.queue)!.closeLane(lane);
  dropVacant(book, lane.line.queue);
}

function dropVacant(book: Book, queue: string): void {
  if (book.queues.get(queue)?.vacant === true) book.queues.delete(queue);
}
