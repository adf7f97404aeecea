import { type Clock, systemClock } from "../core/clock.ts";
import { clock, name, oneOf, optional } from "../core/options.ts";

/** Options that every built-in limiter has. */
export interface CommonLimiterOptions {
  /** How it is called in a refusal (`blockedBy`). Default: the name of its class. */
  readonly name?: string | undefined;
  /** Where the time comes from. Default: the system's monotonic clock. */
  readonly clock?: Clock | undefined;
}

/** Whether weights matter to a limiter. */
export interface CountOption {
  /**
   * `"weight"` (the default): a start counts for the weight it asks for. `"starts"`: for one, whatever its weight; so a
   * limit on requests can stand beside one on tokens in the same composite.
   */
  readonly count?: "weight" | "starts" | undefined;
}

export const commonRules = (fallback: string) => ({
  name: optional(name, fallback),
  clock: optional(clock, systemClock),
});

export const countRule = optional(oneOf("weight", "starts"), "weight");

/** The hint of limiters that have this option. */
export const COUNT_HINT = 'a limiter that is to count calls and not their weight takes `count: "starts"`';
