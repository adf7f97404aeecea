import { type Clock, systemClock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import { getOrMake } from "../core/get-or-make.ts";
import { JOB_DEFAULTS, type QueueDefaults, readDefaults } from "../core/job-defaults.ts";
import type { JobRecord } from "../core/job.ts";
import type { AnyJobs } from "../core/job-map.ts";
import {
  type Check,
  clock,
  count,
  durationOrZero,
  fn,
  oneOf,
  optional,
  positiveDuration,
  random,
  readOptions,
  required,
  smallCount,
  smallCountOrZero,
} from "../core/options.ts";
import { type Random, systemRandom } from "../core/random.ts";
import type { BackoffStrategy } from "../core/retry.ts";
import { type ILimiter, lacking } from "../limiter/limiter.ts";
import { allPartsOf } from "../limiter/parts.ts";
import { SharedPart } from "../limiter/shared/shared-part.ts";
import { alreadyDeclared, type DefinedLimits, limitsOption, readLimits } from "../limits/define.ts";
import type { LimitDefinitions } from "../limits/definition.ts";
import type { LimitListener } from "../storage/declaring.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { jobStorage, namingStorage, type StorageOrStore } from "../storage/open.ts";
import type { JobReference } from "./error-reporter.ts";

/** A window: at most `max` starts in any `duration`. */
export interface LimiterOptions {
  /** At most so many starts … */
  readonly max: number;
  /** … in any window of this length. */
  readonly duration: Duration;
  /**
   * `"queue"` (the default): shared by all workers of the queue, in every process that uses the storage, exactly.
   * `"worker"`: every worker has a window of its own.
   */
  readonly scope?: "queue" | "worker" | undefined;
  /** Added to the window, for services whose clock or network makes two calls look closer than they were. Default 0. */
  readonly guard?: Duration | undefined;
}

export interface BatchOptions {
  /** The most jobs that one call of the handler gets. */
  readonly size: number;
  /** How long to wait for a batch to fill once there is something to do. Default 0: take what is there. */
  readonly linger?: Duration | undefined;
}

/** Options of a worker, whether its handlers take one job or a batch. */
export interface CommonWorkerOptions {
  /** Where the jobs are. `store` is another word for it. */
  readonly storage: JobStorage;
  /** How many calls of a handler run at the same time. Default 1. */
  readonly concurrency?: number | undefined;
  /** What starts are limited by: `{ max, duration }`, or any limiter. Default: nothing. */
  readonly limiter?: ILimiter | LimiterOptions | undefined;
  /**
   * Shared limits to declare before the first claim: what `defineLimits` returned, or the same as a plain object. All limits of the
   * storage bind the worker, also those that other workers declared. If a limit was declared differently before, the newest
   * declaration holds. With `onConflict: "reject"` the worker does not start then: `start()` rejects with a `LimitConflictError`,
   * and `onError` is called with it.
   */
  readonly limits?: DefinedLimits | LimitDefinitions | undefined;
  /** Is called with the limits that its declaration changed, and those that it left because a newer version declared them. Default: a console line. */
  readonly onLimitChange?: LimitListener | undefined;
  /**
   * How long a job stays this worker's without a heartbeat; the worker sends three heartbeats in that time. The jobs of a killed worker
   * return to `waiting` after this and a sweep. At least 100 ms. Default 30 s.
   */
  readonly lease?: Duration | undefined;
  /**
   * Prefetches short jobs that run under no limit, if the storage supports it: as many as the worker starts in 50 ms, so that they
   * need not wait for a round trip each. Default true; with false a job is claimed only when it can run, and the next one starts
   * only when the end of the one before is written.
   */
  readonly prefetch?: boolean | undefined;
  /** Starts by itself. Default true; with false, call `start()`. */
  readonly autostart?: boolean | undefined;
  /**
   * The `defaults` of the queue. A job that was added without a `timeout`, by SQL or by a process without these defaults, gets the
   * timeout of its type from them. All other defaults are stored with a job when it is added.
   */
  readonly defaults?: QueueDefaults<AnyJobs> | undefined;
  /**
   * The strategies for `backoff: { kind: "custom", name }` of a job. If one is missing here, throws, or returns no number of milliseconds,
   * `onError` is called and the default back-off is used.
   */
  readonly backoffs?: Readonly<Record<string, BackoffStrategy>> | undefined;
  /** How often a job may be sent back by a `RateLimitedError` before that counts as a failed attempt. Default 100. */
  readonly maxHolds?: number | undefined;
  /**
   * Is called with errors that do not come from handlers: the storage cannot be reached, the event loop was blocked. With the job, if
   * the error is about one. `worker.on("error")` gets the same errors. Without either: a line on the console, at most every 10 s.
   */
  readonly onError?: ((error: unknown, job?: JobReference) => void) | undefined;
  /** Where the time comes from. Default: the system's clock. */
  readonly clock?: Clock | undefined;
  /** Where jitter comes from. Default: `Math.random`. */
  readonly random?: Random | undefined;
}

export interface WorkerOptions extends CommonWorkerOptions {
  readonly batch?: undefined;
}

export interface BatchWorkerOptions extends CommonWorkerOptions {
  /** The handler gets up to `size` jobs at once. Each counts against limits, and is settled, on its own. */
  readonly batch: BatchOptions;
}

const OWNER = "Worker";

const WINDOW = {
  max: required(count),
  duration: required(positiveDuration),
  scope: optional(oneOf("queue", "worker"), "queue"),
  guard: optional(durationOrZero, 0),
};

/** The shorthand `{ max, duration }`, checked. */
export interface WindowLimit {
  readonly max: number;
  readonly windowMs: number;
  readonly scope: "queue" | "worker";
}

const limiter: Check<ILimiter | WindowLimit> = {
  expected: "{ max, duration }, or a limiter",
  read: (value) => {
    const missing = lacking(value);
    if (missing === undefined) return value as ILimiter;
    if (typeof value !== "object" || value === null) return undefined;
    const shorthand = Object.hasOwn(value, "max") || Object.hasOwn(value, "duration");
    if (!shorthand && missing !== "canProceed") {
      throw new OptionsError(OWNER, "limiter", value, "a limiter", `it has no method ${missing}()`);
    }
    const { max, duration, scope, guard } = readOptions("Worker limiter", WINDOW, value);
    return { max, windowMs: duration + guard, scope };
  },
};

const batch: Check<{ readonly size: number; readonly linger: number }> = {
  expected: "{ size, linger? }",
  read: (value) => {
    if (typeof value !== "object" || value === null) return undefined;
    return readOptions("Worker batch", { size: required(smallCount), linger: optional(durationOrZero, 0) }, value);
  },
};

const backoffs: Check<ReadonlyMap<string, BackoffStrategy>> = {
  expected: "an object of functions by name",
  read: (value) => {
    if (typeof value !== "object" || value === null) return undefined;
    const entries = Object.entries(value);
    return entries.every(([, strategy]) => fn.read(strategy) !== undefined)
      ? new Map(entries as [string, BackoffStrategy][])
      : undefined;
  },
};

const SHORTEST_LEASE = 100;
const lease: Check<number> = {
  expected: `a duration >= ${SHORTEST_LEASE} ms`,
  read: (value) => {
    const ms = positiveDuration.read(value);
    return ms !== undefined && ms >= SHORTEST_LEASE ? ms : undefined;
  },
};
const boolean: Check<boolean> = {
  expected: "true or false",
  read: (value) => (typeof value === "boolean" ? value : undefined),
};

/** Gives a job that was added without a timeout the one of its type, if there is one. */
type WithTimeout = (job: JobRecord) => JobRecord;

/** The timeouts in the defaults of a queue. A worker needs nothing else of them: all other defaults are stored with a job when it is added. */
const timeouts: Check<WithTimeout> = {
  expected: "an object of options, and of options by type",
  read: (value) => {
    const defaults = readDefaults(OWNER, value);
    const known = new Map<string, number | null>();
    const of = (type: string): number | null =>
      getOrMake(known, type, () => readOptions(OWNER, JOB_DEFAULTS, defaults.of(type)).timeout ?? null);
    return (job) => {
      const timeout = job.timeout === null ? of(job.type) : null;
      return timeout === null ? job : { ...job, timeout };
    };
  },
};

const RULES = {
  storage: required(jobStorage),
  concurrency: optional(smallCount, 1),
  limiter: optional(limiter),
  limits: optional(limitsOption(OWNER)),
  onLimitChange: optional(fn),
  lease: optional(lease, 30_000),
  batch: optional(batch),
  prefetch: optional(boolean, true),
  autostart: optional(boolean, true),
  defaults: optional(timeouts),
  backoffs: optional(backoffs, new Map<string, BackoffStrategy>()),
  maxHolds: optional(smallCountOrZero, 100),
  onError: optional(fn),
  clock: optional(clock, systemClock),
  random: optional(random, systemRandom),
};

export type WorkerSettings = ReturnType<typeof readWorkerOptions>;

export function readWorkerOptions(options: StorageOrStore<WorkerOptions> | StorageOrStore<BatchWorkerOptions>) {
  const read = readOptions(OWNER, RULES, namingStorage(OWNER, options));
  refuseOwnLimit(read.limiter, read.storage);
  return read;
}

/** The limits for a further worker of a process whose first worker has declared them. */
export function declaredLimits(given: CommonWorkerOptions["limits"]): DefinedLimits | undefined {
  return given === undefined ? undefined : alreadyDeclared(readLimits(OWNER, given));
}

/** A shared limit of the worker's own storage already applies to its claims: as a limiter it would count every start twice. */
function refuseOwnLimit(own: ILimiter | WindowLimit | undefined, { limits: kept }: JobStorage): void {
  if (own === undefined || "windowMs" in own) return;
  const part = allPartsOf(own).find((one) => one instanceof SharedPart && one.isOf(kept));
  if (part === undefined) return;
  throw new OptionsError(
    OWNER,
    "limiter",
    own,
    "no shared limit of the worker's own storage",
    `give the limit "${part.name}" the \`queues\` or \`types\` of the worker: then it binds its claims by itself`,
  );
}
