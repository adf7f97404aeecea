import { hasMethods, missingMethod } from "../core/options.ts";

/** May one more job start now? The interface that every limiter has, and the only one that a limiter of your own needs. */
export interface ILimiter {
  /** May a job start right now? Others may come in between this answer and `recordJobStart()`: see `Limiter.tryAcquire`. */
  canProceed(): Promise<boolean>;
  /** A job starts, whether or not it fits. */
  recordJobStart(): Promise<void>;
  /** A job that started has ended, well or badly. */
  recordJobCompletion(): Promise<void>;
  /** The earliest instant at which the next job could start. */
  getNextAvailableTime(): Promise<Date>;
  /** Nothing may start before `date` (a 429 with Retry-After said so). It only ever moves later. */
  setNextAvailableTime(date: Date): Promise<void>;
  /** Resets the limiter. */
  clear(): Promise<void>;
}

/** What every built-in limiter also offers: check and charge in one step, so that no other start comes in between. */
export interface Limiter extends ILimiter {
  /** Charges if the weight is available and no caller waits before it; else charges nothing and returns the blocker and the wait. */
  tryAcquire(options?: TryAcquireOptions): Promise<Permit | Refusal>;
  /**
   * Waits in line until the weight is available, then charges. First come, first served; a heavy waiter keeps its place.
   * Rejects with the signal's reason when aborted, and with an `OptionsError` when the weight can never fit.
   */
  acquire(options?: AcquireOptions): Promise<Permit>;
}

export interface TryAcquireOptions {
  /** How much this start counts for: an integer >= 1 (default 1). */
  readonly weight?: number | undefined;
}

export interface AcquireOptions extends TryAcquireOptions {
  /** Ends the waiting. An aborted waiter leaves no trace. */
  readonly signal?: AbortSignal | undefined;
}

/** The right to start once. Whatever is called on it, in whatever order and however often, nothing is returned twice. */
export interface Permit extends AsyncDisposable {
  readonly granted: true;
  /** The work ended. Releases its slots; a start that happened stays counted. */
  release(): Promise<void>;
  /** The work never started: takes the whole charge back. */
  cancel(): Promise<void>;
  /** What the work really used, from 0 up: the difference counts at once. Also after `release()`; the latest call holds. */
  settle(weight: number): Promise<void>;
}

export interface Refusal {
  readonly granted: false;
  /** The name of the limiter with the longest wait. */
  readonly blockedBy: string;
  /** Milliseconds until it would be granted if nothing else starts before; null: when something is released. */
  readonly retryInMs: number | null;
  /** This weight can never fit. */
  readonly never: boolean;
}

const SIX = [
  "canProceed",
  "recordJobStart",
  "recordJobCompletion",
  "getNextAvailableTime",
  "setNextAvailableTime",
  "clear",
] as const;

/** The first of the six methods that `value` lacks; undefined: it is a limiter. */
export function lacking(value: unknown): string | undefined {
  return missingMethod(value, SIX);
}

/** The methods of the six by which a start is decided and counted. */
export const DECIDING = ["canProceed", "recordJobStart", "recordJobCompletion"] as const;

/** Does it also check and charge in one step? */
export function isLimiter(limiter: ILimiter): limiter is Limiter {
  return hasMethods(limiter, ["tryAcquire", "acquire"]);
}
