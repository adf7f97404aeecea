import { type Clock, systemClock } from "../core/clock.ts";
import { JobNotFoundError, OptionsError } from "../core/errors.ts";
import type { JobEventName, JobEvents } from "../core/events.ts";
import type { JobState } from "../core/job.ts";
import { anything, type Check, fn, optional, readArgument, readOptions, required } from "../core/options.ts";
import type { AnyJobs } from "../core/job-map.ts";
import type { QueueDefaults } from "../core/job-defaults.ts";
import type { AddOptions } from "../queue/add-options.ts";
import { nameText } from "../core/names.ts";
import type { JobInfo } from "../queue/job-info.ts";
import { anyText } from "../queue/bulk.ts";
import { pageSize, Queue } from "../queue/queue.ts";
import type { QueuedJob, ResultOptions } from "../queue/queued-job.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { followProgress } from "../storage/progress-followers.ts";
import { namingStorage, type StorageOrStore } from "../storage/open.ts";
import { type AnyJobClass, DEFAULT_TYPE, type JobClass, readJobClass, typeOf } from "./job.ts";
import { JobHandle, type JobProgressListener, spread } from "./job-handle.ts";

export interface JobQueueClientOptions<Input, Output> {
  readonly storage: JobStorage;
  readonly queueName: string;
  /** The class of the jobs: its type is the type of submitted jobs. Required if the server has several classes. */
  readonly jobClass?: JobClass<Input, Output> | undefined;
  /** The type itself, where the class is not at hand. */
  readonly type?: string | undefined;
  /** Default options of jobs: for all of them, and by type. */
  readonly defaults?: QueueDefaults<AnyJobs> | undefined;
  /** How many bytes an input may have, as JSON. Default 1 MiB, at most 16 MiB. */
  readonly maxDataBytes?: number | undefined;
  /** The clock for timeouts. Default: the system's clock. */
  readonly clock?: Clock | undefined;
}

/** The options of a job, and its type if it is not the client's. */
export interface SubmitOptions extends AddOptions {
  readonly type?: string | undefined;
  readonly jobClass?: AnyJobClass | undefined;
}

/** A job as it was at one moment. */
export interface JobDetails<Input, Output> extends Omit<JobInfo, "queue" | "data" | "state" | "result"> {
  readonly queueName: string;
  readonly input: Input;
  readonly output: Output | undefined;
  readonly status: JobState;
}

const OWNER = "JobQueueClient";
/** What a queue is asked about when nothing else is said. */
const NOT_STARTED: readonly JobState[] = ["waiting", "scheduled", "awaiting"];

/** Checked by the queue that it is passed on to. */
const passedOn = optional(anything);

const jobClassRule: Check<AnyJobClass> = {
  expected: "a class that extends Job",
  read: (value) => readJobClass(OWNER, "jobClass", value),
};
const NAMED = { jobClass: optional(jobClassRule), type: optional(nameText) };
const RULES = {
  ...NAMED,
  storage: passedOn,
  queueName: required(nameText),
  defaults: passedOn,
  maxDataBytes: passedOn,
  clock: passedOn,
};

