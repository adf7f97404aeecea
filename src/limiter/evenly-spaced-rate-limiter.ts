import { count, durationOrZero, oneOf, optional, positive, readOptions, required } from "../core/options.ts";
import type { Duration } from "../core/duration.ts";
import { evenInterval } from "../limits/spacing.ts";
import { GateLimiter } from "./line-limiter.ts";
import { RateGate } from "./rate-gate.ts";
import { type CommonLimiterOptions, commonRules, type CountOption, countRule } from "./settings.ts";
import { AdaptiveSpacingGate, SpacingGate } from "./spacing-gate.ts";

/** How many in how long: what every rate has. */
export interface RateLimiterOptions {
  /** At most so many executions in any window: an integer >= 1. */
  readonly maxExecutions: number;
  /** The length of the window in seconds; fractions are fine. */
  readonly windowSizeInSeconds: number;
  /** Added to the window, so that calls with different latencies stay apart at the service. Default 0. */
  readonly guard?: Duration | undefined;
}

export interface EvenlySpacedRateLimiterOptions extends RateLimiterOptions, CommonLimiterOptions, CountOption {
  /**
   * `"strict"` (the default): starts are an ideal interval apart (window / maxExecutions), so a worker that does one
   * thing after the other waits for the interval less what the work took. `"adaptive"`: a start may follow after the
   * interval less the *average* duration, which lets parallel work burst; never more than `maxExecutions` in a window.
   */
  readonly spacing?: "strict" | "adaptive" | undefined;
}

const OWNER = "EvenlySpacedRateLimiter";

const RULES = {
  ...commonRules(OWNER),
  count: countRule,
  maxExecutions: required(count),
  windowSizeInSeconds: required(positive),
  guard: optional(durationOrZero, 0),
  spacing: optional(oneOf("strict", "adaptive"), "strict"),
};

/** A steady rate, in this process: the starts are spread over the window, not bunched at its beginning. */
export class EvenlySpacedRateLimiter extends GateLimiter {
  constructor(options: EvenlySpacedRateLimiterOptions) {
    const { maxExecutions, windowSizeInSeconds, guard, spacing, ...common } = readOptions(OWNER, RULES, options);
    const windowMs = windowSizeInSeconds * 1000 + guard;
    const interval = evenInterval(maxExecutions, windowMs);
    super(
      [
        new RateGate(maxExecutions, { ...common, windowMs }),
        spacing === "strict"
          ? new SpacingGate(interval, common)
          : new AdaptiveSpacingGate(interval, maxExecutions, common),
      ],
      EvenlySpacedRateLimiter,
    );
  }
}
