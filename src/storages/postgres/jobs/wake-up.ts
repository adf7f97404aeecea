import { labelOf } from "../../../limits/rule.ts";
import { knownWait, type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { ClaimLimits } from "../../../planner/claim-limits.ts";
import type { ClaimPlan } from "../../../planner/plan-claim.ts";
import type { Claim } from "../../../storage/job-storage.ts";
import { groupOf } from "../limits/groups.ts";
import type { Snapshot } from "./snapshot.ts";

const RELEASED = 1e18;
/** So soon it is worth looking for a job that another transaction has. It may stay open: only where others start it is likely to be over. */
const SOON_MS = 10;
const LATER_MS = 100;
/** So many scheduled jobs are in a snapshot at most. */
const AHEAD = 64;

/** What comes after a claim. While limits are full it makes no sense to ask again, even if a job comes due before. */
export function wakeUp(
  snapshot: Snapshot,
  plan: ClaimPlan,
  limits: ClaimLimits,
  asked: readonly string[] | null,
  wanted: { readonly started: number; readonly max: number },
): Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  const { now } = snapshot;
  let { blockedBy, nextIn } = plan;
  for (const [type, grp, by, until] of snapshot.blocked) {
    const own: Wait = until >= RELEASED ? WHEN_RELEASED : Math.max(0, until - now);
    const general = limits.earliest(type);
    const wait = Math.max(own, general.wait);
    // Its instant has come, and too many others came before it in this step.
    if (wait === 0) return { more: true, nextInMs: 0, blockedBy };
    if (blockedBy === null || wait < nextIn) {
      blockedBy = own < general.wait ? general.by!.rule.name : labelOf(by, groupOf(grp));
    }
    nextIn = Math.min(nextIn, wait);
  }
  if (plan.more || (snapshot.outside && wanted.started < wanted.max)) return { more: true, nextInMs: 0, blockedBy };
  // A job that has come due waits, whether or not it stands in its lane yet.
  let due: Wait = WHEN_RELEASED;
  let dueBy: string | null = null;
  for (const [type, at] of snapshot.due) {
    if ((asked !== null && !asked.includes(type)) || snapshot.paused?.includes(`:${type}`) === true) continue;
    const { wait, by } = limits.earliest(type);
    if (at <= now && by !== null && (dueBy === null || wait < due)) dueBy = by.rule.name;
    due = Math.min(due, Math.max(at - now, wait));
  }
  // Those behind may come due for a type that no limit keeps back.
  if (snapshot.due.length === AHEAD) due = Math.min(due, Math.max(0, snapshot.due.at(-1)![1] - now));
  if (dueBy !== null && (blockedBy === null || due < nextIn)) blockedBy = dueBy;
  const next = Math.min(nextIn, due);
  const soon = snapshot.busy || snapshot.outside ? (wanted.started > 0 ? SOON_MS : LATER_MS) : WHEN_RELEASED;
  return { more: false, nextInMs: knownWait(Math.min(next, soon)), blockedBy };
}
