import { ENDED } from "../../core/job.ts";
import type { Change, ChangeAction, ChangeFilter, JobUpdate, Updated } from "../../storage/job-storage.ts";
import { refuseImpossible } from "../../storage/stored-rules.ts";
import { type Book, takeOldPlace } from "./book.ts";
import type { StoredJob } from "./lanes.ts";
import { comeBack, endCancelled } from "./settling.ts";
import { givenInstant, instantOf } from "./stored-job.ts";

/** Changes jobs, by id or by filter. Returns those that were changed. */
export function change(book: Book, wanted: Change, now: number): string[] {
  const queue = book.queues.get(wanted.queue);
  if (queue === undefined) return [];
  book.promoteAll(queue, now);
  const changed: string[] = [];
  if ("ids" in wanted) {
    for (const id of new Set(wanted.ids)) {
      const job = book.jobs.get(id);
      if (job?.queue !== wanted.queue || wanted.states?.includes(job.state) === false) continue;
      if (apply(book, wanted.action, job, now)) changed.push(id);
    }
    return changed;
  }
  // `added` is replaced, not changed, when jobs are deleted: this loop sees the queue as it was.
  for (const job of queue.added) {
    if (changed.length >= wanted.limit) break;
    if (!job.gone && matches(job, wanted.where, now) && apply(book, wanted.action, job, now)) changed.push(job.id);
  }
  return changed;
}

function matches(job: StoredJob, { states, type, group, endedForMs }: ChangeFilter, now: number): boolean {
  return (
    states.includes(job.state) &&
    (type === null || job.type === type) &&
    (group === null || job.group === group) &&
    (endedForMs === null || (job.finishedAt !== null && now - job.finishedAt >= endedForMs))
  );
}

/** Applies the action, if the state of the job permits it. */
function apply(book: Book, action: ChangeAction, job: StoredJob, now: number): boolean {
  switch (action) {
    case "cancel":
      return job.state === "active" ? askToStop(book, job) : cancel(book, job, now);
    case "retry":
      return retry(book, job, now);
    case "promote":
      return promote(book, job, now);
    case "remove":
      break;
  }
  if (job.state === "active") return false;
  book.delete(job, now);
  return true;
}

/** Notifies the worker, also if it was asked before; but then nothing is changed. */
function askToStop(book: Book, job: StoredJob): boolean {
  book.subscribers.cancelled(job.queue, job.id);
  if (job.cancelRequested) return false;
  job.cancelRequested = true;
  return true;
}

function cancel(book: Book, job: StoredJob, now: number): boolean {
  if (ENDED.includes(job.state)) return false;
  book.withdraw(job, now);
  endCancelled(book, job, now);
  return true;
}

function retry(book: Book, job: StoredJob, now: number): boolean {
  if (!ENDED.includes(job.state)) return false;
  book.reopen(job);
  job.attempt = 0;
  job.holds = 0;
  job.cancelRequested = false;
  job.result = null;
  // A deadline that has passed would end the job again at once.
  if (job.deadline !== null && job.deadline <= now) job.deadline = job.deadlineWall = null;
  job.dueAt = now;
  job.dueWall = null;
  job.firstDueAt = undefined;
  comeBack(book, job, now);
  return true;
}

function promote(book: Book, job: StoredJob, now: number): boolean {
  if (job.state !== "scheduled") return false;
  book.withdraw(job, now);
  job.dueAt = now;
  takeOldPlace(job);
  job.dueWall = null;
  comeBack(book, job, now);
  return true;
}

/** Changes the options of a job that has not started. */
export function update(book: Book, { queue, id, set }: JobUpdate, now: number): Updated {
  const job = book.jobs.get(id);
  if (job === undefined || job.queue !== queue) return { updated: false, state: null };
  book.promoteAll(book.queue(queue), now);
  if (job.state !== "waiting" && job.state !== "scheduled") return { updated: false, state: job.state };
  const { due, deadline, keys = job.keys, ...rest } = set;
  const plain = { ...rest, keys: keys ?? undefined };
  if (book.limits.weighs) refuseImpossible(book.limits.inForce, [{ ...job, ...plain }]);
  if (due === undefined && deadline === undefined && !isMoved(job, set)) {
    Object.assign(job, plain);
    return { updated: true, state: job.state };
  }
  book.withdraw(job, now);
  Object.assign(job, plain);
  if (due !== undefined) {
    job.dueAt = Math.max(now, instantOf(due, now, book.skew));
    job.dueWall = job.dueAt > now ? givenInstant(due) : null;
    job.firstDueAt = undefined;
  }
  if (deadline !== undefined) {
    job.deadline = deadline === null ? null : instantOf(deadline, now, book.skew);
    job.deadlineWall = givenInstant(deadline);
  }
  book.enter(job, now);
  return { updated: true, state: job.state };
}

/** Does the job change its lane, or its weights, which decide what its lane waits for? */
function isMoved(job: StoredJob, { priority, group, keys, weights }: JobUpdate["set"]): boolean {
  return (
    (priority !== undefined && priority !== job.priority) ||
    (group !== undefined && group !== job.group) ||
    keys !== undefined ||
    weights !== undefined
  );
}
