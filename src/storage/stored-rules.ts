import { OptionsError } from "../core/errors.ts";
import type { ErrorRecord } from "../core/job.ts";
import {
  applies,
  areSameNames,
  blindFor,
  chargeOf,
  type LimitRule,
  mostOf,
  namesOf,
  NO_QUOTA,
  type Quota,
  quotaOf,
  valueOf,
} from "../limits/rule.ts";
import type { ClaimLimit, NewJob } from "./job-storage.ts";
import type { LimitChange, LimitTake, LimitTaken } from "./limit-storage.ts";

/** A stored rule: the declaration, and the changes that operators made since. Plain data. */
export interface StoredRule {
  readonly declared: LimitRule;
  readonly quota: Partial<Quota>;
  readonly groups: Readonly<Record<string, Partial<Quota>>>;
  readonly paused: boolean;
  /** How often it was declared anew or changed; 1 at first. */
  readonly revision: number;
  /** The version of the declaration; null: it has none. */
  readonly version: number | null;
  /** The owners that declare it, sorted; none: only an operator can remove it. */
  readonly owners: readonly string[];
  /** As of a rule. */
  readonly heldUntil?: number;
  readonly blindUntil?: number;
}

/** Where a rule comes from. */
export type Origin = Pick<StoredRule, "declared" | "revision" | "version" | "owners">;

export function originOf({ declared, revision, version, owners }: StoredRule): Origin {
  return { declared, revision, version, owners };
}

/** The origin of a limit of a claim: declared by the claim, once. */
export function originOfClaim(rule: LimitRule): Origin {
  return { declared: rule, revision: 1, version: null, owners: [] };
}

/** The rule that is in force. */
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

/** If the new rule counts starts that the old one did not, its windows are full until these have left them. */
export function looking(before: StoredRule, after: StoredRule, now: number): StoredRule {
  const blind = blindFor(ruleInForce(before), ruleInForce(after));
  return blind > 0 ? { ...after, blindUntil: Math.max(now + blind, before.blindUntil ?? 0) } : after;
}

/**
 * The rule after a change by an operator or a service; undefined: the rule stays as it is, only the state of its groups changes. A hold of
 * all groups is stored with the rule.
 */
export function changeRule(before: StoredRule, change: LimitChange, now: number): StoredRule | undefined {
  const revision = before.revision + 1;
  if ("quota" in change) {
    const { quota, group } = change;
    if (group === null) return looking(before, { ...before, quota: { ...before.quota, ...quota }, revision }, now);
    const groups = new Map(Object.entries(before.groups));
    groups.set(group, { ...groups.get(group), ...quota });
    return looking(before, { ...before, groups: Object.fromEntries(groups), revision }, now);
  }
  if ("restore" in change) return looking(before, { ...before, quota: {}, groups: {}, revision }, now);
  if ("paused" in change) {
    const { heldUntil, ...free } = before;
    if (change.paused) return before.paused ? undefined : { ...before, paused: true, revision };
    return before.paused || heldUntil !== undefined ? { ...free, paused: false, revision } : undefined;
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

/** A rule that was stored as text; undefined: it cannot be read. */
export function readStoredRule(text: string): StoredRule | undefined {
  try {
    const stored = JSON.parse(text) as StoredRule;
    return typeof stored.declared.name === "string" && typeof stored.declared.quota === "object" ? stored : undefined;
  } catch {
    return undefined;
  }
}

/** The refusal of a request whose value is made from other names than the limit is by; undefined: the names are right. */
export function refuseOtherNames(rule: LimitRule, { by }: LimitTake): LimitTaken | undefined {
  const names = namesOf(rule);
  if (by === undefined || areSameNames(by, names)) return undefined;
  return { granted: false, retryInMs: 0, most: null, by: names };
}

/** A limit of a claim, as a rule for all of its jobs. */
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
export function refuseImpossible(
  rules: readonly LimitRule[],
  jobs: readonly Pick<NewJob, "queue" | "type" | "group" | "keys" | "weights">[],
): void {
  const weighing = rules.filter(({ weight }) => weight !== null);
  if (weighing.length === 0) return;
  for (const job of jobs) {
    for (const rule of weighing) {
      if (!applies(rule, job.queue, job.type)) continue;
      const charge = chargeOf(rule, job.weights);
      const most = mostOf(quotaOf(rule, valueOf(rule, job)), charge);
      if (most === undefined) continue;
      const weight = rule.quota.max === null ? charge.slots : charge.weight;
      throw tooHeavy(rule.name, rule.weight!, weight, most);
    }
  }
}

/** The error for a job that could never start: it weighs more than the limit can ever grant. */
export function tooHeavy(limit: string, name: string, weight: number, most: number): OptionsError {
  const hint = `the limit "${limit}" never lets more than that start`;
  return new OptionsError("add", `weights.${name}`, weight, `at most ${most}`, hint);
}

/** The error of a job that can never fit, because the limit was reduced after the job was added. */
interface OfLimit {
  readonly rule: LimitRule;
  readonly group: string | null;
}

export function neverFits({ rule, group }: OfLimit, weight: number): ErrorRecord {
  const quota = quotaOf(rule, group);
  return {
    name: "OptionsError",
    code: "SLUICE_OPTIONS",
    message: `the limit "${rule.name}" lets ${quota.max ?? quota.concurrency} start at the most, and the job weighs ${weight}`,
  };
}
