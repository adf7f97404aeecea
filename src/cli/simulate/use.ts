import { applies, chargeOf, type LimitRule, type Quota, quotaOf, valueOf, weighed } from "../../limits/rule.ts";
import { Busy } from "./busy.ts";
import type { Plan } from "./plan.ts";
import { usedBy } from "./play.ts";
import type { Played, Run } from "./runs.ts";

/** What was used, and what could have been, over the time in which jobs waited: areas, amount by time. */
interface Area {
  used: number;
  allowed: number;
}

/**
 * How much of a limit was in use on average while jobs that it applies to waited, from 0 to 1; null: none did. Of several
 * numbers under one name, and of groups, what was used the most.
 */
export function useOf(rule: LimitRule, { runs, endedAt }: Played): number | null {
  const matching = runs.filter(({ work }) => applies(rule, work.queue, work.type));
  const total = { window: area(), spacing: area(), concurrency: area() };
  for (const [group, own] of Map.groupBy(matching, (run) => valueOf(rule, run))) {
    const busy = busyOf(own, endedAt);
    if (busy.total === 0) continue;
    const quota = quotaOf(rule, group);
    if (quota.max !== null) total.window.allowed += quota.max * busy.total;
    if (quota.everyMs !== null) total.spacing.allowed += busy.total;
    if (quota.concurrency !== null) total.concurrency.allowed += quota.concurrency * busy.total;
    for (const run of own) addUse(total, rule, quota, run, busy, endedAt);
  }
  const uses = Object.values(total).filter(({ allowed }) => allowed > 0);
  return uses.length === 0 ? null : Math.max(...uses.map(({ used, allowed }) => used / allowed));
}

/** The same for the slots of all workers. */
export function useOfWorkers({ workers, concurrency }: Plan, { runs, endedAt }: Played): number | null {
  const total = area();
  for (const own of Map.groupBy(runs, ({ work }) => work.queue).values()) {
    const busy = busyOf(own, endedAt);
    total.allowed += workers * concurrency * busy.total;
    for (const { startedAt, endedAt: end } of own) {
      if (startedAt !== null) total.used += busy.within(startedAt, end ?? endedAt);
    }
  }
  return total.allowed === 0 ? null : total.used / total.allowed;
}

const area = (): Area => ({ used: 0, allowed: 0 });

function busyOf(runs: readonly Run[], endedAt: number): Busy {
  const busy = new Busy();
  for (const { at, startedAt } of runs) busy.add(at, startedAt ?? endedAt);
  return busy;
}

function addUse(
  total: Readonly<Record<"window" | "spacing" | "concurrency", Area>>,
  rule: LimitRule,
  { windowMs, everyMs }: Quota,
  run: Run,
  busy: Busy,
  endedAt: number,
): void {
  const { startedAt, weights } = run;
  if (startedAt === null) return;
  const end = run.endedAt ?? endedAt;
  const reserved = chargeOf(rule, weights);
  const really = run.endedAt === null || rule.weight === null ? undefined : usedBy(run)?.[rule.weight];
  total.concurrency.used += reserved.slots * busy.within(startedAt, end);
  if (everyMs !== null) total.spacing.used += busy.within(startedAt, startedAt + everyMs);
  if (windowMs === null) return;
  const leaves = startedAt + windowMs;
  const settled = Math.min(end, leaves);
  const used = really === undefined ? reserved.weight : weighed(rule.quota, really).weight;
  total.window.used += reserved.weight * busy.within(startedAt, settled) + used * busy.within(settled, leaves);
  // Use beyond the weight that is reported after the window is charged when it is reported.
  if (end > leaves && used > reserved.weight)
    total.window.used += (used - reserved.weight) * busy.within(end, end + windowMs);
}
