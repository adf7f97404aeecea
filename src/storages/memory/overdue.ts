import type { ErrorRecord } from "../../core/job.ts";
import type { Book } from "./book.ts";

const TOO_LATE: ErrorRecord = {
  name: "JobTimeoutError",
  code: "SLUICE_TIMEOUT",
  message: "the deadline passed before the job could start",
};

/** Jobs that have not started and whose deadline has passed are dead, `most` of them at the most. That is no attempt. */
export function endOverdue(book: Book, now: number, most: number): void {
  for (let done = 0; done < most; done++) {
    const first = book.deadlines.first;
    if (first === undefined || first.at > now) return;
    const { job } = first;
    book.withdraw(job, now);
    job.error = TOO_LATE;
    book.end(job, "dead", now);
    const { queue, id, type, attempt } = job;
    book.subscribers.event({ event: "dead", queue, id, type, attempt, error: TOO_LATE });
  }
}
