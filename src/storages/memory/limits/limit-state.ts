import { type Starved, starve } from "../../../limits/starved.ts";
import {
  cancelCharge,
  chargeKey,
  correctCharge,
  type Granted,
  isKeyIdle,
  type KeyState,
  newKeyState,
  NO_SLOTS,
  type SlotsInUse,
} from "../../../limits/key-state.ts";
import { clearRateState, type RateState } from "../../../limits/rate-state.ts";
import { type Charge, type LimitRule, type Quota, quotaOf, takesSlots } from "../../../limits/rule.ts";
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
} from "../../../limits/window.ts";
import { NOWHERE, type Slotted } from "../heap.ts";
import { type SlotUse, Slots } from "./slots.ts";

/**
 * What a start was charged under one limit, so that exactly that can be returned. Starts of one claim that take no slots and count
 * for one share it: then `entry` is what all of them count for.
 */
export interface Charged {
  readonly limitState: MemoryLimitState;
  /** The rule that it was charged under. */
  readonly rule: LimitRule;
  readonly charge: Charge;
  readonly at: number;
  /** It is not called yet, and that will be confirmed; undefined: it counts from the grant. */
  readonly granted: Granted | undefined;
  /** That of the limit state at the time: after a reset, a return changes nothing. Of a start that was adopted: one of its own. */
  readonly keyState: KeyState;
  entry: StartEntry | undefined;
  slotUse: SlotUse | undefined;
  /** Other starts of the claim share it. */
  shared: boolean;
}

/** The first capacity of the log of a group: there may be many groups with few starts each. */
const FEW = 4;

/**
 * The state of one limit: for all, with the log that `rates` keeps under its name, or for one group. All instants are by the clock of
 * `rates`.
 */
export class MemoryLimitState implements Slotted {
  readonly name: string;
  readonly group: string | null;
  /** Undefined: it is for one group. */
  readonly rate: RateState | undefined;
  keyState: KeyState;
  /** Was anything ever counted? */
  counted = false;
  /** A start was refused: workers are woken up when it becomes available. */
  awaited = false;
  /** It was refused by a rule that a claim brought along, and not by the one that is in force: what is returned may matter to that one alone. */
  awaitedByBrought = false;
  /** Those that wait for its slots and have none. */
  starved: Starved | undefined;
  /** While no slot is in use, for a group: when to check whether it can be deleted. */
  idleAt = 0;
  slot = NOWHERE;
  #log: StartLog | undefined;
  #slotsInUse: Slots | undefined;

  constructor(name: string, group: string | null, rate: RateState | undefined) {
    this.name = name;
    this.group = group;
    this.rate = rate;
    this.keyState = rate === undefined ? newKeyState() : new RateKeyState(rate);
  }

  get log(): StartLog | undefined {
    return this.rate === undefined ? this.#log : this.rate.log;
  }

  get hasSlotsInUse(): boolean {
    return this.#slotsInUse !== undefined && this.#slotsInUse.size > 0;
  }

  slotsInUse(time: number): SlotsInUse {
    return this.#slotsInUse === undefined ? NO_SLOTS : this.#slotsInUse.at(time, this.keyState.openUntil);
  }

  used({ windowMs }: Quota, time: number): number {
    const { log } = this;
    return log === undefined || windowMs === null ? 0 : windowUsed(log, viewOf(log, windowMs), time);
  }

  /** The claimant waits for slots, and has none. */
  starve(claimant: string, time: number): void {
    this.starved = starve(this.starved, claimant, time);
  }

  /** Those that wait were woken up. */
  wokeUp(): void {
    this.awaited = false;
    this.awaitedByBrought = false;
    this.starved = undefined;
  }

  /** Charges a start, whether or not it fits. `until`: when its slots expire. */
  charge(rule: LimitRule, charge: Charge, time: number, until: number | null, granted?: Granted): Charged {
    this.counted = true;
    chargeKey(this.keyState, charge, time, granted);
    const charged: Charged = {
      limitState: this,
      rule,
      charge,
      at: time,
      granted,
      keyState: this.keyState,
      entry: undefined,
      slotUse: undefined,
      shared: false,
    };
    this.chargeMore(charged, rule, charge, until);
    return charged;
  }

  /** Charges one more start of the same claim, which takes no slots. */
  chargeAgain(charged: Charged): void {
    charged.shared = true;
    chargeKey(this.keyState, charged.charge, charged.at, charged.granted);
    if (charged.entry !== undefined) growStart(charged.entry, charged.charge.weight);
  }

