import type { Random } from "./random.ts";

/** How a delay grows: from `initial`, times `multiplier` each time, up to `max`. All in milliseconds, all checked before. */
export interface BackoffRule {
  readonly initial: number;
  readonly multiplier: number;
  readonly max: number;
}

/** The delay that follows `previous` (undefined: there was none yet). */
export function nextDelay(rule: BackoffRule, previous: number | undefined): number {
  return previous === undefined ? rule.initial : Math.min(previous * rule.multiplier, rule.max);
}

/** The delay plus up to as much again, so that calls that were refused together are not retried together. */
export function withJitter(delay: number, random: Random): number {
  return delay + random() * delay;
}
