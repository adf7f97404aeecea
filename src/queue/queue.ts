import { getOrMake } from "../core/get-or-make.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { JobNotFoundError, OptionsError } from "../core/errors.ts";
import type { JobEventName, JobEvents } from "../core/events.ts";
import { canonicalJson, fromJson, toJson } from "../core/json.ts";
import { type JobCounts, type JobRecord, type JobState, noJobs } from "../core/job.ts";
import {
  anything,
  type Check,
  clock,
  date,
  fn,
  integer,
  optional,
  readArgument,
  readOptions,
  required,
} from "../core/options.ts";
import { type JobDefaults, type QueueDefaults, readDefaults, type ReadDefaults } from "../core/job-defaults.ts";
import { keyText, nameText, queueName } from "../core/names.ts";
import { newId } from "../core/random.ts";
import { type DefinedLimits, limitsOption } from "../limits/define.ts";
import type { LimitDefinitions } from "../limits/definition.ts";
import type { Added, ChangeAction, JobStorage, NewJob } from "../storage/job-storage.ts";
import type { LimitListener } from "../storage/declaring.ts";
import { drain, type QueueExplanation } from "../storage/drain.ts";
import type { Explanation } from "../storage/explain.ts";
import { jobStorage, listen, namingStorage, type StorageOrStore } from "../storage/open.ts";
import {
  type AddOptions,
  type BulkOptions,
  type JobOptions,
  partTransaction,
  type ReadAddOptions,
  readAddOptions,
  readTransaction,
} from "./add-options.ts";
import {
  anyText,
  cancelAll,
  type ChangeAllOptions,
  drainQueue,
  type DrainOptions,
  purge,
  type PurgeOptions,
  redrive,
  type RedriveTarget,
  removeAll,
  states,
} from "./bulk.ts";
import { declaring } from "./declaring.ts";
import { ofCall } from "./of-call.ts";
import { infoOf, type JobInfo } from "./job-info.ts";
import { type WorkerInfo, workerInfoOf } from "./worker-info.ts";
import { changeOne, explainOne, type JobPlace, QueuedJob } from "./queued-job.ts";
import { readUpdate, type UpdateAnswer, updateOne, type UpdateOptions } from "./update.ts";
import { readSchemas, type StandardSchema, validate } from "./schema.ts";
import type { AnyJobs, DataOf, JobMap, ResultOf, TypeOf } from "../core/job-map.ts";

export interface QueueOptions<Jobs> {
  /** Where the jobs are kept. `store` is another word for it. */
  readonly storage: JobStorage;
  /**
   * Default options of jobs: for all of them, and by type, `{ timeout: "1m", send_email: { maxAttempts: 3 } }`. Give the same object to
   * the workers.
   */
  readonly defaults?: QueueDefaults<NoInfer<Jobs>> | undefined;
  /** Schemas by type (zod, valibot, arktype, …): data is checked when it is added, and the output of the schema is stored. */
  readonly schemas?: { readonly [Type in TypeOf<NoInfer<Jobs>>]?: StandardSchema } | undefined;
  /** How many bytes the data of a job may have, as JSON. Default 1 MiB, at most 16 MiB. */
  readonly maxDataBytes?: number | undefined;
  /**
   * Shared limits to declare before the first job is added: what `defineLimits` returned, or the same as a plain object. They bind
   * every worker of the storage. If a limit was declared differently before, the newest declaration holds; with
   * `onConflict: "reject"`, `add` fails with a `LimitConflictError` then.
   */
  readonly limits?: DefinedLimits | LimitDefinitions | undefined;
  /** Is called with the limits that its declaration changed, and those that it left because a newer version declared them. Default: a console line. */
  readonly onLimitChange?: LimitListener | undefined;
  /** The clock for timeouts. Default: the system's clock. */
  readonly clock?: Clock | undefined;
}

/** A job of any type of the queue. */
type JobOf<Jobs> = QueuedJob<DataOf<Jobs, TypeOf<Jobs>>, ResultOf<Jobs, TypeOf<Jobs>>>;

