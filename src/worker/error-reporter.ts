import type { Clock } from "../core/clock.ts";
import { JobError } from "../core/errors.ts";
import { fn, readArgument } from "../core/options.ts";
import { textOf } from "../core/text.ts";

const PRINT_EVERY_MS = 10_000;

/** The job that an error is about. */
export interface JobReference {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly attempt: number;
}

/** Is called with every error that does not come from a handler; with the job, if the error is about one. */
export type ErrorListener = (error: Error, job?: JobReference) => void;

/** Reports errors that do not come from handlers. Never throws: a listener must not be able to stop a worker. */
export class ErrorReporter {
  readonly #queue: string;
  readonly #clock: Clock;
  readonly #onError: ((error: unknown, job?: JobReference) => void) | undefined;
  /** Replaced, never changed: a listener may be added or removed while listeners are called. */
  #listeners: readonly { readonly listener: ErrorListener }[] = [];
  #printedAt = Number.NEGATIVE_INFINITY;

  constructor(queue: string, clock: Clock, onError: ((error: unknown, job?: JobReference) => void) | undefined) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onError = onError;
  }

  get hasListener(): boolean {
    return this.#onError !== undefined || this.#listeners.length > 0;
  }

  /** Calls the listener until the returned function is called. */
  listen(listener: ErrorListener): () => void {
    const own = { listener: readArgument("on", "listener", fn, listener) as ErrorListener };
    this.#listeners = [...this.#listeners, own];
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== own);
    };
  }

  readonly report = (error: unknown, job?: JobReference): void => {
    const about = job && referenceTo(job);
    if (!this.hasListener) this.#print(error);
    safely(() => this.#onError?.(error, about));
    for (const { listener } of this.#listeners) safely(() => listener(errorOf(error), about));
  };

  /** Reports the error that ends the worker: it is printed even if another error was printed just before. */
  readonly reportLast = (error: unknown): void => {
    this.#printedAt = Number.NEGATIVE_INFINITY;
    this.report(error);
  };

  /** Without a listener, prints an error at most every 10 s: a worker must not fail silently. */
  #print(error: unknown): void {
    const now = this.#clock.now();
    if (now - this.#printedAt < PRINT_EVERY_MS) return;
    this.#printedAt = now;
    // oxlint-disable-next-line no-console -- see above; `onError` and `on("error")` take its place
    safely(() => console.error(`sluice: worker of queue "${this.#queue}":`, error));
  }
}

const referenceTo = ({ id, queue, type, attempt }: JobReference): JobReference => ({ id, queue, type, attempt });

function errorOf(error: unknown): Error {
  return error instanceof Error
    ? error
    : new JobError(textOf(error) ?? "an error that cannot be shown", { cause: error });
}

/** Ignores what a listener throws, and what an asynchronous one rejects with: an unhandled rejection would end the process. */
function safely(call: () => unknown): void {
  try {
    void Promise.resolve(call()).catch(() => {});
  } catch {
    // As above.
  }
}
