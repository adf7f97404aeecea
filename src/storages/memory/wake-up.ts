import { WHEN_RELEASED } from "../../limits/wait.ts";
import type { Claim } from "../../storage/job-storage.ts";
import type { ClaimLimits } from "../../planner/claim-limits.ts";
import type { ClaimPlan } from "../../planner/plan-claim.ts";
import { labelOf } from "../../limits/rule.ts";
import type { JobLine } from "./queues.ts";

/**
 * The wake-up time of a claim. The planner has answered for the lanes that were ready. Beside them there are lanes that were blocked
 * before, and jobs that come due: they start when their time has come and the limits of their type are available.
 */
export function wakeUpOf(
  lines: readonly JobLine[],
  limits: ClaimLimits,
  plan: ClaimPlan,
  now: number,
  time: number,
): Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  let { nextIn, blockedBy } = plan;
  for (const { type, closed, scheduled } of lines) {
    const [gate, job] = [closed.first, scheduled.first];
    if (gate === undefined && job === undefined) continue;
    const { wait: least, by: general } = limits.earliest(type);
    if (gate !== undefined) {
      const by = gate.key!;
      const own = gate.until - time;
      const wait = Math.max(least, own);
      if (blockedBy === null || wait < nextIn) {
        blockedBy = own < least ? general!.rule.name : labelOf(by.name, by.group);
      }
      nextIn = Math.min(nextIn, wait);
    }
    if (job !== undefined) nextIn = Math.min(nextIn, Math.max(least, job.dueAt - now));
  }
  if (plan.more) return { more: true, nextInMs: 0, blockedBy };
  return { more: false, nextInMs: nextIn === WHEN_RELEASED ? null : nextIn, blockedBy };
}
