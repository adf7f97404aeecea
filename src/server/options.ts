import { systemClock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import type { JobState } from "../core/job.ts";
import {
  anything,
  type Check,
  clock,
  durationOrZero,
  fn,
  optional,
  positiveDuration,
  readOptions,
  required,
  workerCount,
} from "../core/options.ts";
import { nameText } from "../core/names.ts";
import { jobStorage, namingStorage, type StorageOrStore } from "../storage/open.ts";
import type { WorkerOptions } from "../worker/options.ts";
import type { Retention } from "./cleaner.ts";

/** The options of the workers, and those of the server itself. */
export interface JobQueueServerOptions extends Omit<WorkerOptions, "autostart" | "batch" | "concurrency"> {
  readonly queueName: string;
  /** How many workers there are: loops that claim and run jobs, each up to `concurrency` at a time. Default 1. */
  readonly workerCount?: number | undefined;
  /**
   * How many jobs each worker runs at a time. Default: without a `limiter`, or with a `NullLimiter` or `{ max, duration }`, one;
   * so `workerCount` is how many jobs run. With any other limiter as many as it lets start, whatever `workerCount` is:
   * `ConcurrencyLimiter(10)` runs ten. A limiter that limits rates alone, or is your own, lets up to 100 run for each worker.
   */
  readonly concurrency?: number | undefined;
  /** How long after their end completed jobs of the queue are removed; 0: at the next clean-up. Default: see `keepFor`. */
  readonly deleteAfterCompletionMs?: Duration | undefined;
  /** The same for dead jobs. */
  readonly deleteAfterFailureMs?: Duration | undefined;
  /** The same for cancelled jobs. */
  readonly deleteAfterDisabledMs?: Duration | undefined;
  /** How often to look for jobs to remove. Default 10 s. */
  readonly cleanupIntervalMs?: Duration | undefined;
}

const OWNER = "JobQueueServer";

/** Checked by the worker that it is passed on to. */
const passedOn = optional(anything);

const never: Check<undefined> = {
  expected: "left out (workers do not poll: they are woken, and know when to look again)",
  read: () => undefined,
};

const RULES = {
  storage: required(jobStorage),
  queueName: required(nameText),
  workerCount: optional(workerCount, 1),
  concurrency: passedOn,
  limiter: passedOn,
  limits: passedOn,
  onLimitChange: passedOn,
  lease: passedOn,
  defaults: passedOn,
  backoffs: passedOn,
  maxHolds: passedOn,
  onError: optional(fn),
  random: passedOn,
  clock: optional(clock, systemClock),
  deleteAfterCompletionMs: optional(durationOrZero),
  deleteAfterFailureMs: optional(durationOrZero),
  deleteAfterDisabledMs: optional(durationOrZero),
  cleanupIntervalMs: optional(positiveDuration, 10_000),
  pollIntervalMs: optional(never),
};

export type ServerSettings = ReturnType<typeof readServerOptions>;

export function readServerOptions(options: StorageOrStore<JobQueueServerOptions>) {
  const {
    storage,
    queueName,
    workerCount: count,
    deleteAfterCompletionMs,
    deleteAfterFailureMs,
    deleteAfterDisabledMs,
    cleanupIntervalMs,
    pollIntervalMs: _,
    ...worker
  } = readOptions(OWNER, RULES, namingStorage(OWNER, options));
  const ages: readonly (readonly [JobState, number | undefined])[] = [
    ["completed", deleteAfterCompletionMs],
    ["dead", deleteAfterFailureMs],
    ["cancelled", deleteAfterDisabledMs],
  ];
  return {
    storage,
    queueName,
    workerCount: count,
    clock: worker.clock,
    cleanupIntervalMs,
    worker: worker as unknown as Omit<WorkerOptions, "storage">,
    retentions: ages.flatMap(([state, afterMs]): Retention[] => (afterMs === undefined ? [] : [{ state, afterMs }])),
  };
}
