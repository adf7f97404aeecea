import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import type { JobKeys } from "../core/job.ts";
import { given, JOB_DEFAULTS, type JobDefaults } from "../core/job-defaults.ts";
import { jobKeys, someKeys } from "../core/job-keys.ts";
import { keyText, nameText } from "../core/names.ts";
import {
  type Check,
  date,
  durationOrZero,
  optional,
  type OptionsRead,
  positiveDuration,
  readOptions,
} from "../core/options.ts";
import type { Idempotency, NewJob, When } from "../storage/job-storage.ts";

/** Options of one job. */
export interface JobOptions extends JobDefaults {
  /** The job starts no sooner than so long from now. */
  readonly delay?: Duration | undefined;
  /** The job starts no sooner than this instant. */
  readonly runAt?: Date | undefined;
  /** Groups of a priority take turns; within a group jobs start in order. */
  readonly group?: string | undefined;
  /**
   * Values that limits count the job by, each under a name: `{ tenant: "acme", model: "large" }`, for a limit `by: "tenant"`, `by: "model"`
   * or `by: ["tenant", "model"]`. At most 16; `"group"` is no name of a key. Keys that no limit is by have no effect.
   */
  readonly keys?: JobKeys | undefined;
  /** The job is dead after this, if it has not ended: so long from now, or an instant. */
  readonly deadline?: Duration | Date | undefined;
  /** Only one job for this key in the queue, for as long as the key is kept. */
  readonly idempotencyKey?: string | undefined;
}

/** How jobs are added. */
export interface BulkOptions {
  /**
   * A transaction of yours, open on the database of the storage: the jobs are added when it commits, and not if it rolls back. Until
   * then they are not visible, and their results cannot be awaited. With `PostgresStorage`: a client of `pg` or `postgres`, or the
   * transaction of Drizzle, Kysely or Prisma.
   */
  readonly tx?: object | undefined;
}

export interface AddOptions extends JobOptions, BulkOptions {}

const transaction: Check<object> = {
  expected: "an open transaction, such as a client of pg after BEGIN",
  read: (value) => ((typeof value === "object" && value !== null) || typeof value === "function" ? value : undefined),
};

export const deadline: Check<When> = {
  expected: "a duration > 0 or a valid Date",
  read: (value) => {
    const at = date.read(value);
    if (at !== undefined) return { at: at.getTime() };
    const inMs = positiveDuration.read(value);
    return inMs === undefined ? undefined : { inMs };
  },
};

const OPTIONS = {
  ...JOB_DEFAULTS,
  delay: optional(durationOrZero),
  runAt: optional(date),
  group: optional(nameText),
  keys: optional(jobKeys),
  deadline: optional(deadline),
  idempotencyKey: optional(keyText),
  // `partTransaction` takes it out of the options where it may be given.
  tx: optional({ expected: "given for all jobs together: addBulk(jobs, { tx })", read: () => undefined }, undefined),
};
const BULK = { tx: optional(transaction) };

/** The checked options of one job, with the defaults of the queue and the built-in ones. */
export type ReadAddOptions = Omit<NewJob, "id" | "queue" | "type" | "data" | "idempotency"> & {
  readonly idempotency: Omit<Idempotency, "fingerprint"> | null;
};

/** Separates the options of the job from the transaction to add it in. */
export function partTransaction(owner: string, options: AddOptions): [job: JobOptions, tx: object | undefined] {
  // A value that is no options object is refused later.
  if (typeof options !== "object" || options === null || !Object.hasOwn(options, "tx")) return [options, undefined];
  const { tx, ...job } = options;
  return [job, readTransaction(owner, { tx })];
}

/** The transaction to add in, if there is one. */
export function readTransaction(owner: string, options: BulkOptions): object | undefined {
  return readOptions(owner, BULK, options).tx;
}

export function readAddOptions(owner: string, defaults: JobDefaults, options: JobOptions): ReadAddOptions {
  const read = readOptions(owner, OPTIONS, withDefaults(defaults, options));
  if (read.delay !== undefined && read.runAt !== undefined) {
    throw new OptionsError(owner, "runAt", read.runAt, "left out where there is a `delay`");
  }
  return {
    due: read.runAt === undefined ? { inMs: read.delay ?? 0 } : { at: read.runAt.getTime() },
    priority: read.priority,
    group: read.group ?? null,
    keys: someKeys(read.keys),
    weights: read.weights ?? null,
    maxAttempts: read.maxAttempts,
    backoff: read.backoff,
    timeout: read.timeout ?? null,
    deadline: read.deadline ?? null,
    keepFor: read.keepFor ?? null,
    idempotency: idempotencyOf(read),
  };
}

function withDefaults(defaults: JobDefaults, options: JobOptions): JobOptions {
  // A value that is no plain object is refused later.
  if (typeof options !== "object" || options === null || Symbol.iterator in options) return options;
  return { ...defaults, ...given(options) };
}

function idempotencyOf(read: OptionsRead<typeof OPTIONS>): Omit<Idempotency, "fingerprint"> | null {
  if (read.idempotencyKey === undefined) return null;
  return { key: read.idempotencyKey, ttlMs: read.idempotencyTtl, onDuplicate: read.onDuplicate };
}
