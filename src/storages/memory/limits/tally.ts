import {
  type KeyState,
  cancelCharge,
  correctCharge,
  chargeKey,
  decideStart,
  type Granted,
  type SlotsInUse,
  isKeyIdle,
  newKeyState,
  NO_SLOTS,
  type KeyDecision,
} from "../../../limits/key-state.ts";
import { clearRateState, type RateState } from "../../../limits/rate-state.ts";
import { type Charge, type LimitRule, type Quota, quotaOf } from "../../../limits/rule.ts";
import {
  createLog,
  grantStart,
  growStart,
  recordStart,
  settleStart,
  shrinkStart,
  type StartEntry,
  type StartLog,
  viewOf,
  windowUsed,
  windowWait,
} from "../../../limits/window.ts";
import { NOWHERE, type Slotted } from "../heap.ts";
import { type Hold, Holds } from "./holds.ts";
import { LedgerGauge } from "./ledger-gauge.ts";

/**
 * What a start took of one limit, so that exactly that can be given back. Starts of one claim that hold nothing and count for
 * one have it in common: then `entry` is what all of them count for.
 */
export interface Taken {
  readonly tally: Tally;
  /** The rule that it was taken under. */
  readonly rule: LimitRule;
  readonly charge: Charge;
  readonly at: number;
  /** It is not called yet, and that will be confirmed; undefined: it counts from the grant. */
  readonly granted: Granted | undefined;
  /** That of the tally at the time: after a reset what is taken back is nobody's. */
  readonly gauge: KeyState;
  entry: StartEntry | undefined;
  hold: Hold | undefined;
  /** Other starts of the claim have it as well. */
  common: boolean;
}

/** Room for so many starts at first, in the log of a group: there may be many groups with few starts each. */
const FEW = 4;

/**
 * What is counted under one name: for all, in the log that `rates` keeps under it, or for one group. All instants are by
 * the clock of the ledgers.
 */
export class Tally implements Slotted {
  readonly name: string;
  readonly group: string | null;
  /** Undefined: it is for one group. */
  readonly ledger: RateState | undefined;
  gauge: KeyState;
  /** Was anything ever counted? */
  counted = false;
  /** Somebody was refused, and wants to hear of room. */
  awaited = false;
  /** While nothing is held, for a group: when it may be worth a look whether it can be forgotten. */
  idleAt = 0;
  slot = NOWHERE;
  #log: StartLog | undefined;
  #holds: Holds | undefined;

  constructor(name: string, group: string | null, ledger: RateState | undefined) {
    this.name = name;
    this.group = group;
    this.ledger = ledger;
    this.gauge = ledger === undefined ? newKeyState() : new LedgerGauge(ledger);
  }

  get log(): StartLog | undefined {
    return this.ledger === undefined ? this.#log : this.ledger.log;
  }

  get holding(): boolean {
    return this.#holds !== undefined && this.#holds.size > 0;
  }

  held(time: number): SlotsInUse {
    return this.#holds === undefined ? NO_SLOTS : this.#holds.at(time, this.gauge.openUntil);
  }

  used({ windowMs }: Quota, time: number): number {
    const { log } = this;
    return log === undefined || windowMs === null ? 0 : windowUsed(log, viewOf(log, windowMs), time);
  }

  /** The start happens, whether or not there is room. `until`: when what it holds comes back by itself. */
  take(rule: LimitRule, charge: Charge, time: number, until: number | null, granted?: Granted): Taken {
    this.counted = true;
    chargeKey(this.gauge, charge, time, granted);
    const taken: Taken = {
      tally: this,
      rule,
      charge,
      at: time,
      granted,
      gauge: this.gauge,
      entry: undefined,
      hold: undefined,
      common: false,
    };
    this.takeMore(taken, rule, charge, until);
    return taken;
  }

  /** One more start of the same claim, which holds nothing. */
  takeAgain(taken: Taken): void {
    taken.common = true;
    chargeKey(this.gauge, taken.charge, taken.at, taken.granted);
    if (taken.entry !== undefined) growStart(taken.entry, taken.charge.weight);
  }

