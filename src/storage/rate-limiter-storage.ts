import type { Clock } from "../core/clock.ts";
import type { RateState } from "../limits/rate-state.ts";

/** The window that `tryRecordExecution` decides by. It belongs to the caller; the starts belong to the name. */
export interface ExecutionWindow {
  /** At most so much weight in any `windowMs`. */
  readonly maxExecutions: number;
  readonly windowMs: number;
  /**
   * How much this start counts for (default 1). 0 records nothing and asks when what is recorded fits into
   * `maxExecutions`, which may then be 0 as well.
   */
  readonly weight?: number;
  /**
   * The start is made within so many milliseconds of asking, or cancelled, and confirmed with `confirmExecution`: until then it
   * counts as if it were made at the last moment. Left out: it counts from the grant.
   */
  readonly grantTtl?: number;
}

/** A start that was made. */
export interface ExecutionCall {
  readonly token: string;
  /** From asking for it to making it, in milliseconds: never less than that. */
  readonly calledInMs: number;
}

export interface ExecutionVerdict {
  readonly granted: boolean;
  /** 0 when granted, else the exact time until this weight fits, if nobody takes anything before. */
  readonly retryInMs: number;
  /** Names this start for `cancelExecution`, `settleExecution` and `confirmExecution`. */
  readonly token?: string;
}

/**
 * Where a `RateLimiter` keeps the starts it counts. Instants are ISO 8601 strings.
 *
 * The first seven methods are enough, and are then exact for one caller at a time, without weights. Three optional
 * ones come together and make it exact for any number of callers: check and take in one step that nothing can come
 * between, and a way to take back. With `confirmExecution` beside them windows are exact by the instants of the calls, and
 * not only by those of the grants.
 */
export interface IRateLimiterStorage {
  /** Creates what the storage needs. Safe to call any number of times. */
  setupDatabase(): Promise<void>;
  /** Writes a start, whether or not there is room. */
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
  /** As if the start had never been. A token that is unknown or expired changes nothing. */
  cancelExecution?(queueName: string, token: string): Promise<void>;
  /** What the start really used: less gives room back at once, more is charged at once. */
  settleExecution?(queueName: string, token: string, weight: number): Promise<void>;
  /** When starts were made that were asked for with `grantTtl`. They count from then. Others are left as they are. */
  confirmExecution?(queueName: string, calls: readonly ExecutionCall[]): Promise<void>;
}

/** A storage in this process opens its books, so that limiters over it can decide without a detour through promises. */
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

/** And one that can be told when starts were called, as ours can. */
export type ConfirmingRateLimiterStorage = Required<IRateLimiterStorage>;

export function isAtomic(storage: IRateLimiterStorage): storage is AtomicRateLimiterStorage {
  return storage.tryRecordExecution !== undefined;
}
