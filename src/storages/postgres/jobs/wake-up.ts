import { labelOf } from "../../../limits/rule.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import type { ClaimLimits } from "../../../planner/claim-limits.ts";
import type { ClaimPlan } from "../../../planner/plan-claim.ts";
import { type Unplanned, type WakeUp, wakeUpOf } from "../../../planner/wake-up.ts";
import { groupOf } from "../limits/groups.ts";
import type { Snapshot } from "./snapshot.ts";

const RELEASED = 1e18;
/** So soon it is worth looking for a job that another transaction has. It may stay open: only where others start it is likely to be over. */
const SOON_MS = 10;
export const LATER_MS = 100;
/** So many scheduled jobs are in a snapshot at most. */
const AHEAD = 64;

/**
 * What comes after a claim. `needsGates`: lanes are to be blocked that do not stand at their gates yet: the next claim does it. `isStuck`:
 * other transactions have jobs of lanes that it went past.
 */
export function wakeUp(
  snapshot: Snapshot,
  plan: ClaimPlan,
  limits: ClaimLimits,
  asked: readonly string[] | null,
  wanted: { readonly started: number; readonly max: number; readonly needsGates: boolean; readonly isStuck: boolean },
): WakeUp {
  const { now, outside } = snapshot;
  const busy = snapshot.busy || wanted.isStuck;
  const more = plan.more || (outside && wanted.started < wanted.max);
  const waiting: Unplanned[] = snapshot.blocked.map(([type, grp, name, until]) => {
    const wait = until >= RELEASED ? WHEN_RELEASED : Math.max(0, until - now);
    return { type, wait, by: labelOf(name, groupOf(grp)) };
  });
  for (const [type, at] of snapshot.due) {
    if ((asked !== null && !asked.includes(type)) || snapshot.paused?.includes(`:${type}`) === true) continue;
    waiting.push({ type, wait: at - now, by: null });
  }
  // Those behind may come due for a type that no limit keeps back.
  const ahead = snapshot.due.length === AHEAD ? Math.max(0, snapshot.due.at(-1)![1] - now) : WHEN_RELEASED;
  const soon = busy || outside || wanted.needsGates ? (wanted.started > 0 ? SOON_MS : LATER_MS) : WHEN_RELEASED;
  return wakeUpOf({ ...plan, more }, limits, waiting, Math.min(ahead, soon));
}
