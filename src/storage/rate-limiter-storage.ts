import type { Clock } from "../core/clock.ts";
import type { RateState } from "../limits/rate-state.ts";

/** The window that `tryRecordExecution` decides by. It belongs to the caller; the starts belong to the name. */
export interface ExecutionWindow {
  /** At most so much weight in any `windowMs`. */
  readonly maxExecutions: number;
  readonly windowMs: number;
  /**
   * The weight of this start (default 1). 0 records nothing and asks when the recorded starts fit into `maxExecutions`, which may then
   * be 0 as well.
   */
  readonly weight?: number;
  /**
   * The start is made within so many milliseconds of asking, or cancelled, and confirmed with `confirmExecution`: until then it
   * counts at the end of that time. Left out: it counts from the grant.
   */
  readonly grantTtl?: number;
}

/** A start that was made. */
export interface ExecutionCall {
  readonly token: string;
  /** The time from asking to the call, in milliseconds: never less than that. */
  readonly calledInMs: number;
}

export interface ExecutionVerdict {
  readonly granted: boolean;
  /** 0 when granted, else the exact time until this weight fits, if nothing else starts before. */
  readonly retryInMs: number;
  /** Names this start for `cancelExecution`, `settleExecution` and `confirmExecution`. */
  readonly token?: string;
}

/**
 * Where a `RateLimiter` keeps the starts it counts. Instants are ISO 8601 strings.
 *
 * The first seven methods are enough, and are then exact for one caller at a time, without weights. Three optional
 * ones come together and make it exact for any number of callers: check and take in one atomic step, and a way to undo it. With
 * `confirmExecution` beside them windows are exact by the instants of the calls, and not only by those of the grants.
 */
export interface IRateLimiterStorage {
  /** Creates what the storage needs. Safe to call any number of times. */
  setupDatabase(): Promise<void>;
  /** Writes a start, whether or not it fits. */
  recordExecution(queueName: string): Promise<void>;
  /** How many starts lie after `windowStartTime`. */
  getExecutionCount(queueName: string, windowStartTime: string): Promise<number>;
  /** The start at `offset` among those that are kept, oldest first (0 is the oldest). */
  getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined>;
  /** The instant set from outside before which nothing may start, if there is one. */
  getNextAvailableTime(queueName: string): Promise<string | undefined>;
  /** Sets that instant. It only ever moves later. */
  setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void>;
  /** Forgets everything under this name. */
  clear(queueName: string): Promise<void>;

  /** Records a start if it fits into the window and the instant set from outside has come; else changes nothing. */
  tryRecordExecution?(queueName: string, window: ExecutionWindow): Promise<ExecutionVerdict>;
  /** Removes the start. A token that is unknown or expired changes nothing. */
  cancelExecution?(queueName: string, token: string): Promise<void>;
  /** Sets the weight that the start really used: the difference is given back or charged at once. */
  settleExecution?(queueName: string, token: string, weight: number): Promise<void>;
  /** Records when starts with `grantTtl` were made. They count from then. Other starts are not changed. */
  confirmExecution?(queueName: string, calls: readonly ExecutionCall[]): Promise<void>;
}

/** A storage in this process gives limiters direct access to its state, so that they decide without promises. */
export interface LocalRateLimiterStorage extends IRateLimiterStorage {
  readonly [LOCAL]: {
    /** The clock that the starts are stamped by. */
    readonly clock: Clock;
    state(queueName: string): RateState;
  };
}

export const LOCAL: unique symbol = Symbol("local");

export function isLocal(storage: IRateLimiterStorage): storage is LocalRateLimiterStorage {
  return LOCAL in storage;
}

type Atomic = "tryRecordExecution" | "cancelExecution" | "settleExecution";

/** A storage that checks and takes in one step. */
export type AtomicRateLimiterStorage = IRateLimiterStorage & Required<Pick<IRateLimiterStorage, Atomic>>;

/** A storage that also records when starts were called, as the built-in ones do. */
export type ConfirmingRateLimiterStorage = Required<IRateLimiterStorage>;

export function isAtomic(storage: IRateLimiterStorage): storage is AtomicRateLimiterStorage {
  return storage.tryRecordExecution !== undefined;
}
