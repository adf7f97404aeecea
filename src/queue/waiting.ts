import { afterAll, type Clock } from "../core/clock.ts";
import { AbortSignalJobError, JobNotFoundError, JobTimeoutError } from "../core/errors.ts";
import { errorFrom } from "../core/error-record.ts";
import { fromJson } from "../core/json.ts";
import type { Ending, JobStorage } from "../storage/job-storage.ts";
import { type Waiter, waitersOf } from "../storage/waiters.ts";

export interface Awaited {
  readonly storage: JobStorage;
  readonly id: string;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  readonly timeout: number | undefined;
}

/**
 * Calls the waiter when the job has ended, in this or any other process. Whether the job ended, was removed, or the wait was aborted or
 * timed out: the waiter is settled, and no timer or listener is left.
 */
export function waitForEnd({ storage, id, clock, signal, timeout }: Awaited, waiter: ResultWaiter): void {
  signal?.throwIfAborted();
  const waiters = waitersOf(storage, clock);
  if (signal !== undefined || timeout !== undefined) {
    const giveUp = (reason: unknown) => {
      waiters.leave(id, waiter);
      waiter.failed(reason);
    };
    const onAbort = () => giveUp(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const late = () => giveUp(new JobTimeoutError(`job ${id} has not ended within ${timeout} ms`));
    const cancelTimer = timeout === undefined ? undefined : afterAll(clock, timeout, late);
    waiter.tidy = () => {
      signal?.removeEventListener("abort", onAbort);
      cancelTimer?.();
    };
  }
  waiters.add(id, waiter);
}

/** Settles a promise. There may be very many: timers and listeners are made only for waits that need them. */
export class ResultWaiter implements Waiter {
  before: Waiter | undefined;
  after: Waiter | undefined;
  tidy: (() => void) | undefined;
  readonly #resolve: (result: unknown) => void;
  readonly #reject: (reason: unknown) => void;

  constructor(resolve: (result: unknown) => void, reject: (reason: unknown) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  ended(ending: Ending): void {
    this.tidy?.();
    if (ending.state !== "completed") this.#reject(errorOf(ending));
    else this.#resolve(ending.result === null ? undefined : fromJson(ending.result));
  }

  failed(reason: unknown): void {
    this.tidy?.();
    this.#reject(reason);
  }
}

function errorOf(ending: Exclude<Ending, { readonly state: "completed" }>): Error {
  if (ending.state === "cancelled") return new AbortSignalJobError(`job ${ending.id} was cancelled`);
  if (ending.state === "gone") return new JobNotFoundError(ending.id);
  return errorFrom(ending.error ?? { name: "JobError", message: "the job is dead" });
}
