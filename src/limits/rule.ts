import type { JobKeys } from "../core/job.ts";
import { GROUP } from "../core/job-keys.ts";
import type { LimitRule, Quota } from "../core/limit-rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "./wait.ts";

export type { BreakerRule, GroupRule, LimitRule, Quota } from "../core/limit-rule.ts";

/** The rule with its instants by the wall clock, which the clock of the storage exceeds by `skew`. */
export function wallRule(rule: LimitRule, skew: number): LimitRule {
  const { heldUntil, blindUntil } = rule;
  if (skew === 0 || (heldUntil === undefined && blindUntil === undefined)) return rule;
  return {
    ...rule,
    ...(heldUntil !== undefined && { heldUntil: heldUntil - skew }),
    ...(blindUntil !== undefined && { blindUntil: blindUntil - skew }),
  };
}

export const NO_QUOTA: Quota = { max: null, windowMs: null, concurrency: null, everyMs: null };

/** Does the limit hold for jobs of this queue and type? */
export function applies({ queues, types }: LimitRule, queue: string, type: string): boolean {
  return (queues === null || queues.includes(queue)) && (types === null || isAmong(types, type));
}

/** A list of more names than this is looked through once. */
const FEW = 16;

const sets = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Is the name one of these, which never change? */
export function isAmong(names: readonly string[], name: string): boolean {
  if (names.length <= FEW) return names.includes(name);
  let set = sets.get(names);
  if (set === undefined) sets.set(names, (set = new Set(names)));
  return set.has(name);
}

/** What a job is counted by. */
export interface Keyed {
  readonly group: string | null;
  readonly keys?: JobKeys | undefined;
}

/** The names that a limit is by, where "group" is the group of the job; none: it has one state for all jobs. */
export function namesOf({ byGroup, by = [GROUP] }: Pick<LimitRule, "byGroup" | "by">): readonly string[] {
  return byGroup ? by : [];
}

/** Are both by the same names? If not, a state of one means nothing to the other. */
export function isBySame(one: LimitRule, other: LimitRule): boolean {
  return areSameNames(namesOf(one), namesOf(other));
}

export function areSameNames(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name, i) => name === others[i]);
}

/** The value whose limit state counts a job; null: the state for all jobs, or for jobs without the keys of the limit. */
export function valueOf({ byGroup, by }: Pick<LimitRule, "byGroup" | "by">, { group, keys }: Keyed): string | null {
  if (!byGroup) return null;
  if (by === undefined) return group;
  const parts = by.map((name) => {
    if (name === GROUP) return group;
    return keys !== undefined && Object.hasOwn(keys, name) ? keys[name]! : null;
  });
  if (parts.length === 1) return parts[0]!;
  // Names are not empty, so a missing part never equals a present one.
  const text = parts.map((part) => part?.replaceAll(/[\\,]/g, String.raw`\$&`) ?? "").join(",");
  return parts.every((part) => part === null) ? null : text;
}

/** The quota of a value. */
export function quotaOf({ quota, byGroup, groups }: LimitRule, group: string | null): Quota {
  const own = byGroup && group !== null && Object.hasOwn(groups, group) ? groups[group]! : undefined;
  return own === undefined ? quota : { ...quota, ...own };
}

/** Does a start take slots of the limit: of its concurrency, or as a probe of its breaker? */
export function takesSlots(rule: LimitRule, group: string | null): boolean {
  return rule.breaker !== null || quotaOf(rule, group).concurrency !== null;
}

/** How many jobs a group starts at each of its turns: the largest share of any rule. */
export function shareOf(rules: readonly LimitRule[], group: string | null): number {
  let share = 1;
  for (const { byGroup, groups } of rules) {
    if (byGroup && group !== null && Object.hasOwn(groups, group)) share = Math.max(share, groups[group]!.share ?? 1);
  }
  return share;
}

/** The charge of one start under one limit. */
export interface Charge {
  /** Counted in the window. */
  readonly weight: number;
  /** Counted in the concurrency. */
  readonly slots: number;
}

/** The charge of a start that counts for one. */
export const ONE: Charge = { weight: 1, slots: 1 };

/** The charge of a job with these weights. */
export function chargeOf(
  { weight, estimate, quota }: LimitRule,
  weights: Readonly<Record<string, number>> | null,
): Charge {
  if (weight === null) return ONE;
  const said = weights !== null && Object.hasOwn(weights, weight) ? weights[weight]! : estimate;
  return weighed(quota, said);
}

/** The charge of a weight that is given as a number. */
export function weighed({ max }: Quota, weight: number): Charge {
  return max === null ? { weight: 1, slots: weight } : { weight, slots: 1 };
}

/** The largest charge that can ever fit, if this one exceeds it; undefined: this one can fit. */
export function mostOf({ max, concurrency }: Quota, { weight, slots }: Charge): number | undefined {
  if (max !== null && max > 0 && weight > max) return max;
  if (concurrency !== null && concurrency > 0 && slots > concurrency) return concurrency;
  return undefined;
}

/**
 * For how long a rule that replaces another lacks a record of earlier starts: where it counts by a group or keys that the old one did
 * not count by, or where its window is longer. A log for all jobs records itself how far back it reaches.
 */
export function blindFor(before: LimitRule, after: LimitRule): number {
  const groups = after.byGroup ? Object.keys({ ...before.groups, ...after.groups }) : [];
  const alike = isBySame(before, after);
  let longest = 0;
  for (const group of [null, ...groups]) {
    const now = quotaOf(after, group).windowMs;
    const was = alike ? quotaOf(before, group).windowMs : null;
    if (now === null || (was !== null && !after.byGroup)) continue;
    longest = Math.max(longest, now - (was ?? 0));
  }
  return longest;
}

/** When `slots` more fit beside those in use. `expiresIn`: when the next slot in use expires. */
export function concurrencyWait(concurrency: number | null, inUse: number, slots: number, expiresIn: Wait): Wait {
  if (concurrency === null || inUse + slots <= concurrency) return 0;
  if (concurrency > 0 && slots > concurrency) return NEVER;
  return concurrency === 0 ? WHEN_RELEASED : expiresIn;
}

/** The display name of a limit: `name`, or `name[value]`. */
export function labelOf(name: string, value: string | null): string {
  return value === null ? name : `${name}[${value}]`;
}
