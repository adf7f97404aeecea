import { type SlotsInUse, NO_SLOTS } from "../../../limits/key-state.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import { Heap, NOWHERE, type Slotted } from "../heap.ts";

/** The slots that one start uses. */
export interface SlotUse extends Slotted {
  slots: number;
  readonly at: number;
  /** When they expire; null: the lease of its job ends their use. */
  until: number | null;
}

/** The slots of one limit that are in use, each start for itself: a start releases its slots once. */
export class Slots {
  readonly #all = new Set<SlotUse>();
  readonly #timed = new Heap<SlotUse>((a, b) => a.until! - b.until!);
  #slots = 0;

  get size(): number {
    return this.#all.size;
  }

  has(use: SlotUse): boolean {
    return this.#all.has(use);
  }

  take(slots: number, at: number, until: number | null): SlotUse {
    const use = { slots, at, until, slot: NOWHERE };
    this.#all.add(use);
    this.#slots += slots;
    if (until !== null) this.#timed.add(use);
    return use;
  }

  /** Does nothing if they were released before. */
  release(use: SlotUse): void {
    if (!this.#all.delete(use)) return;
    // Sums of fractions do not return to exactly 0.
    this.#slots = this.#all.size === 0 ? 0 : this.#slots - use.slots;
    if (use.until !== null) this.#timed.remove(use);
  }

  /** The start uses another number of slots, if it still uses any. */
  resize(use: SlotUse, slots: number): void {
    if (!this.#all.has(use)) return;
    this.#slots += slots - use.slots;
    use.slots = slots;
  }

  /** They expire then, if they are still in use. */
  renew(use: SlotUse, until: number): void {
    if (!this.#all.has(use)) return;
    use.until = until;
    this.#timed.moved(use);
  }

  /** The slots in use now. Probes are those that started at `probing` or later. */
  at(now: number, probing: number | null): SlotsInUse {
    this.expire(now);
    if (this.#all.size === 0) return NO_SLOTS;
    let probes = 0;
    if (probing !== null && now >= probing) for (const { at } of this.#all) if (at >= probing) probes += 1;
    const next = this.#timed.first;
    return { slots: this.#slots, probes, expiresIn: next === undefined ? WHEN_RELEASED : next.until! - now };
  }

  /** Releases slots that have expired. */
  expire(now: number): void {
    for (let use = this.#timed.first; use !== undefined && use.until! <= now; use = this.#timed.first) {
      this.release(use);
    }
  }
}
