import { type KeyState, chargeKey, type SlotsInUse, NO_SLOTS } from "../../../limits/key-state.ts";
import type { Charge } from "../../../limits/rule.ts";
import { findLimit, keyStateOf, type LimitRow, openLimit } from "./limit-row.ts";
import type { Step } from "../step.ts";
import { usedOf } from "./totals.ts";
import { enterStarts, type Granting, grantStarts, lastMoment } from "./windows.ts";
import { slotsInUse } from "./slots.ts";

const TAKE = `UPDATE sluice_limits SET latest_at = ?, called_at = ?, called_by = ?, remaining = ?, window_ms = ?, used = ?,
  seen_at = ? WHERE id = ?`;

/** Stands for the number of this step, until it has one. */
const OURS = -1;

/** Shares an entry with no other start. */
const ALONE = -1;

/**
 * The state of one limit, for one group or for all, as one step sees it, with all that the step has charged so far. `save` writes it.
 */
export class SqliteLimitState {
  readonly name: string;
  readonly grp: string;
  readonly #step: Step;
  /** How much of each window was in use before this step, and when that was. */
  readonly #used = new Map<number, { readonly used: number; readonly at: number }>();
  #row: LimitRow | undefined;
  #keyState: KeyState;
  #slots: SlotsInUse | undefined;
  /** Which start it was last charged for, and how much; how much for all of them, and in how many starts. */
  #latest = 0;
  #charged = 0;
  #taken = 0;
  #starts = 0;
  /** Starts are written, for this window; those less than `#resolution` apart together. */
  #windowMs: number | null = null;
  #resolution = 0;
  /** A rule keeps starts apart. */
  #spaced = false;
  /** The entry of the starts of this step; 0: none. */
  entry = 0;

  constructor(step: Step, name: string, grp: string) {
    this.#step = step;
    this.name = name;
    this.grp = grp;
    this.#row = findLimit(step, name, grp);
    this.#keyState = keyStateOf(this.#row);
    // The start that is about to be decided comes after all that were granted, whatever this process's clock says.
    const latest = this.#row?.latest_at ?? 0;
    if (latest > step.now) step.now = latest;
  }

  get row(): LimitRow | undefined {
    return this.#row;
  }

  get keyState(): KeyState {
    // What this step starts, it starts when it is over: the time may have moved on since (see the constructor).
    if (this.#starts > 0) {
      this.#keyState.latestAt = this.#step.now;
      this.#keyState.calledAt = Math.max(this.#keyState.calledAt!, this.#step.now);
    }
    return this.#keyState;
  }

  get slots(): SlotsInUse {
    this.#slots ??= this.#row === undefined ? NO_SLOTS : slotsInUse(this.#step, this.#row.id, this.#row.open_until);
    return this.#slots;
  }

  /** Are starts kept long enough for this window? */
  keeps(windowMs: number): boolean {
    return this.#row === undefined || this.#row.longest >= windowMs;
  }

  /** From now on they are. */
  keep(windowMs: number): void {
    if (!this.keeps(windowMs)) this.#row = openLimit(this.#step, this.name, windowMs, this.grp);
  }

  /** Starts are counted in this window. */
  watch(windowMs: number, resolution: number): void {
    this.#resolution = this.#windowMs === null ? resolution : Math.min(this.#resolution, resolution);
    this.#windowMs ??= windowMs;
  }

  /** Starts are kept apart. */
  space(): void {
    this.#spaced = true;
  }

  /** How much this step has charged so far. */
  get taken(): number {
    return this.#taken;
  }

  /** How much of a window is in use. */
  used(windowMs: number): number {
    return this.#before(windowMs).used + this.#taken;
  }

  /** Charges start number `start` of this step: once, however many rules look at it; a larger charge adds the difference. */
  take(charge: Charge, start: number, takesSlots: boolean, ttlMs: number | undefined): void {
    const before = this.#latest === start ? this.#charged : 0;
    const weight = Math.max(0, charge.weight - before);
    if (this.#latest !== start) this.#starts += 1;
    this.#latest = start;
    this.#charged = before + weight;
    this.#taken += weight;
    const granted = ttlMs === undefined ? undefined : { by: OURS, until: lastMoment(this.#step, ttlMs) };
    chargeKey(this.#keyState, { ...charge, weight }, this.#step.now, granted);
    if (!takesSlots) return;
    const { slots, probes, expiresIn } = this.slots;
    this.#slots = { slots: slots + charge.slots, probes: probes + 1, expiresIn };
  }

  /**
   * Writes what was charged. Returns the id of the limit. `alone`: the start gets an entry of its own. `granting`: the starts are not
   * called yet.
   */
  save(granting: Granting | undefined, { alone }: { readonly alone: boolean } = { alone: false }): number {
    const step = this.#step;
    const { now } = step;
    const windowMs = this.#windowMs;
    this.#row ??= openLimit(step, this.name, windowMs ?? 0, this.grp);
    const row = this.#row;
    if (this.#starts === 0) return row.id;
    // A log that a window is read from has every start, whatever the rule itself counts.
    const counted = windowMs ?? row.window_ms;
    const before = counted === null ? undefined : this.#before(counted);
    const logged = counted !== null || row.longest > 0;
    if (granting !== undefined && (logged || this.#spaced)) {
      const entry = grantStarts(step, row, logged ? this.#taken : 0, granting);
      if (logged) this.entry = entry;
    } else if (logged) {
      this.entry = enterStarts(step, row, this.#taken, alone ? ALONE : this.#resolution);
    }
    const used = before === undefined ? 0 : before.used + this.#taken;
    const { calledAt, calledBy, remaining } = this.keyState;
    const by = calledBy === OURS ? granting!.number : calledBy;
    step.sql(TAKE).run(now, calledAt, by, remaining, counted, used, before?.at ?? now, row.id);
    return row.id;
  }

  #before(windowMs: number): { readonly used: number; readonly at: number } {
    let before = this.#used.get(windowMs);
    if (before === undefined) {
      const used = this.#row === undefined ? 0 : usedOf(this.#step, this.#row, windowMs);
      this.#used.set(windowMs, (before = { used, at: this.#step.now }));
    }
    return before;
  }
}
