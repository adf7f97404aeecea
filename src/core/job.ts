/**
 * The states of a job.
 *
 * - `scheduled`: due later. `waiting`: due now. `active`: leased by a worker.
 * - `completed`, `dead` (failed for good), `cancelled`: ended.
 * - `awaiting`: waits for other jobs of its flow.
 */
export type JobState = "waiting" | "scheduled" | "active" | "completed" | "dead" | "cancelled" | "awaiting";

export const JOB_STATES: readonly JobState[] = [
  "waiting",
  "scheduled",
  "active",
  "completed",
  "dead",
  "cancelled",
  "awaiting",
];

/** States that a job does not leave by itself. */
export const ENDED: readonly JobState[] = ["completed", "dead", "cancelled"];

/** How many jobs are in each state. */
export type JobCounts = Readonly<Record<JobState, number>>;

/** None in any state. */
export const noJobs = (): Record<JobState, number> => ({
  waiting: 0,
  scheduled: 0,
  active: 0,
  completed: 0,
  dead: 0,
  cancelled: 0,
  awaiting: 0,
});

/** How the delay before the next attempt is found. Delays in milliseconds, all checked when the job is added. */
export type BackoffPlan =
  | { readonly kind: "exponential"; readonly initial: number; readonly max: number }
  | { readonly kind: "fixed"; readonly delay: number }
  /** A strategy that the worker was given under this name. */
  | { readonly kind: "custom"; readonly name: string };

/** What is kept of an error: short, and without the secrets that connection strings carry. */
export interface ErrorRecord {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
}

/** How far a job has come, as its handler reported it. */
export interface JobProgress {
  /** From 0 to 100. */
  readonly percent: number;
  readonly message?: string;
  /** Anything that JSON can hold. */
  readonly details?: unknown;
}

/** A value that a handler gave could not be kept as it was. It does not fail the job: the log and an event say what was kept. */
export interface JobWarning {
  readonly about: "result" | "progress" | "log" | "weights";
  readonly message: string;
}

/** One failed attempt. */
export interface AttemptRecord {
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly worker: string;
  readonly error: ErrorRecord;
}

export interface LogLine {
  readonly at: number;
  readonly attempt: number;
  readonly text: string;
}

/** Values by which limits count a job, each under a name: `{ tenant: "acme", model: "large" }`. */
export type JobKeys = Readonly<Record<string, string>>;

/**
 * All that a storage knows about a job. Instants are wall time, in milliseconds since 1970, to be shown: decisions use only differences
 * between instants of one answer.
 */
export interface JobRecord {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  /** JSON text. It is checked when it is written, and may still be invalid when it is read, if it was written by SQL. */
  readonly data: string;
  readonly state: JobState;
  /** Higher runs first. */
  readonly priority: number;
  readonly group: string | null;
  /** What limits count it by besides its group, by name; undefined, never `{}`: it has none. */
  readonly keys?: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | null;
  /** How many attempts have begun and count. A job that was given back has not spent one. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly backoff: BackoffPlan;
  /** How long one attempt may take. */
  readonly timeout: number | null;
  /** The job does not start, nor run, after this. */
  readonly deadline: number | null;
  /** How long it is kept once it has ended; null: a day, and 30 days if dead. */
  readonly keepFor: number | null;
  /** How often the job was given back because a service was over its limit. */
  readonly holds: number;
  readonly createdAt: number;
  /**
   * When it may start. Jobs of one lane start in this order. During a back-off it is the end of the back-off; afterwards it is the
   * earlier instant again, so that the job takes its old place.
   */
  readonly dueAt: number;
  /** When the latest attempt started: the instant that windows count. */
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly worker: string | null;
  readonly leaseUntil: number | null;
  /** The fencing token of the latest lease; grows with every claim in the storage. 0: never claimed. */
  readonly token: number;
  readonly cancelRequested: boolean;
  readonly progress: JobProgress | null;
  /** JSON text; null: none. */
  readonly result: string | null;
  /** The error of the latest failed attempt. */
  readonly error: ErrorRecord | null;
  readonly idempotencyKey: string | null;
}
