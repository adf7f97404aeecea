import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import type { BackoffPlan } from "../core/job.ts";
import {
  type Check,
  count,
  date,
  durationOrZero,
  isPlain,
  name,
  oneOf,
  optional,
  type OptionsRead,
  positiveDuration,
  readOptions,
  required,
  weight,
} from "../core/options.ts";
import { keyText, nameText } from "../core/names.ts";
import { DEFAULT_BACKOFF } from "../core/retry.ts";
import type { Idempotency, NewJob, When } from "../storage/job-storage.ts";

/** How the delay before the next attempt is found. */
export type BackoffOption =
  /** Doubles from `initial` (default 1 s) up to `max` (default 10 minutes), with full jitter: the default. */
  | { readonly kind: "exponential"; readonly initial?: Duration; readonly max?: Duration }
  /** Always the same. */
  | { readonly kind: "fixed"; readonly delay: Duration }
  /** A strategy of your own, given to the workers under this name (`backoffs`). */
  | { readonly kind: "custom"; readonly name: string };

/** Options that a queue can set for all of its jobs. */
export interface JobDefaults {
  /** Higher runs first; an integer, default 0. */
  readonly priority?: number | undefined;
  /** How many attempts a job has, the first included. Default 5. */
  readonly maxAttempts?: number | undefined;
  /** How long to wait after a failed attempt. Default: exponential from 1 s, at most 10 minutes, full jitter. */
  readonly backoff?: BackoffOption | undefined;
  /** How long one attempt may take; then its signal is aborted. Default: as long as it likes. */
  readonly timeout?: Duration | undefined;
  /** How long the job is kept once it has ended; 0: not at all. Default: a day, and 30 days if dead. */
  readonly keepFor?: Duration | undefined;
  /** How long an idempotency key is kept, whatever becomes of the job. Default one day. */
  readonly idempotencyTtl?: Duration | undefined;
  /**
   * What to do when the idempotency key is taken. `"return"` (the default): answer with the earlier job if its payload is
   * the same, else fail. `"reject"`: fail. `"replace"`: take its place, unless it is running.
   */
  readonly onDuplicate?: "return" | "replace" | "reject" | undefined;
}

/** Options of one job. */
export interface JobOptions extends JobDefaults {
  /** Not before so long from now. */
  readonly delay?: Duration | undefined;
  /** Not before this instant. */
  readonly runAt?: Date | undefined;
  /** Groups of a priority take turns; within a group jobs start in order. */
  readonly group?: string | undefined;
  /** What the job weighs under limits that count something else than starts: `{ tokens: 1200 }`. */
  readonly weights?: Readonly<Record<string, number>> | undefined;
  /** Not to be started, nor to run, after this: so long from now, or an instant. Then it is dead. */
  readonly deadline?: Duration | Date | undefined;
  /** Only one job for this key in the queue, for as long as the key is kept. */
  readonly idempotencyKey?: string | undefined;
}

/** How jobs are added. */
export interface BulkOptions {
  /**
   * A transaction of yours, open on the database of the storage: the jobs are added when it commits, and not if it does not.
   * Until then nobody sees them, nor can wait for their results. With `PostgresStorage`: a client of `pg` or `postgres`, or the
   * transaction of Drizzle, Kysely or Prisma.
   */
  readonly tx?: object | undefined;
}

export interface AddOptions extends JobOptions, BulkOptions {}

const transaction: Check<object> = {
  expected: "an open transaction, such as a client of pg after BEGIN",
  read: (value) => ((typeof value === "object" && value !== null) || typeof value === "function" ? value : undefined),
};

const HIGHEST = 2 ** 31 - 1;

const priority: Check<number> = {
  expected: `an integer from ${-HIGHEST} to ${HIGHEST}`,
  read: (value) =>
    typeof value === "number" && Number.isInteger(value) && Math.abs(value) <= HIGHEST && !Object.is(value, -0)
      ? value
      : undefined,
};