/** One job among many that are added together. */
export type BulkEntry<Jobs> = {
  readonly [Type in TypeOf<Jobs>]: {
    readonly type: Type;
    readonly data: DataOf<Jobs, Type>;
    readonly options?: JobOptions | undefined;
  };
}[TypeOf<Jobs>];

export interface ListOptions {
  /** Only jobs in this state, or one of these. */
  readonly state?: JobState | readonly JobState[] | undefined;
  readonly type?: string | undefined;
  readonly group?: string | undefined;
  /** Added at or after this. */
  readonly since?: Date | undefined;
  /** Added before this. */
  readonly until?: Date | undefined;
  /** How many at most, from 1 to 1000. Default 100. A page has at most 4 MiB of data and results, or one job. */
  readonly limit?: number | undefined;
  /** Where the page before ended. */
  readonly cursor?: string | undefined;
}

export interface ListPage<Jobs> {
  /** Newest first. At most `limit`; fewer if the jobs are large. */
  readonly jobs: readonly JobInfo<DataOf<Jobs, TypeOf<Jobs>>, ResultOf<Jobs, TypeOf<Jobs>>>[];
  /** For the next page; undefined: this was the last. A page that is not full need not be the last. */
  readonly cursor: string | undefined;
}

const OWNER = "Queue";
const MEBIBYTE = 2 ** 20;
const MOST_IN_BULK = 10_000;
/** The most bytes of one job: it is sent and read as a whole, within the deadline of a call, over a slow network too. */
const LARGEST_DATA = 16 * MEBIBYTE;
/** The most bytes of jobs that are added together: they are sent in one statement, which is all or nothing. */
const LARGEST_BULK = 64 * MEBIBYTE;

const dataBytes: Check<number> = {
  expected: `an integer from 1 to ${LARGEST_DATA} (16 MiB)`,
  read: integer(1, LARGEST_DATA).read,
};
export const pageSize = /* @__PURE__ */ integer(1, 1_000);

const RULES = {
  storage: required(jobStorage),
  defaults: optional(anything, {}),
  schemas: optional(anything, {}),
  maxDataBytes: optional(dataBytes, MEBIBYTE),
  limits: optional(limitsOption(OWNER)),
  onLimitChange: optional(fn),
  clock: optional(clock, systemClock),
};
/** The values are checked with the job. */
const ENTRY = { type: optional(anything), data: optional(anything), options: optional(anything) };
const DEAD_LETTERS = {
  type: optional(anyText),
  group: optional(anyText),
  since: optional(date),
  until: optional(date),
  limit: optional(pageSize, 100),
  cursor: optional(anyText),
};
const LIST = { ...DEAD_LETTERS, state: optional(states) };
/**
 * A named queue of jobs: adds, reads and changes them. Workers of the same name and storage run them.
 *
 * `Jobs` maps types to their data and result: `Queue<{ send_email: { data: { to: string }; result: void } }>`.
 */
export class Queue<Jobs extends JobMap<Jobs> = AnyJobs> {
  readonly name: string;
  readonly storage: JobStorage;
  readonly #defaults: ReadDefaults;
  readonly #schemas: ReadonlyMap<string, StandardSchema>;
  readonly #maxDataBytes: number;
  readonly #clock: Clock;
  readonly #place: JobPlace;
  /** The checked options of a job without options of its own, by type. */
  readonly #plain = new Map<JobDefaults, ReadAddOptions>();
  /** Declares the limits of the queue, once. */
  readonly #declare: () => Promise<void> | undefined;

