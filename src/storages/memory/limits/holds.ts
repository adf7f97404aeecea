import { type SlotsInUse, NO_SLOTS } from "../../../limits/key-state.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import { Heap, NOWHERE, type Slotted } from "../heap.ts";

/** What one start holds. */
export interface Hold extends Slotted {
  slots: number;
  readonly at: number;
  /** When it comes back by itself; null: with the lease of its job. */
  until: number | null;
}

/** What is held of one limit, each start for itself: what was given back cannot be given back again. */
export class Holds {
  readonly #all = new Set<Hold>();
  readonly #timed = new Heap<Hold>((a, b) => a.until! - b.until!);
  #slots = 0;

  get size(): number {
    return this.#all.size;
  }

  has(hold: Hold): boolean {
    return this.#all.has(hold);
  }

  take(slots: number, at: number, until: number | null): Hold {
    const hold = { slots, at, until, slot: NOWHERE };
    this.#all.add(hold);
    this.#slots += slots;
    if (until !== null) this.#timed.add(hold);
    return hold;
  }

  /** Nothing happens if it is not held any more. */
  release(hold: Hold): void {
    if (!this.#all.delete(hold)) return;
    // Fractions do not add up to nothing.
    this.#slots = this.#all.size === 0 ? 0 : this.#slots - hold.slots;
    if (hold.until !== null) this.#timed.remove(hold);
  }

  /** It turns out to be another size. */
  resize(hold: Hold, slots: number): void {
    if (!this.#all.has(hold)) return;
    this.#slots += slots - hold.slots;
    hold.slots = slots;
  }

  /** It is kept until then, if it is still held. */
  renew(hold: Hold, until: number): void {
    if (!this.#all.has(hold)) return;
    hold.until = until;
    this.#timed.moved(hold);
  }

  /** What is held now. Probes are those that started at `probing` or later. */
  at(now: number, probing: number | null): SlotsInUse {
    this.expire(now);
    if (this.#all.size === 0) return NO_SLOTS;
    let probes = 0;
    if (probing !== null && now >= probing) for (const { at } of this.#all) if (at >= probing) probes += 1;
    const next = this.#timed.first;
    return { slots: this.#slots, probes, expiresIn: next === undefined ? WHEN_RELEASED : next.until! - now };
  }

  /** What has run out is not held any more. */
  expire(now: number): void {
    for (let hold = this.#timed.first; hold !== undefined && hold.until! <= now; hold = this.#timed.first) {
      this.release(hold);
    }
  }
}
