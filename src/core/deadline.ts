import type { Clock } from "./clock.ts";
import { StorageError } from "./errors.ts";

/** The default deadline: a call without an answer by then has failed, since its connection may be gone unnoticed. */
const ANSWER_WITHIN_MS = 30_000;

/**
 * Calls `callback` once, when `ms` milliseconds have passed and all input of that time was processed. In a process that was paused
 * or busy, timers fire before answers are read: an answer that arrived in time would count as missing.
 */
export function afterAnswers(clock: Clock, ms: number, callback: () => void): () => void {
  let cancel = clock.after(ms, () => {
    cancel = clock.after(0, callback);
  });
  return () => cancel();
}

export interface Waiting<T> {
  /** Is called with an answer that comes after the deadline. */
  readonly late?: ((answer: T) => void) | undefined;
  /** How long to wait. Default 30 s. */
  readonly withinMs?: number | undefined;
  /** What is called, for the error message. */
  readonly who?: string | undefined;
  /** Ends the wait when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** The answer of `ask`, or an error if none comes by the deadline. Returns a promise even if `ask` throws. */
export function inTime<T>(clock: Clock, ask: () => Promise<T>, waiting: Waiting<T> = {}): Promise<T> {
  const { late, withinMs = ANSWER_WITHIN_MS, who = "the storage", signal } = waiting;
  return new Promise((resolve, reject) => {
    let over = false;
    const end = (settle: () => void) => {
      if (over) return;
      over = true;
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      settle();
    };
    const onAbort = () => end(() => reject(signal?.reason));
    const cancelTimer = afterAnswers(clock, withinMs, () =>
      end(() => reject(new StorageError(`${who} has not answered for ${Math.round(withinMs) / 1_000} s`))),
    );
    signal?.addEventListener("abort", onAbort, { once: true });
    // In an async function, for an `ask` that throws before it returns a promise.
    new Promise<T>((answer) => answer(ask())).then(
      (value) => {
        if (over) late?.(value);
        else end(() => resolve(value));
      },
      (error: unknown) => end(() => reject(error)),
    );
  });
}
