import type { Clock } from "./clock.ts";
import { StorageError } from "./errors.ts";

/** Who has not answered by then is taken to have failed: a connection is gone and nobody noticed. */
const ANSWER_WITHIN_MS = 30_000;

/**
 * Calls `callback` once, when `ms` milliseconds have passed and what came in meanwhile was looked at. In a process that was
 * paused, or busy, timers are due before answers are read: who answered long ago would be taken for silent.
 */
export function afterAnswers(clock: Clock, ms: number, callback: () => void): () => void {
  let cancel = clock.after(ms, () => {
    cancel = clock.after(0, callback);
  });
  return () => cancel();
}

export interface Waiting<T> {
  /** Takes an answer that comes when nobody waits for it any more. */
  readonly late?: ((answer: T) => void) | undefined;
  /** How long to wait. Default 30 s. */
  readonly withinMs?: number | undefined;
  /** Who is asked, for the message. */
  readonly who?: string | undefined;
  /** Waits no longer. */
  readonly signal?: AbortSignal | undefined;
}

/** What is answered, or an error if nothing is. Whatever `ask` does, this is a promise. */
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
    // Also for those who throw before they have a promise to give.
    new Promise<T>((answer) => answer(ask())).then(
      (value) => {
        if (over) late?.(value);
        else end(() => resolve(value));
      },
      (error: unknown) => end(() => reject(error)),
    );
  });
}