  /** The same start, under another rule of this name: it is counted once. */
  takeMore(taken: Taken, rule: LimitRule, { weight, slots }: Charge, until: number | null): void {
    const { max, windowMs } = quotaOf(rule, this.group);
    if (max !== null && windowMs !== null && taken.entry === undefined) {
      const log = this.log ?? (this.#log = createLog(FEW));
      // Somebody has to look at a log for it to forget.
      viewOf(log, windowMs);
      const { at, granted } = taken;
      taken.entry = granted === undefined ? recordStart(log, at, weight) : grantStart(log, at, weight, granted.until);
    }
    if (taken.hold !== undefined) return;
    const holds = holdsOf(rule, this.group);
    // Where it may still be said what a start of a group really used, its tally must not be forgotten before.
    const settles = this.ledger === undefined && (rule.weight !== null || until !== null);
    if (!holds && !settles) return;
    taken.hold = (this.#holds ??= new Holds()).take(holds ? slots : 0, taken.at, until);
  }

  /** A job that runs holds of the limit from now on. `before`: what its start took, if it took anything of this. */
  adopt(before: Taken | undefined, rule: LimitRule, charge: Charge, at: number): Taken {
    this.counted = true;
    const holds = (this.#holds ??= new Holds());
    if (before?.hold !== undefined && holds.has(before.hold)) {
      holds.resize(before.hold, charge.slots);
      return { ...before, rule };
    }
    const hold = holds.take(charge.slots, at, null);
    if (before !== undefined) return { ...before, rule, hold };
    const { gauge } = this;
    return { tally: this, rule, charge, at, granted: undefined, gauge, entry: undefined, hold, common: false };
  }

  /** Does the start hold of the limit, as far as anything is held of it at all? */
  isHolding({ rule, hold }: Taken): boolean {
    return hold !== undefined && holdsOf(rule, this.group) && this.#holds?.has(hold) === true;
  }

  release({ hold }: Taken): void {
    if (hold !== undefined) this.#holds?.release(hold);
  }

  /** The start never was. */
  cancel({ gauge, charge, at, entry, common }: Taken): void {
    cancelCharge(gauge, at);
    if (entry !== undefined) shrinkStart(entry, common ? charge.weight : entry.weight);
  }

  /** What the start really used: of the window, or without one of what it holds. */
  settle({ rule, gauge, entry, hold }: Taken, used: number, time: number): void {
    if (rule.quota.max === null) {
      if (hold !== undefined && quotaOf(rule, this.group).concurrency !== null) this.#holds?.resize(hold, used);
    } else if (entry !== undefined) {
      correctCharge(gauge, used - entry.weight - entry.expired);
      settleStart(entry, time, used);
    }
  }

  renew({ hold }: Taken, until: number): void {
    if (hold !== undefined) this.#holds?.renew(hold, until);
  }

  /** Forgets everything but what is held. */
  reset(): void {
    if (this.ledger !== undefined) clearRateState(this.ledger);
    this.#log = undefined;
    this.gauge = this.ledger === undefined ? newKeyState() : new LedgerGauge(this.ledger);
  }

  /** As if it had never been. What is held is held of what nobody looks at any more. */
  forget(): void {
    this.reset();
    this.counted = false;
    this.#holds = undefined;
  }

  /** When nothing in it will count any more, as far as time alone decides: now or before if that is so already. */
  quietAt(rule: LimitRule, time: number): number {
    const { windowMs, everyMs } = quotaOf(rule, this.group);
    const { pausedUntil, toldUntil, calledAt } = this.gauge;
    let at = Math.max(time, pausedUntil ?? 0, toldUntil ?? 0, calledAt === null ? 0 : calledAt + (everyMs ?? 0));
    const { log } = this;
    if (log === undefined) return at;
    if (windowMs !== null) viewOf(log, windowMs);
    let newest = log.tail > log.head ? log.at[(log.tail - 1) & log.mask]! : Number.NEGATIVE_INFINITY;
    for (let entry = log.firstGranted; entry !== undefined; entry = entry.after) newest = Math.max(newest, entry.until);
    for (const view of log.views) at = Math.max(at, Math.max(newest, view.blindFor) + view.windowMs);
    return at;
  }

  /** Is there nothing in it that could still matter? */
  isIdle(rule: LimitRule, time: number): boolean {
    this.#holds?.expire(time);
    const { everyMs } = quotaOf(rule, this.group);
    return !this.holding && isKeyIdle(this.gauge, everyMs, time) && this.quietAt(rule, time) <= time;
  }
}

/** Does a start of this group hold anything of the limit while it is under way? */
export function holdsOf(rule: LimitRule, group: string | null): boolean {
  return rule.breaker !== null || quotaOf(rule, group).concurrency !== null;
}

const UNTOUCHED: KeyState = Object.freeze(newKeyState());

/** When does this fit, and what is in its way? `undefined`: nothing was ever counted for the group. */
export function verdictOf(
  tally: Tally | undefined,
  rule: LimitRule,
  group: string | null,
  charge: Charge,
  time: number,
): KeyDecision {
  const log = tally?.log;
  return decideStart(
    rule,
    group,
    tally === undefined ? UNTOUCHED : tally.gauge,
    tally === undefined ? NO_SLOTS : tally.held(time),
    charge,
    time,
    (max, windowMs, weight) => (log === undefined ? 0 : windowWait(log, viewOf(log, windowMs), max, time, weight)),
  );
}

const ONE: Charge = { weight: 1, slots: 1 };

/** When one more fits. */
export const nextOf = (tally: Tally | undefined, rule: LimitRule, group: string | null, time: number): KeyDecision =>
  verdictOf(tally, rule, group, ONE, time);

/** How much could start at once: nothing if anything is in the way; infinity: as much as anybody likes. */
export function freeOf(tally: Tally | undefined, rule: LimitRule, group: string | null, time: number): number {
  if (nextOf(tally, rule, group, time).wait !== 0) return 0;
  const quota = quotaOf(rule, group);
  const { toldUntil, toldLeft, openUntil } = tally === undefined ? UNTOUCHED : tally.gauge;
  const { slots, probes } = tally === undefined ? NO_SLOTS : tally.held(time);
  // What is weighed is told by weight; what counts starts then leaves room for one at least.
  const weighs = rule.weight !== null;
  let free = Number.POSITIVE_INFINITY;
  if (quota.max !== null) free = quota.max - (tally?.used(quota, time) ?? 0);
  if (quota.concurrency !== null && !(weighs && quota.max !== null)) free = Math.min(free, quota.concurrency - slots);
  if (toldUntil !== null && time < toldUntil && !(weighs && quota.max === null)) free = Math.min(free, toldLeft ?? 0);
  if (weighs) return free;
  if (quota.everyMs !== null) free = Math.min(free, 1);
  if (rule.breaker !== null && openUntil !== null) free = Math.min(free, rule.breaker.probes - probes);
  return free;
}
