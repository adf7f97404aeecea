import { OptionsError } from "../core/errors.ts";
import type { JobEventName, JobEvents } from "../core/events.ts";
import { durationOrZero, optional, readArgument, readOptions, workerCountOrZero } from "../core/options.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { listen, type StorageOrStore } from "../storage/open.ts";
import { ErrorReporter, type ErrorListener } from "../worker/error-reporter.ts";
import type { Handler } from "../worker/handlers.ts";
import { declaredLimits } from "../worker/options.ts";
import { type StopOptions, Worker } from "../worker/worker.ts";
import { Cleaner } from "./cleaner.ts";
import { concurrencyUnder } from "./concurrency.ts";
import { type AnyJobClass, DEFAULT_TYPE, instanceOf, type JobClass, readJobClass, typeOf } from "./job.ts";
import { type JobQueueServerOptions, readServerOptions, type ServerSettings } from "./options.ts";
import { counted, type JobQueueStats, Stats } from "./stats.ts";

const OWNER = "JobQueueServer";
const STOP = { timeout: optional(durationOrZero, 10_000) };
/** Workers that are removed let their jobs end, however long that takes. */
const SCALE = { timeout: optional(durationOrZero, 1e15) };

/**
 * Runs the jobs of a queue, each as an instance of its class, with `workerCount` workers. All of them share one limiter, which decides
 * how many jobs run; without one every worker runs one at a time. It does not start by itself.
 *
 * A server of one class runs jobs of that class's type, and those that were submitted without a type. A server of several classes runs
 * jobs whose type one of them has.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- nothing is said about what the jobs take and give
export class JobQueueServer<Input = any, Output = any> implements AsyncDisposable {
  readonly queueName: string;
  readonly storage: JobStorage;
  readonly #settings: ServerSettings;
  readonly #handlers: Readonly<Record<string, Handler>>;
  readonly #stats: Stats;
  readonly #counted: JobStorage;
  /** Reports the errors of all its workers. */
  readonly #errors: ErrorReporter;
  readonly #workers = new Set<Worker>();
  /** Workers that claim nothing more and still have running jobs: until these end, no new worker replaces them. */
  readonly #leaving = new Set<Worker>();
  #cleaner: Cleaner | undefined;
  #wanted: number;
  #running = false;
  /** One of its workers has declared its limits since it was started: later workers declare nothing. */
  #declared = false;

  constructor(jobClass: JobClass<Input, Output>, options: StorageOrStore<JobQueueServerOptions>);
  constructor(jobClasses: readonly AnyJobClass[], options: StorageOrStore<JobQueueServerOptions>);
  constructor(
    jobClass: JobClass<Input, Output> | readonly AnyJobClass[],
    options: StorageOrStore<JobQueueServerOptions>,
  ) {
    this.#settings = readServerOptions(options);
    this.queueName = this.#settings.queueName;
    this.storage = this.#settings.storage;
    this.#wanted = this.#settings.workerCount;
    this.#stats = new Stats(this.#settings.clock);
    this.#counted = counted(this.storage, this.#stats);
    this.#handlers = this.#handlersFor(jobClass);
    this.#errors = new ErrorReporter(this.queueName, this.#settings.clock, this.#settings.worker.onError);
    // Options that a worker would refuse are refused now.
    this.#newWorker();
    refuseLocalWindow(this.#settings.worker.limiter);
  }

  /**
   * Starts the workers. Resolves when the storage is set up; a storage that cannot be reached is tried again. Rejects with a
   * `LimitConflictError`, and runs nothing, if its `limits` have `onConflict: "reject"` and differ from the stored ones.
   */
  async start(): Promise<this> {
    if (!this.#running) {
      this.#running = true;
      this.#cleaner = this.#newCleaner();
      this.#cleaner.start();
      this.#fill();
    }
    try {
      await this.#started();
    } catch (error) {
      await this.stop();
      throw error;
    }
    return this;
  }

  /**
   * Starts nothing more, lets running jobs end, and gives back those that do not end in time: these spend no attempt. A second call
   * with a shorter timeout shortens the wait. The server can be started again.
   */
  async stop(options: StopOptions = {}): Promise<this> {
    const read = readOptions("stop", STOP, options);
    this.#running = false;
    this.#declared = false;
    const stopped = [...this.#workers, ...this.#leaving].map((worker) => this.#dismiss(worker, read));
    await Promise.all([...stopped, this.#cleaner?.stop()]);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /**
   * Sets the number of workers. Resolves when no more than that are left: removed workers let their jobs end (or give them back after
   * a `timeout`). 0: nothing runs until there are more; at most 10,000.
   */
  async scaleWorkers(workers: number, options: StopOptions = {}): Promise<void> {
    const read = readOptions("scaleWorkers", SCALE, options);
    this.#wanted = readArgument("scaleWorkers", "workers", workerCountOrZero, workers);
    // Idle workers are removed first.
    const idleFirst = [...this.#workers].toSorted((a, b) => a.running - b.running);
    const dismissed = idleFirst.slice(0, Math.max(0, idleFirst.length - this.#wanted));
    const left = dismissed.map((worker) => this.#dismiss(worker, read));
    this.#fill();
    await Promise.all([...left, this.#started()]);
  }

  /** Is it started, and not stopped? */
  isRunning(): boolean {
    return this.#running;
  }

  /** How many workers it has, or will have when it is started. */
  getWorkerCount(): number {
    return this.#wanted;
  }

  /** What this server has done. For the jobs in the queue, see `JobQueueClient.size` and `Queue.counts`. */
  getStats(): JobQueueStats {
    return this.#stats.snapshot;
  }

  /**
   * Calls the listener with every error of this server that does not come from `execute`, as `onError` does, until the returned
   * function is called. With the job, if the error is about one.
   */
  on(event: "error", listener: ErrorListener): () => void;
  /** Calls the listener for every such event of the queue, in any process, until the returned function is called. */
  on<Name extends JobEventName>(event: Name, listener: (event: JobEvents[Name]) => void): () => void;
  on(event: JobEventName | "error", listener: unknown): () => void {
    if (event === "error") return this.#errors.listen(listener as ErrorListener);
    return listen(this.storage, this.queueName, event, listener as (event: JobEvents[JobEventName]) => void, ["error"]);
  }

  /** Starts workers until there are `workerCount`, those that are being removed included. */
  #fill(): void {
    while (this.#running && this.#workers.size + this.#leaving.size < this.#wanted) {
      const worker = this.#newWorker();
      this.#workers.add(worker);
      worker.start().then(
        // A worker that was removed before it started may have declared nothing.
        () => (this.#declared ||= this.#workers.has(worker)),
        // A worker whose limits are refused is removed; `start()` rejects.
        () => this.#workers.delete(worker),
      );
    }
  }

  async #started(): Promise<void> {
    await Promise.all(Array.from(this.#workers, (worker) => worker.start()));
  }

  async #dismiss(worker: Worker, options: StopOptions): Promise<void> {
    const stopped = worker.stop(options);
    this.#workers.delete(worker);
    this.#leaving.add(worker);
    await stopped;
    this.#leaving.delete(worker);
    this.#fill();
  }

  #newWorker(): Worker {
    const { queueName, worker } = this.#settings;
    const { limiter, concurrency = concurrencyUnder(limiter) } = worker;
    const onError = this.#errors.report;
    const limits = this.#declared ? declaredLimits(worker.limits) : worker.limits;
    const own = { limits, concurrency, onError, storage: this.#counted, autostart: false };
    return new Worker(queueName, this.#handlers, { ...worker, ...own });
  }

  #newCleaner(): Cleaner {
    const { storage, queueName, retentions, cleanupIntervalMs, clock } = this.#settings;
    return new Cleaner({
      storage,
      queue: queueName,
      retentions,
      everyMs: cleanupIntervalMs,
      clock,
      report: this.#errors.report,
    });
  }

  #handlersFor(given: AnyJobClass | readonly AnyJobClass[]): Readonly<Record<string, Handler>> {
    const classes = isList(given) ? given : [given];
    const byType = new Map<string, Handler>();
    for (const one of classes) {
      const jobClass = readJobClass(OWNER, "jobClass", one);
      const type = typeOf(jobClass);
      if (byType.has(type)) throw new OptionsError(OWNER, "jobClass.type", type, "different for every class");
      const handler: Handler = (view, context) =>
        this.#stats.measure(async () => instanceOf(jobClass, view).execute(view.data, context));
      byType.set(type, handler);
      if (!isList(given)) byType.set(DEFAULT_TYPE, handler);
    }
    if (byType.size === 0) throw new OptionsError(OWNER, "jobClasses", given, "at least one class");
    return Object.fromEntries(byType);
  }
}

function isList(given: AnyJobClass | readonly AnyJobClass[]): given is readonly AnyJobClass[] {
  return Array.isArray(given);
}

/** With a window for each worker the server would start `workerCount` times as many jobs as the limiter says. */
function refuseLocalWindow(limiter: object | undefined): void {
  if (limiter !== undefined && "scope" in limiter && limiter.scope === "worker") {
    const expected = "left out (the limiter of a server is one for all its workers)";
    throw new OptionsError(OWNER, "limiter.scope", limiter.scope, expected);
  }
}
