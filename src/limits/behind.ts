import type { KeyDecision } from "./key-state.ts";
import type { Charge, LimitRule, Quota } from "./rule.ts";
import { quotaOf } from "./rule.ts";
import { NEVER, type Wait } from "./wait.ts";

/** Jobs that start before another one. */
export interface Before {
  /** Jobs of its own lane. */
  readonly lane: number;
  /**
   * Jobs of its own type, which every claim for that type also asks for: its lane, higher priorities, and other groups by turns, except
   * groups in which jobs of other types wait too, because those may start first.
   */
  readonly type: number;
}

/** Jobs that start before another one are counted up to here. */
export const MOST_COUNTED = 10_000;

/**
 * How many jobs certainly start under a limit before this one. Where a limit is by group, or weighs, only its own lane is certain: that
 * limit may keep the others waiting.
 */
export function startsBefore(rule: LimitRule, rules: readonly LimitRule[], { lane, type }: Before): number {
  return rule.byGroup || rules.some(({ byGroup, weight }) => byGroup || weight !== null) ? lane : type;
}

/** The longer of two waits. A job that never fits ends, and waits for nothing else. */
export const later = (own: KeyDecision, other: KeyDecision): KeyDecision =>
  own.wait !== NEVER && other.wait > own.wait ? other : own;

/** A wait for heavy heads of a limit that weighs. */
export const behindHeads = ({ max }: Quota, wait: Wait): KeyDecision => ({
  wait,
  reason: max === null ? "concurrency" : "window",
});

/**
 * The earliest instant at which a start may happen behind `ahead` others, each of which starts as soon as the limit grants
 * it. Only where every start counts for one: weights of others may be settled lower.
 *
 * `used`: how much of the window is in use. `decision` answers for a start on its own.
 */
export function waitBehind(
  ahead: number,
  rule: LimitRule,
  group: string | null,
  used: number,
  charge: Charge,
  decision: (charge: Charge) => KeyDecision,
): KeyDecision {
  const alone = decision(charge);
  if (ahead === 0 || rule.weight !== null || alone.wait === NEVER) return alone;
  const { max, windowMs, everyMs } = quotaOf(rule, group);
  let longest = alone;
  if (everyMs !== null) longest = { wait: alone.wait + ahead * everyMs, reason: alone.reason ?? "spacing" };
  if (max !== null && max > 0 && windowMs !== null) {
    const available = Math.max(0, max - used);
    const over = ahead + 1 - available;
    if (over > 0) {
      // What fills the window leaves it in the same order a window later, again and again.
      const place = ((over - 1) % max) + 1;
      const rounds = Math.floor((over - 1) / max);
      const first =
        place <= used && available + place <= max
          ? decision({ weight: available + place, slots: charge.slots }).wait
          : windowMs;
      const wait = first + rounds * windowMs;
      if (wait > longest.wait) longest = { wait, reason: "window" };
    }
  }
  return longest;
}
