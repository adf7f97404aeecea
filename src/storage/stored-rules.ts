import { LimitConflictError, OptionsError } from "../core/errors.ts";
import { canonicalJson } from "../core/json.ts";
import type { ErrorRecord } from "../core/job.ts";
import { applies, blindFor, chargeOf, type LimitRule, mostOf, NO_QUOTA, type Quota, quotaOf } from "../limits/rule.ts";
import type { ClaimLimit, NewJob } from "./job-storage.ts";
import type { LimitChange, OnConflict } from "./limit-storage.ts";
import type { Meter } from "./under-limits.ts";

/** A rule as it is kept: what was declared, and what was changed by hand since. Plain data. */
export interface StoredRule {
  readonly declared: LimitRule;
  readonly quota: Partial<Quota>;
  readonly groups: Readonly<Record<string, Partial<Quota>>>;
  readonly paused: boolean;
  readonly version: number;
  /** As of a rule. */
  readonly heldUntil?: number;
  readonly blindUntil?: number;
}

/** What is in force. */
export function ruleInForce(stored: StoredRule): LimitRule {
  const { declared, quota, groups, paused, heldUntil, blindUntil } = stored;
  // By entries: a group may be called `__proto__`.
  const overridden = new Map(Object.entries(declared.groups));
  for (const [group, changed] of Object.entries(groups))
    overridden.set(group, { ...overridden.get(group), ...changed });
  return {
    ...declared,
    quota: { ...declared.quota, ...quota },
    groups: Object.fromEntries(overridden),
    paused,
    ...(heldUntil !== undefined && { heldUntil }),
    ...(blindUntil !== undefined && { blindUntil }),
  };
}

/** What becomes of a rule that is declared, possibly again; undefined: it stays as it is. */
export function declare(
  before: StoredRule | undefined,
  rule: LimitRule,
  onConflict: OnConflict,
  now: number,
): StoredRule | undefined {
  if (before === undefined) return { declared: rule, quota: {}, groups: {}, paused: false, version: 1 };
  const differs = differenceOf(before.declared, rule);
  if (differs === undefined || onConflict === "keep") return undefined;
  if (onConflict === "refuse") throw new LimitConflictError(rule.name, differs);
  return looking(before, { ...before, declared: rule, version: before.version + 1 }, now);
}

/** Where the rule cannot know what started before, its windows are full until it does. */
function looking(before: StoredRule, after: StoredRule, now: number): StoredRule {
  const blind = blindFor(ruleInForce(before), ruleInForce(after));
  return blind > 0 ? { ...after, blindUntil: Math.max(now + blind, before.blindUntil ?? 0) } : after;
}

/**
 * What becomes of a rule that somebody changes; undefined: it stays as it is, whatever becomes of what is counted for its
 * groups. What holds all groups of a limit is kept with its rule.
 */
export function changeRule(before: StoredRule, change: LimitChange, now: number): StoredRule | undefined {
  const version = before.version + 1;
  if ("quota" in change) {
    const { quota, group } = change;
    if (group === null) return looking(before, { ...before, quota: { ...before.quota, ...quota }, version }, now);
    const groups = new Map(Object.entries(before.groups));
    groups.set(group, { ...groups.get(group), ...quota });
    return looking(before, { ...before, groups: Object.fromEntries(groups), version }, now);
  }
  if ("restore" in change) return looking(before, { ...before, quota: {}, groups: {}, version }, now);
  if ("paused" in change) {
    const { heldUntil, ...free } = before;
    if (change.paused) return before.paused ? undefined : { ...before, paused: true, version };
    return before.paused || heldUntil !== undefined ? { ...free, paused: false, version } : undefined;
  }
  if ("reset" in change && change.group === null) {
    const { heldUntil, blindUntil, ...forgotten } = before;
    return heldUntil === undefined && blindUntil === undefined ? undefined : forgotten;
  }
  if ("holdMs" in change && change.group === null && before.declared.byGroup) {
    return { ...before, heldUntil: Math.max(now + change.holdMs, before.heldUntil ?? 0) };
  }
  return undefined;
}

/** The first thing in which two declarations differ, in words; undefined: nothing. */
function differenceOf(before: LimitRule, now: LimitRule): string | undefined {
  for (const key of Object.keys(now) as (keyof LimitRule)[]) {
    const [was, is] = [canonicalJson(JSON.stringify(before[key] ?? null)), canonicalJson(JSON.stringify(now[key]))];
    if (was !== is) return `${key}: ${was} before, ${is} now`;
  }
  return undefined;
}

/** A rule that was kept as text; undefined: it cannot be read. */
export function readStoredRule(text: string): StoredRule | undefined {
  try {
    const stored = JSON.parse(text) as StoredRule;
    return typeof stored.declared.name === "string" && typeof stored.declared.quota === "object" ? stored : undefined;
  } catch {
    return undefined;
  }
}

/** The limit that a claim brings along, as a rule for all of its jobs. */
export function ruleOfClaim({ key, max, windowMs }: ClaimLimit): LimitRule {
  return {
    name: key,
    quota: { ...NO_QUOTA, max, windowMs },
    types: null,
    queues: null,
    byGroup: false,
    groups: {},
    weight: null,
    estimate: 1,
    breaker: null,
    paused: false,
  };
}

/** Refuses jobs that could never start under the rules in force. */
export function refuseImpossible(rules: readonly LimitRule[], jobs: readonly NewJob[]): void {
  const weighing = rules.filter(({ weight }) => weight !== null);
  if (weighing.length === 0) return;
  for (const { queue, type, group, weights } of jobs) {
    for (const rule of weighing) {
      if (!applies(rule, queue, type)) continue;
      const charge = chargeOf(rule, weights);
      const most = mostOf(quotaOf(rule, rule.byGroup ? group : null), charge);
      if (most === undefined) continue;
      const weight = rule.quota.max === null ? charge.slots : charge.weight;
      throw tooHeavy(rule.name, rule.weight!, weight, most);
    }
  }
}

/** Why a job is not added that could never start: under this limit it weighs more than is ever let through. */
export function tooHeavy(limit: string, name: string, weight: number, most: number): OptionsError {
  const hint = `the limit "${limit}" never lets more than that start`;
  return new OptionsError("add", `weights.${name}`, weight, `at most ${most}`, hint);
}

/** Why a job is dead that can never fit, for the limit was made smaller after it had been added. */
export function neverFits({ rule, group }: Meter, weight: number): ErrorRecord {
  const quota = quotaOf(rule, group);
  return {
    name: "OptionsError",
    code: "SLUICE_OPTIONS",
    message: `the limit "${rule.name}" lets ${quota.max ?? quota.concurrency} start at the most, and the job weighs ${weight}`,
  };
}
