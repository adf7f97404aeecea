import type { JobProgress } from "../core/job.ts";
import { fn, readArgument } from "../core/options.ts";
import type { QueuedJob, ResultOptions } from "../queue/queued-job.ts";

/** Hears how far a job is: what `updateProgress` was called with. */
export type JobProgressListener = (progress: number, message: string | undefined, details: unknown) => void;

/** A job in the hands of whoever submitted it. */
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

  /** Calls back with every progress that is heard of, until the job ends or the returned function is called. */
  onProgress(listener: JobProgressListener): () => void {
    readArgument("onProgress", "listener", fn, listener);
    return this.#job.onProgress(spread(listener));
  }
}

/** The listener for what a storage tells. */
export function spread(listener: JobProgressListener): (progress: JobProgress) => void {
  return ({ percent, message, details }) => listener(percent, message, details);
}
