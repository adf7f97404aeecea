import type { KeyDecision } from "./key-state.ts";
import type { Charge, LimitRule } from "./rule.ts";
import { quotaOf } from "./rule.ts";
import { NEVER } from "./wait.ts";

/** Jobs that start before another one. */
export interface Before {
  /** Of its own lane. */
  readonly lane: number;
  /**
   * Of its own type, so that whoever asks for it asks for them: its lane, higher priorities, and other groups by turns, but for
   * groups where jobs of other types wait as well, which may be given first.
   */
  readonly type: number;
}

/** How many take of a limit before a job does, for certain: no more than its lane where a group may have to wait for itself. */
export function startsBefore(rule: LimitRule, rules: readonly LimitRule[], { lane, type }: Before): number {
  return rule.byGroup || rules.some(({ byGroup }) => byGroup) ? lane : type;
}

/**
 * When may a start happen that `ahead` others come before, each of which starts as soon as the limit lets it? No earlier than
 * this. Only where every start counts for one: what others weigh may turn out to be less.
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
