import { afterAll, type Clock } from "../core/clock.ts";
import { AbortSignalJobError, JobNotFoundError, JobTimeoutError } from "../core/errors.ts";
import { errorFrom } from "../core/error-record.ts";
import { fromJson } from "../core/json.ts";
import type { Ending, JobStorage } from "../storage/job-storage.ts";
import { waitersOf } from "../storage/waiters.ts";

export interface Awaited {
  readonly storage: JobStorage;
  readonly id: string;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  readonly timeout: number | undefined;
}

/**
 * The result of a job once it has ended, here or in any other process; or its error. Every way out settles the promise and leaves
 * nothing behind: ended, removed, aborted, too late.
 */
export function resultWhenEnded({ storage, id, clock, signal, timeout }: Awaited): Promise<unknown> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const leave = waitersOf(storage, clock).add(id, {
      ended: (ending) => {
        tidy();
        if (ending.state !== "completed") reject(errorOf(ending));
        else resolve(ending.result === null ? undefined : fromJson(ending.result));
      },
      failed: (error) => giveUp(error),
    });
    const giveUp = (reason: unknown) => {
      leave();
      tidy();
      reject(reason);
    };
    const onAbort = () => giveUp(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const late = () => giveUp(new JobTimeoutError(`job ${id} has not ended within ${timeout} ms`));
    const cancelTimer = timeout === undefined ? undefined : afterAll(clock, timeout, late);
    const tidy = () => {
      signal?.removeEventListener("abort", onAbort);
      cancelTimer?.();
    };
  });
}

function errorOf(ending: Exclude<Ending, { readonly state: "completed" }>): Error {
  if (ending.state === "cancelled") return new AbortSignalJobError(`job ${ending.id} was cancelled`);
  if (ending.state === "gone") return new JobNotFoundError(ending.id);
  return errorFrom(ending.error ?? { name: "JobError", message: "the job is dead" });
}
