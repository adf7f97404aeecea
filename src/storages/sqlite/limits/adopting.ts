import { applies, chargeOf, isBySame, type LimitRule, takesSlots, valueOf } from "../../../limits/rule.ts";
import { type JobRow } from "../jobs/record.ts";
import { keyedOf } from "../jobs/record.ts";
import { readWeights } from "../../../storage/kept.ts";
import { openLimit } from "../limit-row.ts";
import type { Step } from "../step.ts";
import { stateGrpOf } from "./groups.ts";

// Along the index of leases: every job that runs has one.
const RUNNING = `SELECT token, queue, type, grp, keys, weights, started_at FROM sluice_jobs
  WHERE lease_until IS NOT NULL AND lease_until > ?`;
const HOLD = "INSERT INTO sluice_holds (limit_id, token, slots, at) VALUES (?, ?, ?, ?) ON CONFLICT DO ";
const UNLESS_HELD = `${HOLD} NOTHING`;
// What was there only kept the group in mind.
const IN_PLACE = `${HOLD} UPDATE SET slots = excluded.slots`;

type Running = Pick<JobRow, "token" | "queue" | "type" | "grp" | "keys" | "weights" | "started_at">;

/**
 * A rule holds from now on: so do the jobs that run already, as if they had started under it. Those that hold something of it
 * go on as they are.
 */
export function adopt(step: Step, before: LimitRule | undefined, rule: LimitRule): void {
  if (!mayHold(rule)) return;
  const ids = new Map<string, number>();
  for (const job of step.sql(RUNNING).all(0) as Running[]) {
    const { token, queue, type, weights, started_at: at } = job;
    const group = valueOf(rule, keyedOf(job));
    if (!applies(rule, queue, type) || !takesSlots(rule, group)) continue;
    const grp = stateGrpOf(rule, group);
    let id = ids.get(grp);
    if (id === undefined) ids.set(grp, (id = openLimit(step, rule.name, 0, grp).id));
    const { slots } = chargeOf(rule, weights === null ? null : readWeights(weights));
    const kept = before !== undefined && isBySame(before, rule) && !takesSlots(before, group);
    step.sql(kept ? IN_PLACE : UNLESS_HELD).run(id, token, slots, at);
  }
}

function mayHold({ breaker, quota, groups }: LimitRule): boolean {
  return (
    breaker !== null ||
    quota.concurrency !== null ||
    Object.values(groups).some(({ concurrency }) => concurrency !== undefined && concurrency !== null)
  );
}
