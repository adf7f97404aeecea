import type { JobUpdate, Updated } from "../../storage/job-storage.ts";
import { refuseImpossible } from "../../storage/stored-rules.ts";
import type { Book } from "./book.ts";
import { givenInstant, instantOf, type StoredJob } from "./stored-job.ts";

/** Changes what was said of a job that has not started. */
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

/** Does it belong to another lane, or weigh something else, which decides what its lane waits for? */
function isMoved(job: StoredJob, { priority, group, keys, weights }: JobUpdate["set"]): boolean {
  return (
    (priority !== undefined && priority !== job.priority) ||
    (group !== undefined && group !== job.group) ||
    keys !== undefined ||
    weights !== undefined
  );
}