  constructor(name: string, options: StorageOrStore<QueueOptions<Jobs>>) {
    const read = readOptions(OWNER, RULES, namingStorage(OWNER, options));
    this.name = readArgument(OWNER, "name", queueName, name);
    this.storage = read.storage;
    this.#defaults = readDefaults(OWNER, read.defaults);
    this.#schemas = readSchemas(OWNER, read.schemas);
    this.#maxDataBytes = read.maxDataBytes;
    this.#clock = read.clock;
    this.#place = {
      storage: this.storage,
      queue: this.name,
      clock: this.#clock,
      update: (job, changes) => this.#update(job, changes),
    };
    this.#declare = declaring(this.storage, this.name, read.limits, read.onLimitChange as LimitListener | undefined);
  }

  /**
   * Adds a job. When this resolves the job is stored, and survives a crash of this process; in a transaction of yours (`tx`), when that
   * has committed.
   */
  async add<Type extends TypeOf<Jobs>>(
    type: Type,
    data: DataOf<Jobs, Type>,
    options?: AddOptions,
  ): Promise<QueuedJob<DataOf<Jobs, Type>, ResultOf<Jobs, Type>>> {
    const [own, tx] = options === undefined ? [] : partTransaction("add", options);
    const [job] = await this.#addAll("add", [{ type, data, options: own }], tx);
    return job as QueuedJob<DataOf<Jobs, Type>, ResultOf<Jobs, Type>>;
  }

  /**
   * Adds all of them or, if one cannot be added, none. Returns the jobs in order. At most 10,000 jobs, with 64 MiB of data together:
   * add more in several calls.
   */
  async addBulk(entries: readonly BulkEntry<Jobs>[], options: BulkOptions = {}): Promise<JobOf<Jobs>[]> {
    const tx = readTransaction("addBulk", options);
    if (!Array.isArray(entries)) throw new OptionsError("addBulk", "entries", entries, "an array");
    if (entries.length > MOST_IN_BULK) {
      throw new OptionsError("addBulk", "entries.length", entries.length, `at most ${MOST_IN_BULK}`);
    }
    // An option that stands beside `type`, or is misspelt, would be lost.
    for (const entry of entries)
      for (const key in entry) if (!Object.hasOwn(ENTRY, key)) readOptions("addBulk", ENTRY, entry);
    return entries.length === 0 ? [] : ((await this.#addAll("addBulk", entries, tx)) as JobOf<Jobs>[]);
  }

  /** The job of this id, if it is in this queue. */
  async get(id: string): Promise<JobOf<Jobs> | undefined> {
    const record = await this.#find("get", id);
    return record && this.#jobOf(record);
  }

  /** The job that has this idempotency key now. Undefined: the key has expired, or its job is deleted. */
  async getByKey(idempotencyKey: string): Promise<JobOf<Jobs> | undefined> {
    const key = readArgument("getByKey", "idempotencyKey", keyText, idempotencyKey);
    const record = await this.storage.findByKey(this.name, key);
    return record && this.#jobOf(record);
  }

  /** The state of the job with this id. */
  async info(id: string): Promise<ListPage<Jobs>["jobs"][number] | undefined> {
    const record = await this.#find("info", id);
    return record && infoOf(record);
  }

  /** The waiting jobs of the queue, their limits, and an estimate of how long the limits take for them. Declares nothing. */
  explain(): Promise<QueueExplanation>;
  /** See `QueuedJob.explain`. */
  explain(id: string): Promise<Explanation>;
  async explain(id?: string): Promise<Explanation | QueueExplanation> {
    if (id !== undefined) return explainOne(this.#place, readArgument("explain", "id", anyText, id));
    return drain(await this.storage.backlog(this.name));
  }

  /** Jobs of this queue, newest first, page by page. */
  async list(options: ListOptions = {}): Promise<ListPage<Jobs>> {
    const read = readOptions("list", LIST, options);
    const { jobs, cursor } = await this.storage.list({
      queue: this.name,
      states: read.state ?? null,
      type: read.type ?? null,
      group: read.group ?? null,
      since: read.since?.getTime() ?? null,
      until: read.until?.getTime() ?? null,
      limit: read.limit,
      cursor: read.cursor ?? null,
    });
    return { jobs: jobs.map((job) => infoOf(job)), cursor: cursor ?? undefined };
  }

  /** Jobs that failed for good, newest first. */
  async deadLetters(options: Omit<ListOptions, "state"> = {}): Promise<ListPage<Jobs>> {
    readOptions("deadLetters", DEAD_LETTERS, options);
    return this.list({ ...options, state: "dead" });
  }

  /** How many jobs are in each state. */
  async counts(): Promise<JobCounts> {
    const [overview] = await this.storage.overview(this.name);
    return overview?.counts ?? noJobs();
  }

  /** The live workers of this queue in any process, idle ones too; the oldest first. */
  async workers(): Promise<readonly WorkerInfo[]> {
    return (await this.storage.workers(this.name)).map(workerInfoOf);
  }

  /** No job starts, in any process, until `resume`; with a type, no job of that type. Running jobs go on. */
  async pause(type?: TypeOf<Jobs>): Promise<void> {
    await this.#setPaused("pause", type, true);
  }

  async resume(type?: TypeOf<Jobs>): Promise<void> {
    await this.#setPaused("resume", type, false);
  }

  /** Whether the queue is paused, and which types are. */
  async paused(): Promise<{ readonly queue: boolean; readonly types: readonly string[] }> {
    const [overview] = await this.storage.overview(this.name);
    return { queue: overview?.paused ?? false, types: overview?.pausedTypes ?? [] };
  }

  /** See `QueuedJob.cancel`. A job that does not exist is a `JobNotFoundError`. */
  cancel(id: string): Promise<boolean> {
    return this.#change("cancel", id);
  }

  /** See `QueuedJob.retry`. */
  retry(id: string): Promise<boolean> {
    return this.#change("retry", id);
  }

  /** See `QueuedJob.update`. A job that does not exist is a `JobNotFoundError`. */
  async update(id: string, options: UpdateOptions<DataOf<Jobs, TypeOf<Jobs>>>): Promise<UpdateAnswer> {
    return this.#update({ id: readArgument("update", "id", anyText, id) }, options);
  }

  /** See `QueuedJob.promote`. */
  promote(id: string): Promise<boolean> {
    return this.#change("promote", id);
  }

  /** See `QueuedJob.remove`. */
  remove(id: string): Promise<boolean> {
    return this.#change("remove", id);
  }

  /**
   * Cancels jobs, of a type, of a group, or the one that has an idempotency key: as `cancel` does, running ones are aborted. Returns
   * how many.
   */
  async cancelAll(options: ChangeAllOptions): Promise<number> {
    return cancelAll(this.#place, options);
  }

  /** Deletes jobs that are not running, of a type, of a group, or the one that has an idempotency key. Returns how many. */
  async removeAll(options: ChangeAllOptions): Promise<number> {
    return removeAll(this.#place, options);
  }

  /**
   * Removes jobs that have not started: all, or only of a type, of a group, or with an idempotency key. Running jobs go on. Returns how
   * many were removed.
   */
  async drain(options: DrainOptions = {}): Promise<number> {
    return drainQueue(this.#place, options);
  }

  /** Sends dead jobs back to their first attempt: one, some, or all. Returns how many. */
  async redrive(target: RedriveTarget): Promise<number> {
    return redrive(this.#place, target);
  }

  /** Deletes jobs that have ended, before `keepFor` is over. Returns how many. */
  async purge(options: PurgeOptions): Promise<number> {
    return purge(this.#place, options);
  }

  /** Calls the listener for every such event of this queue, in any process, until the returned function is called. */
  on<Name extends JobEventName>(event: Name, listener: (event: JobEvents[Name]) => void): () => void {
    return listen(this.storage, this.name, event, listener);
  }

  /** The job of this id, if it is in this queue. */
  async #find(owner: string, id: string): Promise<JobRecord | undefined> {
    const [record] = await this.storage.find([readArgument(owner, "id", anyText, id)]);
    return record?.queue === this.name ? record : undefined;
  }

  #change(action: ChangeAction, id: string): Promise<boolean> {
    return changeOne(this.#place, action, readArgument(action, "id", anyText, id));
  }

  async #addAll(
    owner: string,
    entries: readonly { type: string; data: unknown; options?: JobOptions | undefined }[],
    tx: object | undefined,
  ) {
    let takesTime = false;
    let bytes = 0;
    const counted = (job: NewJob): NewJob => {
      bytes += job.data.length;
      if (bytes > LARGEST_BULK) throw tooMuch(owner, entries.length, bytes);
      return job;
    };
    const made: (NewJob | (() => Promise<NewJob>))[] = [];
    // A hole in the array is an entry without a type, and refused.
    for (const entry of entries) {
      const job = this.#newJob(owner, entry);
      takesTime ||= typeof job === "function";
      made.push(typeof job === "function" ? job : counted(job));
    }
    const jobs = takesTime
      ? await Promise.all(made.map(async (job) => (typeof job === "function" ? counted(await job()) : job)))
      : (made as readonly NewJob[]);
    const declared = this.#declare();
    if (declared !== undefined) await declared;
    let added: readonly Added[];
    try {
      added = await (tx === undefined ? this.storage.add(jobs) : this.storage.add(jobs, tx));
    } catch (error) {
      throw ofCall(owner, error);
    }
    return jobs.map(
      (job, i) =>
        new QueuedJob(this.#place, {
          id: added[i]!.id,
          created: added[i]!.created,
          type: job.type,
          data: fromJson(job.data),
          // Whether an earlier job is kept is not known.
          kept: !added[i]!.created || job.keepFor !== 0,
        }),
    );
  }

  /** The job of an entry; or a function that makes it, if a schema or a fingerprint has to be awaited. */
  #newJob(
    owner: string,
    entry: { readonly type: string; readonly data: unknown; readonly options?: JobOptions | undefined },
  ): NewJob | (() => Promise<NewJob>) {
    const type = readArgument(owner, "type", nameText, entry?.type);
    const options = this.#optionsOf(owner, type, entry.options);
    const schema = this.#schemas.get(type);
    const { idempotency } = options;
    if (schema === undefined && idempotency === null) return this.#made(owner, type, entry.data, options);
    const { data } = entry;
    return async () => {
      const value = schema === undefined ? data : await validate(owner, schema, type, data);
      const job = this.#made(owner, type, value, options);
      if (idempotency === null) return job;
      return { ...job, idempotency: { ...idempotency, fingerprint: await fingerprint(type, job.data) } };
    };
  }

  #made(owner: string, type: string, value: unknown, options: ReadAddOptions): NewJob {
    const data = toJson(owner, "data", value, this.#maxDataBytes);
    return { ...options, id: newId(this.#clock.wall()), queue: this.name, type, data, idempotency: null };
  }

  /** The checked options of a job. Most jobs have none of their own. */
  #optionsOf(owner: string, type: string, options: JobOptions | undefined): ReadAddOptions {
    const defaults = this.#defaults.of(type);
    if (options !== undefined && options !== null) return readAddOptions(owner, defaults, options);
    return getOrMake(this.#plain, defaults, () => readAddOptions(owner, defaults, {}));
  }

  async #update(job: { readonly id: string; readonly type?: string }, options: UpdateOptions): Promise<UpdateAnswer> {
    const { id } = job;
    // The other options are checked before anything is looked up.
    readUpdate(options, options?.data === undefined ? undefined : "");
    let data: string | undefined;
    if (options.data !== undefined) {
      const type = job.type ?? (await this.get(id))?.type;
      if (type === undefined) throw new JobNotFoundError(id);
      const schema = this.#schemas.get(type);
      const value = schema === undefined ? options.data : await validate("update", schema, type, options.data);
      data = toJson("update", "data", value, this.#maxDataBytes);
    }
    await this.#declare();
    return updateOne(this.storage, this.name, id, readUpdate(options, data));
  }

  #jobOf(record: JobRecord): JobOf<Jobs> {
    const { id, type, data, keepFor } = record;
    return new QueuedJob(this.#place, {
      id,
      type,
      data: fromJson(data) as DataOf<Jobs, TypeOf<Jobs>>,
      created: false,
      kept: keepFor !== 0,
    });
  }

  async #setPaused(owner: string, type: string | undefined, paused: boolean): Promise<void> {
    const which = type === undefined ? null : readArgument(owner, "type", nameText, type);
    await this.storage.setPaused(this.name, which, paused);
  }
}

function tooMuch(owner: string, entries: number, bytes: number): OptionsError {
  return new OptionsError(
    owner,
    "entries",
    bytes,
    `at most ${LARGEST_BULK} bytes (64 MiB) of data in one call`,
    `these ${entries} jobs have that or more: add them in several calls, each of which is all or nothing; ` +
      "where a storage takes `tx`, several calls can be part of one transaction",
  );
}

/** A hash of the payload that does not depend on the order of its keys. */
async function fingerprint(type: string, data: string): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify([type, canonicalJson(data)]));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
