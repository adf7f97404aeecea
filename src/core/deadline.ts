import type { Clock } from "./clock.ts";
import { StorageError } from "./errors.ts";

/** Who has not answered by then is taken to have failed: a connection is gone and nobody noticed. */
const ANSWER_WITHIN_MS = 30_000;

/** What is answered, or an error if nothing is. An answer that comes after that goes to `late`. */
export function inTime<T>(
  clock: Clock,
  answer: Promise<T>,
  late: (answer: T) => void = () => {},
  withinMs = ANSWER_WITHIN_MS,
  who = "the storage",
): Promise<T> {
  return new Promise((resolve, reject) => {
    let waiting = true;
    const cancelTimer = clock.after(withinMs, () => {
      waiting = false;
      reject(new StorageError(`${who} has not answered for ${Math.round(withinMs) / 1_000} s`));
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