/**
 * Submits jobs to a queue and follows them, in whatever process they run. It needs only the storage: there is nothing to attach or
 * close.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- nothing is said about what the jobs take and give
export class JobQueueClient<Input = any, Output = any> {
  readonly queueName: string;
  readonly storage: JobStorage;
  readonly #type: string;
  readonly #clock: Clock;
  readonly #queue: Queue<Record<string, { data: Input; result: Output }>>;

  constructor(options: StorageOrStore<JobQueueClientOptions<Input, Output>>) {
    const { jobClass, type, queueName, ...queue } = readOptions(OWNER, RULES, namingStorage(OWNER, options));
    this.#type = typeFrom({ jobClass, type }) ?? DEFAULT_TYPE;
    this.#queue = new Queue(queueName, queue as { storage: JobStorage });
    this.#clock = (queue.clock as Clock | undefined) ?? systemClock;
    this.queueName = queueName;
    this.storage = this.#queue.storage;
  }

  /** Adds a job. When this resolves the job is stored, and survives a crash of this process. */
  async submit(input: Input, options: SubmitOptions = {}): Promise<JobHandle<Output>> {
    const { type, rest } = this.#read("submit", options);
    return this.#handle(await this.#queue.add(type, input, rest));
  }

  /** Adds a job for each input, all with these options, or, if one cannot be added, none. Returns the jobs in order. */
  async submitBatch(
    inputs: readonly Input[],
    options: Omit<SubmitOptions, "idempotencyKey"> = {},
  ): Promise<readonly JobHandle<Output>[]> {
    if (!Array.isArray(inputs)) throw new OptionsError("submitBatch", "inputs", inputs, "an array");
    const { type, rest } = this.#read("submitBatch", options);
    if (rest.idempotencyKey !== undefined) {
      const { idempotencyKey } = rest;
      throw new OptionsError("submitBatch", "idempotencyKey", idempotencyKey, "left out: one key is for one job");
    }
    const { tx, ...own } = rest;
    const jobs = await this.#queue.addBulk(
      inputs.map((data: Input) => ({ type, data, options: own })),
      { tx },
    );
    return jobs.map((job) => this.#handle(job));
  }

  /**
   * Resolves with the output of a job once it has ended; rejects with its error if it is dead, an `AbortSignalJobError` if
   * it was aborted, a `JobNotFoundError` if it was deleted.
   */
  async waitFor(id: string, options: ResultOptions = {}): Promise<Output> {
    const job = await this.#queue.get(id);
    if (job === undefined) throw new JobNotFoundError(id);
    return job.result(options);
  }

  /**
   * Cancels a job: one that has not started is cancelled at once, a running one has its signal aborted. False: it had ended, or
   * was being aborted already.
   */
  abort(id: string): Promise<boolean> {
    return this.#queue.cancel(id);
  }

  /** Calls the listener with every reported progress, until the job ends, is gone, or the returned function is called. */
  onJobProgress(id: string, listener: JobProgressListener): () => void {
    readArgument("onJobProgress", "id", anyText, id);
    readArgument("onJobProgress", "listener", fn, listener);
    const { storage, queueName: queue } = this;
    return followProgress({ storage, queue, clock: this.#clock }, id, spread(listener));
  }

  /** The state of a job of this queue; undefined if there is none with this id. */
  async getJob(id: string): Promise<JobDetails<Input, Output> | undefined> {
    const info = await this.#queue.info(id);
    return info && detailsOf(info);
  }

  /** The newest jobs with this status, newest first. Without one: of those that have not started. At most 1000. */
  async peek(status?: JobState, num = 100): Promise<readonly JobDetails<Input, Output>[]> {
    readArgument("peek", "num", pageSize, num);
    const found: JobDetails<Input, Output>[] = [];
    let cursor: string | undefined;
    do {
      // A page of large jobs may be shorter than its limit.
      const page = await this.#queue.list({ state: status ?? NOT_STARTED, limit: num - found.length, cursor });
      for (const job of page.jobs) found.push(detailsOf(job));
      cursor = page.cursor;
    } while (cursor !== undefined && found.length < num);
    return found;
  }

  /** How many jobs have this status. Without one: how many have not started. */
  async size(status?: JobState): Promise<number> {
    const counts = await this.#queue.counts();
    if (status !== undefined && !Object.hasOwn(counts, status)) {
      throw new OptionsError("size", "status", status, `one of ${Object.keys(counts).join(", ")}`);
    }
    return (status === undefined ? NOT_STARTED : [status]).reduce((sum, state) => sum + counts[state], 0);
  }

  /** Calls the listener for every such event of the queue, in any process, until the returned function is called. */
  on<Name extends JobEventName>(event: Name, listener: (event: JobEvents[Name]) => void): () => void {
    return this.#queue.on(event, listener);
  }

  #read(owner: string, options: SubmitOptions): { readonly type: string; readonly rest: AddOptions } {
    if (typeof options !== "object" || options === null) throw new OptionsError(owner, "options", options, "an object");
    const { type, jobClass, ...rest } = options;
    return { type: typeFrom(readOptions(owner, NAMED, { type, jobClass })) ?? this.#type, rest };
  }

  #handle(job: QueuedJob<Input, Output>): JobHandle<Output> {
    return new JobHandle(job);
  }
}

function typeFrom(named: { readonly jobClass: AnyJobClass | undefined; readonly type: string | undefined }) {
  return named.type ?? (named.jobClass && typeOf(named.jobClass));
}

function detailsOf<Input, Output>(info: JobInfo<Input, Output>): JobDetails<Input, Output> {
  const { queue: queueName, data: input, state: status, result: output, ...rest } = info;
  return { ...rest, queueName, input, output, status };
}
