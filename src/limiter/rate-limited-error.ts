import { HoldError, OptionsError } from "../core/errors.ts";
import { anything, date, durationOrZero, name, optional, readOptions } from "../core/options.ts";
import { type HeaderSource, isHeaderSource, LONGEST_HOLD_MS, readHeaders } from "./headers.ts";

export interface RateLimitedErrorOptions extends ErrorOptions {
  /**
   * The limit that is exceeded; of a limit by group, for the group of the job. Default: the limiter of the worker, and every
   * shared limit that the job ran under, except those by group. A name that is not declared holds the `RateLimiter` of
   * that name over `storage.rates`, if there is one.
   */
  readonly limit?: string | undefined;
}

/**
 * Thrown by a handler: the service refused for its limit. Nothing more starts under the limit until then, in
 * any process, and the job returns to waiting without spending an attempt.
 */
export class RateLimitedError extends HoldError {
  override readonly name = "RateLimitedError";
  override readonly code = "SLUICE_RATE_LIMITED";
  /** Until when, for how many milliseconds, or the response that says so. */
  readonly retry: Date | number | HeaderSource;
  readonly limit: string | undefined;

  constructor(retry: Date | number | HeaderSource, options: RateLimitedErrorOptions = {}) {
    const { limit } = readOptions(
      "RateLimitedError",
      {
        limit: optional(name),
        cause: optional(anything),
      },
      options,
    );
    super(limit === undefined ? "the service is over its limit" : `the limit "${limit}" is over`, options);
    if (date.read(retry) === undefined && !isMilliseconds(retry) && !isHeaderSource(retry)) {
      throw new OptionsError("RateLimitedError", "retry", retry, "a Date, milliseconds, a Response or Headers");
    }
    this.retry = retry;
    this.limit = limit;
  }

  /** How long to hold, at the time `wall`; undefined: the response does not say. */
  holdMs(wall: number): number | undefined {
    if (this.retry instanceof Date) return Math.max(0, this.retry.getTime() - wall);
    if (typeof this.retry === "number") return this.retry;
    const { holdMs } = readHeaders(this.retry, wall);
    return holdMs > 0 ? Math.min(holdMs, LONGEST_HOLD_MS) : undefined;
  }
}

function isMilliseconds(value: unknown): boolean {
  return typeof value === "number" && durationOrZero.read(value) !== undefined;
}