const weights: Check<Readonly<Record<string, number>>> = {
  expected: "a plain object of names and integer weights >= 1, such as { tokens: 1200 }",
  read: (value) => {
    if (!isPlain(value)) return undefined;
    const entries = Object.entries(value);
    const right = entries.every(([key, n]) => nameText.read(key) !== undefined && weight.read(n) !== undefined);
    return right && entries.length <= 32 ? Object.fromEntries(entries as [string, number][]) : undefined;
  },
};

const deadline: Check<When> = {
  expected: "a duration > 0 or a valid Date",
  read: (value) => {
    const at = date.read(value);
    if (at !== undefined) return { at: at.getTime() };
    const inMs = positiveDuration.read(value);
    return inMs === undefined ? undefined : { inMs };
  },
};

const BACKOFFS = {
  exponential: {
    kind: required(oneOf("exponential")),
    initial: optional(positiveDuration, 1_000),
    max: optional(positiveDuration, 600_000),
  },
  fixed: { kind: required(oneOf("fixed")), delay: required(durationOrZero) },
  custom: { kind: required(oneOf("custom")), name: required(name) },
} as const;

const backoff: Check<BackoffPlan> = {
  expected: 'an object with `kind: "exponential"`, `"fixed"` or `"custom"`',
  read: (value) => {
    if (typeof value !== "object" || value === null || !("kind" in value)) return undefined;
    const { kind } = value;
    if (kind !== "exponential" && kind !== "fixed" && kind !== "custom") return undefined;
    const plan = readOptions("backoff", BACKOFFS[kind], value) as BackoffPlan;
    if (plan.kind === "exponential" && plan.max < plan.initial) {
      throw new OptionsError("backoff", "max", plan.max, `at least initial (${plan.initial})`);
    }
    return plan;
  },
};

const ONE_DAY = 86_400_000;

const DEFAULTS = {
  priority: optional(priority, 0),
  maxAttempts: optional(count, 5),
  backoff: optional(backoff, DEFAULT_BACKOFF),
  timeout: optional(positiveDuration, undefined),
  keepFor: optional(durationOrZero, undefined),
  idempotencyTtl: optional(positiveDuration, ONE_DAY),
  onDuplicate: optional(oneOf("return", "replace", "reject"), "return"),
};

const OPTIONS = {
  ...DEFAULTS,
  delay: optional(durationOrZero, undefined),
  runAt: optional(date, undefined),
  group: optional(nameText, undefined),
  weights: optional(weights, undefined),
  deadline: optional(deadline, undefined),
  idempotencyKey: optional(keyText, undefined),
  // Parted from the others where it may be given.
  tx: optional({ expected: "given for all jobs together: addBulk(jobs, { tx })", read: () => undefined }, undefined),
};
const BULK = { tx: optional(transaction, undefined) };

/** Checks what a queue sets for all of its jobs. */
export function readDefaults(owner: string, defaults: JobDefaults): JobDefaults {
  readOptions(`${owner} defaults`, DEFAULTS, defaults);
  return defaults;
}

/** What the options of one job come to; what is left out is as the queue says, or as we say. */
export type ReadAddOptions = Omit<NewJob, "id" | "queue" | "type" | "data" | "idempotency"> & {
  readonly idempotency: Omit<Idempotency, "fingerprint"> | null;
};

/** Parts what is said of the job from the transaction to add it in. */
export function partTransaction(owner: string, options: AddOptions): [job: JobOptions, tx: object | undefined] {
  // What is no object of options is left to be refused.
  if (typeof options !== "object" || options === null || !("tx" in options)) return [options, undefined];
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
  // What is no plain object is left to be refused.
  if (typeof options !== "object" || options === null || Symbol.iterator in options) return options;
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(given) };
}

function idempotencyOf(read: OptionsRead<typeof OPTIONS>): Omit<Idempotency, "fingerprint"> | null {
  if (read.idempotencyKey === undefined) return null;
  return { key: read.idempotencyKey, ttlMs: read.idempotencyTtl, onDuplicate: read.onDuplicate };
}