  /** The same start, under another rule of this name: it is counted once. */
  chargeMore(charged: Charged, rule: LimitRule, { weight, slots }: Charge, until: number | null): void {
    const { max, windowMs } = quotaOf(rule, this.group);
    if (max !== null && windowMs !== null && charged.entry === undefined) {
      const log = this.log ?? (this.#log = createLog(FEW));
      // A log drops old entries only if a window is read from it.
      viewOf(log, windowMs);
      const { at, granted } = charged;
      charged.entry = granted === undefined ? recordStart(log, at, weight) : grantStart(log, at, weight, granted.until);
    }
    if (charged.slotUse !== undefined) return;
    const takes = takesSlots(rule, this.group);
    // While a start of a group may still be settled, the state of the group must not be deleted.
    const settles = this.rate === undefined && (rule.weight !== null || until !== null);
    if (!takes && !settles) return;
    charged.slotUse = (this.#slotsInUse ??= new Slots()).take(takes ? slots : 0, charged.at, until);
  }

  /** A running job takes slots of the limit from now on. `before`: what its start was charged here, if anything. */
  adopt(before: Charged | undefined, rule: LimitRule, charge: Charge, at: number): Charged {
    this.counted = true;
    const inUse = (this.#slotsInUse ??= new Slots());
    if (before?.slotUse !== undefined && inUse.has(before.slotUse)) {
      inUse.resize(before.slotUse, charge.slots);
      return { ...before, rule };
    }
    const slotUse = inUse.take(charge.slots, at, null);
    if (before !== undefined) return { ...before, rule, slotUse };
    return {
      limitState: this,
      rule,
      charge,
      at,
      granted: undefined,
      // Its start was not counted here: a return must not end the spacing of another one at the same instant.
      keyState: newKeyState(),
      entry: undefined,
      slotUse,
      shared: false,
    };
  }

  /** Does the start have slots of the limit? */
  hasSlots({ rule, slotUse }: Charged): boolean {
    return slotUse !== undefined && takesSlots(rule, this.group) && this.#slotsInUse?.has(slotUse) === true;
  }

  release({ slotUse }: Charged): void {
    if (slotUse !== undefined) this.#slotsInUse?.release(slotUse);
  }

  /** Returns the charge of a start that never happened. */
  cancel({ keyState, charge, at, entry, shared }: Charged): void {
    cancelCharge(keyState, at);
    if (entry !== undefined) shrinkStart(entry, shared ? charge.weight : entry.weight);
  }

  /** Settles what the start really used: of the window, or without one of the slots. */
  settle({ rule, keyState, entry, slotUse }: Charged, used: number, time: number): void {
    if (rule.quota.max === null) {
      if (slotUse !== undefined && quotaOf(rule, this.group).concurrency !== null)
        this.#slotsInUse?.resize(slotUse, used);
    } else if (entry !== undefined) {
      correctCharge(keyState, used - entry.weight - entry.expired);
      settleStart(entry, time, used);
    }
  }

  renew({ slotUse }: Charged, until: number): void {
    if (slotUse !== undefined) this.#slotsInUse?.renew(slotUse, until);
  }

  /** Clears everything but slots in use. */
  reset(): void {
    if (this.rate !== undefined) clearRateState(this.rate);
    this.#log = undefined;
    this.keyState = this.rate === undefined ? newKeyState() : new RateKeyState(this.rate);
  }

  /** Clears everything, slots in use as well. */
  forget(): void {
    this.reset();
    this.counted = false;
    this.#slotsInUse = undefined;
  }

  /** When its window, spacing, hold and remaining amount have no effect any more; `time` if they have none now. */
  quietAt(rule: LimitRule, time: number): number {
    const { windowMs, everyMs } = quotaOf(rule, this.group);
    const { heldUntil, remainingUntil, calledAt } = this.keyState;
    let at = Math.max(time, heldUntil ?? 0, remainingUntil ?? 0, calledAt === null ? 0 : calledAt + (everyMs ?? 0));
    const { log } = this;
    if (log === undefined) return at;
    if (windowMs !== null) viewOf(log, windowMs);
    let newest = log.tail > log.head ? log.at[(log.tail - 1) & log.mask]! : Number.NEGATIVE_INFINITY;
    for (let entry = log.firstGranted; entry !== undefined; entry = entry.after) newest = Math.max(newest, entry.until);
    for (const view of log.views) at = Math.max(at, Math.max(newest, view.blindFor) + view.windowMs);
    return at;
  }

  /** Can it affect no decision any more? */
  isIdle(rule: LimitRule, time: number): boolean {
    this.#slotsInUse?.expire(time);
    const { everyMs } = quotaOf(rule, this.group);
    return !this.hasSlotsInUse && isKeyIdle(this.keyState, everyMs, time) && this.quietAt(rule, time) <= time;
  }
}

/** The numbers of a limit that has a rate in `rates`: its hold is that of the rate, whichever of the two sets it. */
class RateKeyState implements KeyState {
  latestAt: number | null = null;
  calledAt: number | null = null;
  calledBy: number | null = null;
  calledIn = 0;
  remaining: number | null = null;
  remainingUntil: number | null = null;
  failures = 0;
  openUntil: number | null = null;
  readonly #rate: RateState;

  constructor(rate: RateState) {
    this.#rate = rate;
  }

  get heldUntil(): number | null {
    const { until } = this.#rate.hold;
    return until === Number.NEGATIVE_INFINITY ? null : until;
  }

  set heldUntil(until: number | null) {
    this.#rate.hold.until = until ?? Number.NEGATIVE_INFINITY;
  }
}
