import { both } from "../limits/compose.ts";
import { createSlots, giveSlots, type Slots, slotsWait, takeSlots } from "../limits/concurrency.ts";
import { createHold, type Hold, holdWait } from "../limits/hold.ts";
import type { Wait } from "../limits/wait.ts";
import { Gate, type GateSettings, type LimiterGate } from "./gate.ts";
import { COUNT_HINT } from "./settings.ts";

/** At most so much at the same time. A token is the state that was charged: after a reset it is not used any more. */
export class SlotsGate extends Gate<Slots> {
  capacity: number;
  protected slots = createSlots();

  constructor(max: number, settings: GateSettings) {
    super(settings);
    this.capacity = max;
  }

  wait(_now: number, weight: number): Wait {
    return slotsWait(this.slots, this.capacity, this.units(weight));
  }

  take(_now: number, weight: number): Slots {
    takeSlots(this.slots, this.units(weight));
    return this.slots;
  }

  override release(token: Slots, weight: number): void {
    giveSlots(token, this.units(weight));
    this.wakeUps.notify();
  }

  cancel(token: Slots, weight: number): void {
    this.release(token, weight);
  }
}

/** The slots of a limiter class. */
export class LimiterSlotsGate extends SlotsGate implements LimiterGate {
  override readonly hint = COUNT_HINT;
  hold: Hold = createHold();
  /** Starts that were recorded without a permit, and have not ended yet. Only these end without one. */
  #recorded = 0;

  get inUse(): number {
    return this.slots.inUse;
  }

  /** Changes the maximum. Waiters that fit now start at once. */
  resize(max: number): void {
    this.capacity = max;
    this.wakeUps.notify();
  }

  /** Time matters only during a hold, which is rare, so the clock is not read otherwise. */
  override wait(_now: number, weight: number): Wait {
    const wait = slotsWait(this.slots, this.capacity, this.units(weight));
    return this.hold.until === Number.NEGATIVE_INFINITY ? wait : both(wait, holdWait(this.hold, this.clock.now()));
  }

  recordStart(): void {
    this.take(0, 1);
    this.#recorded += 1;
  }

  recordCompletion(): void {
    if (this.#recorded === 0) return;
    this.#recorded -= 1;
    this.release(this.slots, 1);
  }

  reset(): void {
    this.slots = createSlots();
    this.#recorded = 0;
    this.hold = createHold();
  }
}
