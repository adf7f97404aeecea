/** The root of every error that Sluice throws. Its `code` never changes, whatever the message says. */
export class JobError extends Error {
  override readonly name: string = "JobError";
  readonly code: string = "SLUICE_JOB";
}

/** An option, argument or weight is invalid. Thrown before anything is changed. */
export class OptionsError extends JobError {
  override readonly name = "OptionsError";
  override readonly code = "SLUICE_OPTIONS";
  /** The option or argument at fault. */
  readonly option: string;
  /** What was received. */
  readonly value: unknown;
  /** What was expected, as in "an integer >= 1". */
  readonly expected: string;

  constructor(owner: string, option: string, value: unknown, expected: string, hint = "") {
    super(`${owner}: expected \`${option}\` to be ${expected}, got ${show(value)}${hint && `; ${hint}`}`);
    this.option = option;
    this.value = value;
    this.expected = expected;
  }
}

/** A call was rejected because `maxQueue` other calls are waiting already. */
export class QueueOverflowError extends JobError {
  override readonly name = "QueueOverflowError";
  override readonly code = "SLUICE_QUEUE_OVERFLOW";
  /** How many calls may wait. */
  readonly maxQueue: number;

  constructor(maxQueue: number) {
    super(`${maxQueue} calls are waiting already (maxQueue: ${maxQueue})`);
    this.maxQueue = maxQueue;
  }
}

/**
 * Thrown by a handler: try again, at `retryDate` or, without one, at the later of the back-off and the limiter's
 * `getNextAvailableTime()`. Spends an attempt.
 */
export class RetryableJobError extends JobError {
  override readonly name = "RetryableJobError";
  override readonly code = "SLUICE_RETRYABLE";
  readonly retryDate: Date | undefined;

  constructor(message: string, retryDate?: Date, options?: ErrorOptions) {
    super(message, options);
    if (retryDate !== undefined && !(retryDate instanceof Date && !Number.isNaN(retryDate.getTime()))) {
      throw new OptionsError("RetryableJobError", "retryDate", retryDate, "a valid Date");
    }
    this.retryDate = retryDate;
  }
}

/**
 * Thrown by a handler: a limit is held for a while, because the service said so. Workers recognise a `RateLimitedError` by this class,
 * and so need not load the code that reads headers.
 */
export abstract class HoldError extends JobError {
  /** The limit to hold; undefined: those that the job ran under. */
  abstract readonly limit: string | undefined;
  /** How long to hold, at the time `wall`; undefined: the service does not say. */
  abstract holdMs(wall: number): number | undefined;
}

/** Thrown by a handler: no further attempt can help. The job is dead at once. */
export class PermanentJobError extends JobError {
  override readonly name: string = "PermanentJobError";
  override readonly code: string = "SLUICE_PERMANENT";
}

/** The job was cancelled. A handler finds it as the reason of its signal. */
export class AbortSignalJobError extends JobError {
  override readonly name = "AbortSignalJobError";
  override readonly code = "SLUICE_ABORTED";
}

/** An attempt took longer than `timeout`, or the job's `deadline` has passed. */
export class JobTimeoutError extends JobError {
  override readonly name = "JobTimeoutError";
  override readonly code = "SLUICE_TIMEOUT";
}

/** There is no such job: it was never added, was removed, or has been kept long enough. */
export class JobNotFoundError extends JobError {
  override readonly name = "JobNotFoundError";
  override readonly code = "SLUICE_JOB_NOT_FOUND";
  readonly id: string;

  constructor(id: string, why = "it was removed, or has been kept long enough") {
    super(`there is no job ${show(id)}: ${why}`);
    this.id = id;
  }
}

/** The worker has lost its lease on the job, which may run elsewhere by now: the write was refused. */
export class StaleLeaseError extends JobError {
  override readonly name = "StaleLeaseError";
  override readonly code = "SLUICE_STALE_LEASE";
  readonly id: string;

