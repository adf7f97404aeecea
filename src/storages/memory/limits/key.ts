import type { Granted } from "../../../limits/key-state.ts";
import type { Charge, LimitRule } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { LimitKey, KeyCharge } from "../../../planner/claim-limits.ts";
import type { Asking, HeavyHeads } from "../heavy-heads.ts";
import type { JobLane } from "../queues.ts";
import type { LimitBook } from "./limit-book.ts";
import { availableOf, type Charged, type MemoryLimitState, decisionOf } from "./limit-state.ts";

/** A claim that asks: which lane it asks for, and which it may take from. */
export interface Looking {
  lane: JobLane | undefined;
  readonly looksAt: Asking["looksAt"];
  /** What it takes is going to be confirmed. */
  readonly granted: Granted | undefined;
}

/** A limit as a claim sees it. Groups for which nothing is counted cost nothing until a start is. */
export class MemoryKey implements LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  /** No other rule of the claim has this name. */
  readonly alone: boolean;
  readonly #limits: LimitBook;
  readonly #heavy: HeavyHeads;
  readonly #looking: Looking;
  readonly #time: number;
  #limitState: MemoryLimitState | undefined;
  /** Where every start counts for one, and under this key only: how many more fit. Undefined: not computed yet. */
  #free: number | undefined;
  readonly #simple: boolean;
  #shared: Charged | undefined;

  constructor(
    limits: LimitBook,
    heavy: HeavyHeads,
    looking: Looking,
    rule: LimitRule,
    group: string | null,
    time: number,
    alone: boolean,
  ) {
    this.rule = rule;
    this.group = group;
    this.#limits = limits;
    this.#heavy = heavy;
    this.#looking = looking;
    this.#time = time;
    this.#limitState = limits.find(rule, group);
    this.alone = alone;
    this.#simple = alone && rule.weight === null;
  }

  get limitState(): MemoryLimitState {
    return (this.#limitState ??= this.#limits.open(this.rule, this.group));
  }

  wait(charge: Charge, priority?: number): Wait {
    const { rule } = this;
    const limitState = this.#limitState;
    if (this.#simple) {
      this.#free ??= availableOf(limitState, rule, this.group, this.#time);
      if (this.#free > 0) return 0;
    }
    const { wait } = decisionOf(limitState, rule, this.group, charge, this.#time);
    if (limitState === undefined) return wait;
    if (wait !== 0) limitState.awaited = true;
    if (wait === NEVER || priority === undefined || rule.weight === null) return wait;
    // Light jobs that fit now and then would keep a heavy one waiting for ever.
    return Math.max(wait, this.#heavy.longest(limitState, rule, this.#time, priority, this.#looking));
  }

  /** Charges a start. Starts of one claim share what need not be kept apart. */
  chargeStart(charge: Charge): Charged {
    const { rule, limitState } = this;
    if (this.#shared !== undefined) {
      limitState.chargeAgain(this.#shared);
      return this.#shared;
    }
    const charged = limitState.charge(rule, charge, this.#time, null, this.#looking.granted);
    if (this.#simple && charged.slotUse === undefined) this.#shared = charged;
    this.#limits.rest(limitState, rule, this.#time);
    return charged;
  }

  /** What is charged belongs to a job, and is counted when that starts (`chargeStart`), which is at once. */
  take(): void {
    if (this.#free !== undefined) this.#free -= 1;
  }
}

/** What the start of one job takes of all its limits: of each name once, also where the claim brought it along. */
export function chargeAll(charges: readonly KeyCharge[]): readonly Charged[] {
  const all: Charged[] = [];
  for (const { key, charge } of charges) {
    const { limitState, alone } = key as MemoryKey;
    const same = alone ? undefined : all.find((one) => one.limitState === limitState);
    if (same === undefined) all.push((key as MemoryKey).chargeStart(charge));
    else limitState.chargeMore(same, key.rule, charge, null);
  }
  return all;
}
