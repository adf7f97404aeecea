import type { JobProgress } from "../core/job.ts";
import { fn, readArgument } from "../core/options.ts";
import type { QueuedJob, ResultOptions } from "../queue/queued-job.ts";

/** Is called with the arguments of `updateProgress`. */
export type JobProgressListener = (progress: number, message: string | undefined, details: unknown) => void;

/** A submitted job. */
export class JobHandle<Output = unknown> {
  readonly id: string;
  /** False where an idempotency key found an earlier job. */
  readonly created: boolean;
  readonly #job: QueuedJob<unknown, Output>;

  /** @internal Made by the client. */
  constructor(job: QueuedJob<unknown, Output>) {
    this.#job = job;
    this.id = job.id;
    this.created = job.created;
  }

  /** See `JobQueueClient.waitFor`. */
  waitFor(options: ResultOptions = {}): Promise<Output> {
    return this.#job.result(options);
  }

  /** See `JobQueueClient.abort`. */
  abort(): Promise<boolean> {
    return this.#job.cancel();
  }

  /** Calls the listener with every reported progress, until the job ends, is gone, or the returned function is called. */
  onProgress(listener: JobProgressListener): () => void {
    readArgument("onProgress", "listener", fn, listener);
    return this.#job.onProgress(spread(listener));
  }
}

/** The listener for progress as a storage publishes it. */
export function spread(listener: JobProgressListener): (progress: JobProgress) => void {
  return ({ percent, message, details }) => listener(percent, message, details);
}