  constructor(id: string) {
    super(`the lease on job ${show(id)} is lost; another worker may have it by now`);
    this.id = id;
  }
}

/**
 * A handler may have been called later than its start was granted for: between the clock reading before the call and the one after
 * its synchronous part the process stood still, or the handler blocked for long. The call is counted at the second reading. Only
 * `onError` of a worker is called with this error.
 */
export class LateCallError extends JobError {
  override readonly name = "LateCallError";
  override readonly code = "SLUICE_LATE_CALL";
  readonly id: string;
  readonly lateByMs: number;

  constructor(id: string, lateByMs: number) {
    super(
      `job ${show(id)} may have been called ${Math.ceil(lateByMs)} ms too late for its limits: the process was stopped during ` +
        "the call, or the handler worked for that long before its first await",
    );
    this.id = id;
    this.lateByMs = lateByMs;
  }
}

/** The idempotency key belongs to another job: one with another payload, or any with `onDuplicate: "reject"`. */
export class DuplicateJobError extends JobError {
  override readonly name = "DuplicateJobError";
  override readonly code = "SLUICE_DUPLICATE";
  readonly key: string;
  /** The job that has the key. */
  readonly id: string;

  constructor(key: string, id: string, why: string) {
    super(`the idempotency key ${show(key)} belongs to job ${show(id)}: ${why}`);
    this.key = key;
    this.id = id;
  }
}

/** A limit of this name is stored with other numbers, and the declaration has `onConflict: "reject"`. */
export class LimitConflictError extends JobError {
  override readonly name = "LimitConflictError";
  override readonly code = "SLUICE_LIMIT_CONFLICT";
  readonly limit: string;

  /** `older`: the version of the declaration, and the higher one that is stored; null: neither is higher. */
  constructor(
    limit: string,
    differs: string,
    older: { readonly version: number | null; readonly stored: number | null } | null = null,
  ) {
    super(
      older === null
        ? `the limit "${limit}" was declared differently before (${differs}), and \`onConflict\` is "reject": leave it out ` +
            'to let the newest declaration hold, give a higher `version`, or "keep" to go by what is stored'
        : `the limit "${limit}" is stored with version ${older.stored}, which is newer than this declaration ` +
            `(${older.version === null ? "without a version" : `version ${older.version}`}; ${differs}), and ` +
            '`onConflict` is "reject"',
    );
    this.limit = limit;
  }
}

/** There is no shared limit of this name: it was never declared, or it was removed. */
export class LimitNotFoundError extends JobError {
  override readonly name = "LimitNotFoundError";
  override readonly code = "SLUICE_LIMIT_NOT_FOUND";
  readonly limit: string;

  constructor(limit: string) {
    super(`there is no limit "${limit}": declare it with defineLimits(), or with the \`limits\` of a worker or queue`);
    this.limit = limit;
  }
}

/** The storage could not serve the call: it was busy for too long, closed, or has another version. */
export class StorageError extends JobError {
  override readonly name: string = "StorageError";
  override readonly code: string = "SLUICE_STORAGE";
}

/**
 * The deadline of a call has passed, and it is not known whether the call took effect. Its effect is undone or fenced off as soon as
 * the storage can be reached: jobs that a claim leased are given back without spending an attempt, permits are cancelled, and a call
 * that has not taken effect yet never will.
 */
export class UnknownOutcomeError extends StorageError {
  override readonly name = "UnknownOutcomeError";
  override readonly code = "SLUICE_UNKNOWN_OUTCOME";
}

/** A value and its type for a message, short and without running any code of the value. */
export function show(value: unknown): string {
  const type = typeof value;
  if (value === undefined || value === null) return `${value}`;
  if (type === "object") return Array.isArray(value) ? "an array" : "an object";
  if (type === "function" || type === "symbol") return `a ${type}`;
  let text = Object.is(value, -0) ? "-0" : `${value as string | number | bigint | boolean}`;
  if (typeof value === "string") text = JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (type === "bigint") text += "n";
  return `${text} (${type})`;
}
