import type { ModelUse } from "./model-limits-state.ts";

/** What is held is given back. */
export function release({ limit, hold }: ModelUse): void {
  for (const count of limit.counts.values()) count.holds = count.holds.filter((other) => other !== hold);
}

/** The start never was. After a reset there is nothing to take back. */
export function unstart({ limit, count, at, start }: ModelUse): void {
  if (![...limit.counts.values()].includes(count)) return;
  count.starts = count.starts.filter((other) => other !== start);
  if (count.latestAt === at) count.latestAt = null;
}

/** What it really used. */
export function settleUse({ limit, count, start, hold }: ModelUse, used: number, now: number): void {
  const { max, windowMs } = limit.declared.quota;
  if (max === null) {
    if (hold !== undefined) hold.slots = used;
    return;
  }
  if (start === undefined || ![...limit.counts.values()].includes(count)) return;
  const over = used - start.weight - start.expired;
  if (count.told !== null && over > 0) count.told.left = Math.max(0, count.told.left - over);
  if (now - start.at < windowMs!) {
    start.weight = Math.max(0, used - start.expired);
    return;
  }
  start.expired += start.weight;
  const more = used - start.expired;
  start.weight = 0;
  if (more > 0) Object.assign(start, { at: now, weight: more });
}

/** A service refused it: it weighs nothing, but for what the job has said that it used. */
export function giveWeightBack(use: ModelUse, settled: readonly string[], now: number): void {
  const { weight, quota } = use.limit.declared;
  if (weight !== null && quota.max !== null && !settled.includes(weight)) settleUse(use, 0, now);
}

/** It ended, well or not. */
export function judge({ limit, group, at }: ModelUse, failed: boolean, now: number): void {
  const { breaker } = limit.declared;
  if (breaker === null) return;
  const count = limit.count(group);
  if (!failed) {
    count.failures = 0;
    if (count.openUntil !== null && at >= count.openUntil) count.openUntil = null;
    return;
  }
  if (count.openUntil === null) {
    count.failures += 1;
    if (count.failures < breaker.failures) return;
  } else if (at < count.openUntil) {
    return;
  }
  count.failures = 0;
  count.openUntil = now + breaker.openMs;
}
