import { createSlots, giveSlots, type Slots, slotsWait, takeSlots } from "../limits/concurrency.ts";
import { both } from "../limits/compose.ts";
import { holdWait } from "../limits/hold.ts";
import type { Wait } from "../limits/wait.ts";
import { type GateSettings, HoldableGate } from "./gate.ts";

/** At most so much at the same time. A token is the state that was charged: after `clear` it is not used any more. */
export class SlotsGate extends HoldableGate<Slots> {
  readonly timed = false;
  #max: number;
  #slots = createSlots();
  /** Starts that were recorded without a permit, and have not ended yet. Only these end without one. */
  #recorded = 0;

  constructor(max: number, settings: GateSettings) {
    super(settings);
    this.#max = max;
  }

  get capacity(): number {
    return this.#max;
  }

  get inUse(): number {
    return this.#slots.inUse;
  }

  /** Changes the maximum. Waiters that fit now start at once. */
  resize(max: number): void {
    this.#max = max;
    this.wakeUps.notify();
  }

  take(_now: number, weight: number): Slots {
    takeSlots(this.#slots, this.units(weight));
    return this.#slots;
  }

  override release(token: Slots, weight: number): void {
    giveSlots(token, this.units(weight));
    this.wakeUps.notify();
  }

  cancel(token: Slots, weight: number): void {
    this.release(token, weight);
  }

  override recordStart(): void {
    super.recordStart();
    this.#recorded += 1;
  }

  override recordCompletion(): void {
    if (this.#recorded === 0) return;
    this.#recorded -= 1;
    this.release(this.#slots, 1);
  }

  override reset(): void {
    this.#slots = createSlots();
    this.#recorded = 0;
    super.reset();
  }

  /** Time matters only during a hold, which is rare, so the clock is not read otherwise. */
  override wait(_now: number, weight: number): Wait {
    const wait = this.fits(0, this.units(weight));
    return this.currentHold.until === Number.NEGATIVE_INFINITY
      ? wait
      : both(wait, holdWait(this.currentHold, this.clock.now()));
  }

  protected fits(_now: number, units: number): Wait {
    return slotsWait(this.#slots, this.#max, units);
  }
}
