import { claimantOf, othersWait } from "../../../limits/starved.ts";
import type { Granted } from "../../../limits/key-state.ts";
import type { Charge, LimitRule } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import type { KeyCharge, LimitKey } from "../../../planner/claim-limits.ts";
import { availableOf, decideFor } from "../../../storage/inspected-key.ts";
import type { Book } from "../book.ts";
import { type Asking, sinceOf } from "../heavy-heads.ts";
import type { Lane, Line, StoredJob } from "../lanes.ts";
import type { MemoryQueue } from "../queues.ts";
import type { MemoryKey } from "./key.ts";
import type { Charged, MemoryLimitState } from "./limit-state.ts";

/** A claim under limits, while it plans. */
export interface ClaimStep extends Asking {
  readonly book: Book;
  readonly queue: MemoryQueue;
  readonly request: ClaimRequest;
  /** The lines that it may start jobs of. */
  readonly lines: ReadonlySet<Line>;
  readonly now: number;
  /** The same instant by the clock of the limits. */
  readonly time: number;
  /** No two of its rules have the same name. */
  readonly distinct: boolean;
  /** Its starts will be confirmed. */
  readonly granted: Granted | undefined;
  readonly started: StoredJob[];
  /** The lane that it asks for now. */
  lane: Lane | undefined;
  /** What has slots, refused jobs and started none. */
  readonly full: MemoryLimitState[];
  /** For how long others have waited for slots that it takes, or waits for. */
  othersWaitMs: number;
}

/**
 * A key as one claim sees it. A group without counted starts gets a limit state with its first start. It has a `MemoryKey` and does not
 * extend it: as a derived class, a claim of a hundred jobs under three limits took 7 % longer.
 */
export class ClaimKey implements LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly #step: ClaimStep;
  readonly #key: MemoryKey;
  /** Every start counts for one, and under this key only. */
  readonly #simple: boolean;
  /** Under a simple key: how many more starts fit. Undefined: not computed yet. */
  #available: number | undefined;
  /** Under a simple key where none fits: the wait. The claim charges nothing under it any more, so it stays the same. */
  #wait: Wait | undefined;
  #shared: Charged | undefined;
  /** It took slots of the limit, or was refused any. */
  #noted = false;

  constructor(step: ClaimStep, rule: LimitRule, group: string | null) {
    this.rule = rule;
    this.group = group;
    this.#step = step;
    this.#key = step.book.limits.keyAt(rule, group, step.time);
    this.#simple = step.distinct && rule.weight === null;
  }

  get limitState(): MemoryLimitState {
    return (this.#key.limitState ??= this.#step.book.limits.open(this.rule, this.group));
  }

  wait(charge: Charge, priority?: number): Wait {
    const key = this.#key;
    if (this.#simple) {
      if ((this.#available ??= availableOf(key)) > 0) return 0;
      if (this.#wait !== undefined) return this.#wait;
    }
    let { wait } = decideFor(key, charge);
    if (this.#simple) this.#wait = wait;
    const { limitState } = key;
    if (limitState === undefined) return wait;
    // Light jobs that fit now and then would keep a heavy one waiting for ever.
    if (wait !== NEVER && priority !== undefined && this.rule.weight !== null)
      wait = Math.max(wait, this.#step.book.heavy.longest(key, priority, this.#step, charge));
    if (wait !== 0) {
      limitState.awaited = true;
      const inForce = this.#step.book.limits.rule(this.rule.name);
      if (inForce !== undefined && inForce !== this.rule) limitState.awaitedByBrought = true;
      if (!this.#noted && key.quota.concurrency !== null) {
        this.#noted = true;
        this.#step.full.push(limitState);
      }
    }
    return wait;
  }

  get since(): number {
    return sinceOf(this.#step.lane, this.#key.limitState);
  }

  waitForOwnHeads(priority: number): Wait {
    const { book, lane } = this.#step;
    return book.heavy.longest(this.#key, priority, this.#step, undefined, lane?.line);
  }

  /** Charges a start. Starts of one claim share what need not be kept apart. */
  chargeStart(charge: Charge): Charged {
    const shared = this.#shared;
    if (shared !== undefined) {
      shared.limitState.chargeAgain(shared);
      return shared;
    }
    const { rule, limitState } = this;
    const { book, time, granted } = this.#step;
    const charged = limitState.charge(rule, charge, time, null, granted);
    if (charged.slotUse !== undefined) {
      this.#noted = true;
      if (limitState.starved !== undefined) noteOthers(this.#step, limitState);
    } else if (this.#simple) this.#shared = charged;
    book.limits.rest(limitState, rule, time);
    return charged;
  }

  /** Only counts what is available: `chargeStart` charges the start at once. */
  take(): void {
    if (this.#available !== undefined) this.#available -= 1;
  }
}

/** The claim takes slots of this limit, or waits for some: others may have waited for longer. */
function noteOthers(step: ClaimStep, { starved }: MemoryLimitState): void {
  step.othersWaitMs = Math.max(step.othersWaitMs, othersWait(starved, claimantOf(step.request), step.time));
}

/** These limits have no slots for the claim. */
export function starve(step: ClaimStep): void {
  const claimant = step.full.length === 0 ? undefined : claimantOf(step.request);
  if (claimant === undefined) return;
  for (const limitState of step.full) {
    // It has some all the same: a job was refused before another one started, or among those that a heavy head let look.
    if (step.started.some(({ charges }) => charges.some((one) => one.limitState === limitState))) continue;
    limitState.starve(claimant, step.time);
    if (step.started.length === 0) noteOthers(step, limitState);
  }
}

/** Charges the start of one job under all its limits: once for each name, also if the claim brought a limit of that name along. */
export function chargeAll(charges: readonly KeyCharge[], { distinct }: ClaimStep): readonly Charged[] {
  const all: Charged[] = [];
  for (const { key, charge } of charges) {
    const own = key as ClaimKey;
    const same = distinct ? undefined : all.find(({ limitState }) => limitState === own.limitState);
    if (same === undefined) all.push(own.chargeStart(charge));
    else own.limitState.chargeMore(same, own.rule, charge, null);
  }
  return all;
}
