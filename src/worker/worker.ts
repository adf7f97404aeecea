import type { Clock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import type { AnyJobs, DataOf, ResultOf } from "../core/job-map.ts";
import type { JobEventName, JobEvents } from "../core/events.ts";
import { durationOrZero, optional, readArgument, readOptions } from "../core/options.ts";
import { queueName } from "../core/names.ts";
import { newId } from "../core/random.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { listen, type StorageOrStore } from "../storage/open.ts";
import type { ErrorListener } from "./error-reporter.ts";
import { Engine } from "./engine.ts";
import { type BatchHandler, type Handler, readHandlers } from "./handlers.ts";
import { type BatchWorkerOptions, readWorkerOptions, type WorkerOptions } from "./options.ts";

export interface StopOptions {
  /** How long running jobs may take to end by themselves; then they are aborted and given back. Default 10 s. */
  readonly timeout?: Duration | undefined;
}

/** A handler for each of these types. */
export type HandlerMap<Jobs> = {
  readonly [Type in keyof Jobs & string]?: Handler<DataOf<Jobs, Type>, ResultOf<Jobs, Type>>;
};
export type BatchHandlerMap<Jobs> = {
  readonly [Type in keyof Jobs & string]?: BatchHandler<DataOf<Jobs, Type>, ResultOf<Jobs, Type>>;
};

const STOP = { timeout: optional(durationOrZero, 10_000) };

/**
 * Claims jobs of a queue and runs them. Starts by itself. Two workers of the same queue share nothing but the storage.
 *
 * `handlers`: one function for all types, or an object of functions by type; other types are then left to other workers.
 */
export class Worker<Jobs = AnyJobs> implements AsyncDisposable {
  /** The queue it works for. */
  readonly queue: string;
  /** Unique among all workers, for ever. */
  readonly id: string;
  readonly storage: JobStorage;
  /** The names of the shared limits that it declares. */
  readonly limits: readonly string[];
  readonly #clock: Clock;
  readonly #engine: Engine;

  constructor(
    queue: string,
    handlers: Handler<DataOf<Jobs, keyof Jobs>, ResultOf<Jobs, keyof Jobs>> | HandlerMap<Jobs>,
    options: StorageOrStore<WorkerOptions>,
  );
  constructor(
    queue: string,
    handlers: BatchHandler<DataOf<Jobs, keyof Jobs>, ResultOf<Jobs, keyof Jobs>> | BatchHandlerMap<Jobs>,
    options: StorageOrStore<BatchWorkerOptions>,
  );
  constructor(
    queue: string,
    handlers: unknown,
    options: StorageOrStore<WorkerOptions> | StorageOrStore<BatchWorkerOptions>,
  ) {
    const settings = readWorkerOptions(options);
    this.queue = readArgument("Worker", "queue", queueName, queue);
    this.storage = settings.storage;
    this.limits = settings.limits?.rules.map(({ name }) => name) ?? [];
    this.#clock = settings.clock;
    this.id = newId(this.#clock.wall());
    this.#engine = new Engine(this.queue, this.id, readHandlers("Worker", handlers), settings);
    if (settings.autostart) void this.start();
  }

  /**
   * Begins to claim. Resolves when the storage is set up; a storage that cannot be reached is tried again. Rejects with a
   * `LimitConflictError`, and has stopped, if its `limits` have `onConflict: "reject"` and differ from the stored ones.
   */
  start(): Promise<void> {
    return this.#engine.start();
  }

  /**
   * Claims nothing more, lets running jobs end, and gives back those that do not end in time: these spend no attempt and can be
   * claimed at once. A second call with a shorter timeout shortens the first.
   */
  async stop(options: StopOptions = {}): Promise<void> {
    await this.#engine.stop(readOptions("stop", STOP, options).timeout);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** How many jobs run at the moment. */
  get running(): number {
    return this.#engine.running;
  }

  /** Resolves when no job runs and the queue has no more jobs for this worker, now or later. Paused jobs do not count. */
  onIdle(): Promise<void> {
    return this.#engine.onIdle();
  }

  /**
   * Calls the listener with every error of this worker that does not come from a handler, as `onError` does, until the returned
   * function is called. With the job, if the error is about one. Errors of handlers are part of the events `retried` and `dead`.
   */
  on(event: "error", listener: ErrorListener): () => void;
  /** Calls the listener for every such event of the queue, in any process, until the returned function is called. */
  on<Name extends JobEventName>(event: Name, listener: (event: JobEvents[Name]) => void): () => void;
  on(event: JobEventName | "error", listener: unknown): () => void {
    if (event === "error") return this.#engine.onError(listener as ErrorListener);
    return listen(this.storage, this.queue, event, listener as (event: JobEvents[JobEventName]) => void, ["error"]);
  }
}
