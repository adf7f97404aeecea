import { applies, chargeOf, type LimitRule, takesSlots, valueOf } from "../../../limits/rule.ts";
import type { Book } from "../book.ts";

/** Jobs that run hold of a rule that is new or another one, if it holds anything and they do not hold of it yet. */
export function adopt(book: Book, rule: LimitRule): void {
  const { limits } = book;
  if (!canHold(rule)) return;
  for (const job of book.leases) {
    const value = valueOf(rule, job);
    if (!applies(rule, job.queue, job.type) || !takesSlots(rule, value)) continue;
    const limitState = limits.open(rule, value);
    const before = job.charges.find((charged) => charged.limitState === limitState);
    if (before !== undefined && limitState.hasSlots(before)) continue;
    const adopted = limitState.adopt(before, rule, chargeOf(rule, job.weights), book.limitTime(job.startedAt!));
    job.charges = [...job.charges.filter((charged) => charged !== before), adopted];
  }
}

/** Does any start hold anything of it? */
function canHold({ quota, groups, breaker }: LimitRule): boolean {
  if (breaker !== null || quota.concurrency !== null) return true;
  return Object.values(groups).some(({ concurrency }) => concurrency !== undefined && concurrency !== null);
}
