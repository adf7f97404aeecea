import type { Clock } from "../core/clock.ts";
import { JobError } from "../core/errors.ts";
import { fn, readArgument } from "../core/options.ts";
import { textOf } from "../core/text.ts";

const COMPLAIN_EVERY_MS = 10_000;

/** The job that an error is about. */
export interface JobReference {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly attempt: number;
}

/** Hears of what goes wrong outside of handlers; with the job, where it is about one. */
export type ErrorListener = (error: Error, job?: JobReference) => void;

/** Tells what goes wrong outside of handlers. Never throws: a listener must not be able to stop a worker. */
export class Complaints {
  readonly #queue: string;
  readonly #clock: Clock;
  readonly #onError: ((error: unknown, job?: JobReference) => void) | undefined;
  /** Replaced, never changed: a listener may leave or join while it is told. */
  #listeners: readonly { readonly listener: ErrorListener }[] = [];
  #complainedAt = Number.NEGATIVE_INFINITY;

  constructor(queue: string, clock: Clock, onError: ((error: unknown, job?: JobReference) => void) | undefined) {
    this.#queue = queue;
    this.#clock = clock;
    this.#onError = onError;
  }

  /** Is there a listener? */
  get heard(): boolean {
    return this.#onError !== undefined || this.#listeners.length > 0;
  }

  /** Until the returned function is called. */
  listen(listener: ErrorListener): () => void {
    const own = { listener: readArgument("on", "listener", fn, listener) as ErrorListener };
    this.#listeners = [...this.#listeners, own];
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== own);
    };
  }

  readonly report = (error: unknown, job?: JobReference): void => {
    const about = job && referenceTo(job);
    if (!this.heard) this.#complain(error);
    safely(() => this.#onError?.(error, about));
    for (const { listener } of this.#listeners) safely(() => listener(errorOf(error), about));
  };

  /** The last thing that is told: it ends the worker, so no earlier complaint keeps it from being told. */
  readonly reportLast = (error: unknown): void => {
    this.#complainedAt = Number.NEGATIVE_INFINITY;
    this.report(error);
  };

  /** Without a listener, a line now and then: a worker that fails in silence is worse. */
  #complain(error: unknown): void {
    const now = this.#clock.now();
    if (now - this.#complainedAt < COMPLAIN_EVERY_MS) return;
    this.#complainedAt = now;
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

/** What a listener throws has no one else to be told to. An asynchronous one would end the process by rejecting. */
function safely(tell: () => unknown): void {
  try {
    void Promise.resolve(tell()).catch(() => {});
  } catch {
    // As above.
  }
}
