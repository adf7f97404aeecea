import type { Clock } from "../core/clock.ts";
import { StorageError } from "../core/errors.ts";

/** A storage that has not answered by then is taken to have failed: a connection is gone and nobody noticed. */
const ANSWER_WITHIN_MS = 30_000;

/** What the storage answers, or an error if it does not. An answer that comes after that goes to `late`. */
export function inTime<T>(clock: Clock, answer: Promise<T>, late: (answer: T) => void = () => {}): Promise<T> {
  return new Promise((resolve, reject) => {
    let waiting = true;
    const cancelTimer = clock.after(ANSWER_WITHIN_MS, () => {
      waiting = false;
      reject(new StorageError(`the storage has not answered for ${ANSWER_WITHIN_MS / 1_000} s`));
    });
    answer.then(
      (value) => {
        cancelTimer();
        if (waiting) resolve(value);
        else late(value);
      },
      (error: unknown) => {
        cancelTimer();
        reject(error);
      },
    );
  });
}
