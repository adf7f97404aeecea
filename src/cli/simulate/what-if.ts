import type { LimitRule, Quota } from "../../limits/rule.ts";
import type { Plan } from "./plan.ts";
import { WORKERS } from "./runs.ts";

/** The plan with twice as much of one limit, or of the workers; undefined: there is nothing to double. */
export function doubled(plan: Plan, name: string): Plan | undefined {
  if (name === WORKERS) return { ...plan, workers: plan.workers * 2 };
  const found = plan.limits.find((rule) => rule.name === name);
  if (found === undefined || allowsNothing(found)) return undefined;
  return { ...plan, limits: plan.limits.map((rule) => (rule.name === name ? twice(rule) : rule)) };
}

/** Nothing starts under it, for any group without numbers of its own: twice nothing is nothing. */
export function allowsNothing({ quota }: LimitRule): boolean {
  return quota.max === 0 || quota.concurrency === 0;
}

function twice(rule: LimitRule): LimitRule {
  const groups = Object.entries(rule.groups).map(([group, own]) => [group, { ...own, ...twiceAsMuch(own) }]);
  return { ...rule, quota: { ...rule.quota, ...twiceAsMuch(rule.quota) }, groups: Object.fromEntries(groups) };
}

function twiceAsMuch({ max, concurrency, everyMs }: Partial<Quota>): Partial<Quota> {
  return {
    ...(typeof max === "number" && { max: max * 2 }),
    ...(typeof concurrency === "number" && { concurrency: concurrency * 2 }),
    ...(typeof everyMs === "number" && { everyMs: everyMs / 2 }),
  };
}
