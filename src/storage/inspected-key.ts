import { behindHeads, later, waitBehind } from "../limits/behind.ts";
import { availableNow, decideStart, type KeyDecision, type KeyState, type SlotsInUse } from "../limits/key-state.ts";
import {
  applies,
  type Charge,
  chargeOf,
  type LimitRule,
  mostOf,
  ONE,
  type Quota,
  takesSlots,
  wallRule,
} from "../limits/rule.ts";
import { knownWait, type Wait } from "../limits/wait.ts";
import type { GroupState, LimitCondition, LimitState } from "./limit-storage.ts";
import type { Origin } from "./stored-rules.ts";

/** One key of a limit as an inspection sees it, at one instant. Nothing is taken of it. */
export interface InspectedKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly quota: Quota;
  readonly keyState: KeyState;
  readonly slots: SlotsInUse;
  /** How much of the window is in use; 0 without one. */
  readonly used: number;
  /** By the clock of the storage. */
  readonly now: number;
  windowWait(max: number, windowMs: number, weight: number): Wait;
}

/** When may a start with this charge happen? `slots`: those of the key, if the caller has read them. */
export function decideFor(key: InspectedKey, charge: Charge, slots: SlotsInUse = key.slots): KeyDecision {
  const { rule, group, keyState, now } = key;
  return decideStart(rule, group, keyState, slots, charge, now, (max, windowMs, weight) =>
    key.windowWait(max, windowMs, weight),
  );
}

/** Does a start with this charge fit now, but not any more after another one at the same instant? */
export function isDrainedBy(key: InspectedKey, charge: Charge, other: Charge): boolean {
  const { slots, quota } = key;
  if (decideFor(key, charge, slots).wait !== 0) return false;
  if (quota.everyMs !== null) return true;
  const both = { weight: charge.weight + other.weight, slots: charge.slots + other.slots };
  return decideFor(key, both, { ...slots, probes: slots.probes + 1 }).wait !== 0;
}

/** How much is available now: 0 if anything blocks; infinity: no bound. */
export function availableOf(key: InspectedKey): number {
  const { slots } = key;
  if (decideFor(key, ONE, slots).wait !== 0) return 0;
  return availableNow(key.rule, key.quota, key.keyState, slots, key.used, key.now);
}

/** Jobs that wait, of one queue and type. */
export interface Waiting {
  readonly queue: string;
  readonly type: string;
  readonly waiting: number;
}

/** The state of a limit, for people. `keys`: those that are shown of `groups`. `skew`: how far the storage's clock is ahead. */
export function limitStateOf(
  rule: LimitRule,
  origin: Origin,
  waiting: Iterable<Waiting>,
  groups: number,
  keys: Iterable<InspectedKey>,
  skew: number,
): LimitState {
  let sum = 0;
  for (const one of waiting) if (applies(rule, one.queue, one.type)) sum += one.waiting;
  return { rule: wallRule(rule, skew), ...origin, waiting: sum, groups, states: Array.from(keys, groupStateOf) };
}

function groupStateOf(key: InspectedKey): GroupState {
  const { rule, group, used, slots, now } = key;
  const { heldUntil, openUntil } = key.keyState;
  const { wait, reason } = decideFor(key, ONE);
  const free = availableOf(key);
  return {
    group,
    used,
    held: takesSlots(rule, group) ? slots.slots : 0,
    free: Number.isFinite(free) ? free : null,
    nextInMs: knownWait(wait),
    reason,
    heldForMs: Math.max(0, (heldUntil ?? now) - now, (rule.heldUntil ?? now) - now),
    breaker: rule.breaker === null || openUntil === null ? "closed" : now < openUntil ? "open" : "half-open",
  };
}

type Weights = Readonly<Record<string, number>> | null;

/** A job that waits, as its limits see it. */
export interface WaitingJob {
  readonly weights: Weights;
  /** The weights of the first job of its lane; undefined: it is the first. No job starts before that one, which may be heavier. */
  readonly first: Weights | undefined;
  /** How many jobs certainly start under the limit before it (`startsBefore`). */
  readonly before: number;
  /** How long it waits for heavy heads of the key that come before it. */
  readonly behind: Wait;
}

/** What one limit says about the start of a job. */
export function limitConditionOf(key: InspectedKey, job: WaitingJob, skew: number): LimitCondition {
  const { rule, group, quota, used, slots } = key;
  const { weights, first, before, behind } = job;
  const decide = (charge: Charge): KeyDecision => {
    const own = decideFor(key, charge);
    return rule.weight === null ? own : later(own, behindHeads(quota, behind));
  };
  const charge = chargeOf(rule, weights);
  const own = waitBehind(before, rule, group, used, charge, decide);
  const { wait, reason } = first === undefined ? own : later(own, decide(chargeOf(rule, first)));
  return {
    rule: wallRule(rule, skew),
    group,
    weight: quota.max === null ? charge.slots : charge.weight,
    used,
    held: takesSlots(rule, group) ? slots.slots : 0,
    waitMs: knownWait(wait),
    reason,
    most: mostOf(quota, charge) ?? null,
  };
}
