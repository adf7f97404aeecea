import type { Granted } from "../../../limits/key-state.ts";
import type { Charge, LimitRule } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { KeyCharge, LimitKey } from "../../../planner/claim-limits.ts";
import { availableOf, decideFor } from "../../../storage/inspected-key.ts";
import type { Book } from "../book.ts";
import type { Asking } from "../heavy-heads.ts";
import type { Lane } from "../lanes.ts";
import { MemoryKey } from "./key.ts";
import type { Charged, MemoryLimitState } from "./limit-state.ts";

/** A claim: the lane that it asks for now, and the lanes that it may start jobs of. */
export interface Claiming {
  lane: Lane | undefined;
  readonly looksAt: Asking["looksAt"];
  /** Its starts will be confirmed. */
  readonly granted: Granted | undefined;
}

/** A key as one claim sees it. A group without counted starts gets a limit state with its first start. */
export class ClaimKey extends MemoryKey implements LimitKey {
  /** No other rule of the claim has this name. */
  readonly alone: boolean;
  readonly #book: Book;
  readonly #claiming: Claiming;
  /** Every start counts for one, and under this key only. */
  readonly #simple: boolean;
  /** Under a simple key: how many more starts fit. Undefined: not computed yet. */
  #available: number | undefined;
  #shared: Charged | undefined;

  constructor(book: Book, claiming: Claiming, rule: LimitRule, group: string | null, time: number, alone: boolean) {
    super(book.limits.find(rule, group), rule, group, time);
    this.alone = alone;
    this.#book = book;
    this.#claiming = claiming;
    this.#simple = alone && rule.weight === null;
  }

  get opened(): MemoryLimitState {
    return (this.limitState ??= this.#book.limits.open(this.rule, this.group));
  }

  wait(charge: Charge, priority?: number): Wait {
    if (this.#simple && (this.#available ??= availableOf(this)) > 0) return 0;
    const { wait } = decideFor(this, charge);
    if (this.limitState === undefined) return wait;
    if (wait !== 0) this.limitState.awaited = true;
    if (wait === NEVER || priority === undefined || this.rule.weight === null) return wait;
    // Light jobs that fit now and then would keep a heavy one waiting for ever.
    return Math.max(wait, this.#book.heavy.longest(this, priority, this.#claiming));
  }

  /** Charges a start. Starts of one claim share what need not be kept apart. */
  chargeStart(charge: Charge): Charged {
    const { rule, now, opened } = this;
    if (this.#shared !== undefined) {
      opened.chargeAgain(this.#shared);
      return this.#shared;
    }
    const charged = opened.charge(rule, charge, now, null, this.#claiming.granted);
    if (this.#simple && charged.slotUse === undefined) this.#shared = charged;
    this.#book.limits.rest(opened, rule, now);
    return charged;
  }

  /** Only counts what is available: `chargeStart` charges the start at once. */
  take(): void {
    if (this.#available !== undefined) this.#available -= 1;
  }
}

/** Charges the start of one job under all its limits: once for each name, also if the claim brought a limit of that name along. */
export function chargeAll(charges: readonly KeyCharge[]): readonly Charged[] {
  const all: Charged[] = [];
  for (const { key, charge } of charges) {
    const { opened, alone } = key as ClaimKey;
    const same = alone ? undefined : all.find(({ limitState }) => limitState === opened);
    if (same === undefined) all.push((key as ClaimKey).chargeStart(charge));
    else opened.chargeMore(same, key.rule, charge, null);
  }
  return all;
}
