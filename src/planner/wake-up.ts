import { knownWait, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import { type ClaimLimits, labelOfKey } from "./claim-limits.ts";
import type { ClaimPlan } from "./plan-claim.ts";

/** Jobs of a type that no plan has looked at. */
export interface Unplanned {
  readonly type: string;
  /** When the key that they wait for lets them look again, or the first of them comes due. */
  readonly wait: Wait;
  /** The display name of that key; null: they come due. */
  readonly by: string | null;
}

/** What comes after a claim: at once, after so long, or when something is returned. */
export interface WakeUp {
  readonly more: boolean;
  readonly nextInMs: number | null;
  readonly blockedBy: string | null;
}

/**
 * The wake-up time of a claim. The plan answers for the lanes that were ready. This adds lanes at closed gates, and jobs that come
 * due: they start when the limits of their type are available as well. While limits are full it makes no sense to ask again, even
 * if a job comes due before. `latest`: a job that is not known may start then.
 */
export function wakeUpOf(
  plan: ClaimPlan,
  limits: ClaimLimits,
  unplanned: Iterable<Unplanned>,
  latest: Wait = WHEN_RELEASED,
): WakeUp {
  let { more, nextIn, blockedBy } = plan;
  for (const { type, wait: own, by } of unplanned) {
    const general = limits.earliest(type);
    const wait = Math.max(own, general.wait);
    // The instant of a gate has come, and too many others came before it in this step.
    if (by !== null && wait <= 0) more = true;
    const waits = by !== null || own <= 0;
    // The key of such a gate is not known to refuse anything any more.
    const gate = own > 0 ? by : null;
    const blocker = waits && general.by !== null && general.wait >= own ? labelOfKey(general.by) : gate;
    if (blocker !== null && (blockedBy === null || wait < nextIn)) blockedBy = blocker;
    nextIn = Math.min(nextIn, wait);
  }
  return { more, nextInMs: more ? 0 : knownWait(Math.min(nextIn, latest)), blockedBy };
}
