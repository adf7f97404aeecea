import type { JobReference } from "./error-reporter.ts";

/**
 * The answer of the storage; rejects if it takes too long or the worker has stopped. `late` is called with an answer that comes
 * after that.
 */
export type Ask = <T>(ask: () => Promise<T>, late?: (answer: T) => void) => Promise<T>;

/** Reports an error that does not come from a handler; with the job, if the error is about one. */
export type ReportError = (error: unknown, job?: JobReference) => void;

/** Runs a step that the worker does not wait for; an error is reported. */
export function inBackground(step: () => unknown, report: ReportError, job?: JobReference): void {
  (async () => step())().catch((error: unknown) => report(error, job));
}
