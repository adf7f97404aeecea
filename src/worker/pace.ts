/** So long before they begin jobs are taken, at the pace of late … */
const AHEAD_MS = 50;
/** … which is only looked at anew after this long: less says nothing. */
const SHORTEST_LOOK_MS = 2;
/** More than so many are never taken ahead. */
const MOST = 500;
/** Leases are not to be used up by waiting. */
const PART_OF_LEASE = 0.1;

/**
 * How many jobs a worker should have in hand beyond those that run: as many as it begins in a moment, at its pace of late.
 * So short jobs do not wait for a round trip each, and long ones are left to whoever has a hand free.
 */
export class Pace {
  readonly #aheadMs: number;
  #since: number;
  #ended = 0;
  #perMs = 0;

  constructor(leaseMs: number, now: number) {
    this.#aheadMs = Math.min(AHEAD_MS, leaseMs * PART_OF_LEASE);
    this.#since = now;
  }

  /** A call of a handler has ended. */
  ended(): void {
    this.#ended += 1;
  }

  /** How many to have in hand. */
  ahead(now: number): number {
    const elapsed = now - this.#since;
    if (elapsed >= SHORTEST_LOOK_MS) {
      this.#perMs = this.#ended / elapsed;
      this.#ended = 0;
      this.#since = now;
    }
    return Math.min(MOST, Math.floor(this.#perMs * this.#aheadMs));
  }

  /** What was taken was not begun in time: it is slower than it seemed. */
  slowed(now: number): void {
    this.#perMs = 0;
    this.#ended = 0;
    this.#since = now;
  }
}
