import { applies, chargeOf, isBySame, type LimitRule, takesSlots, valueOf } from "../../../limits/rule.ts";
import { type JobRow, keyedOf, weightsOf } from "../jobs/record.ts";
import type { Step } from "../step.ts";
import { stateGrpOf } from "./groups.ts";
import { openLimit } from "./limit-row.ts";
import { mayTakeSlots } from "./rule-book.ts";

// Along the index of leases: every job that runs has one.
const RUNNING = `SELECT token, queue, type, grp, keys, weights, started_at FROM sluice_jobs
  WHERE lease_until IS NOT NULL AND lease_until > ?`;
const TAKE = "INSERT INTO sluice_slots (limit_id, token, slots, at) VALUES (?, ?, ?, ?) ON CONFLICT DO ";
const UNLESS_TAKEN = `${TAKE} NOTHING`;
// What was there only kept the group in mind.
const IN_PLACE = `${TAKE} UPDATE SET slots = excluded.slots`;

type Running = Pick<JobRow, "token" | "queue" | "type" | "grp" | "keys" | "weights" | "started_at">;

/** A rule is in force from now on: jobs that run already take slots of it, as if they had started under it. Those that have some keep them. */
export function adopt(step: Step, before: LimitRule | undefined, rule: LimitRule): void {
  if (!mayTakeSlots(rule)) return;
  const ids = new Map<string, number>();
  for (const job of step.sql(RUNNING).all(0) as Running[]) {
    const { token, queue, type, started_at: at } = job;
    const group = valueOf(rule, keyedOf(job));
    if (!applies(rule, queue, type) || !takesSlots(rule, group)) continue;
    const grp = stateGrpOf(rule, group);
    let id = ids.get(grp);
    if (id === undefined) ids.set(grp, (id = openLimit(step, rule.name, 0, grp).id));
    const { slots } = chargeOf(rule, weightsOf(job));
    const kept = before !== undefined && isBySame(before, rule) && !takesSlots(before, group);
    step.sql(kept ? IN_PLACE : UNLESS_TAKEN).run(id, token, slots, at);
  }
}
