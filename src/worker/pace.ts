/** As many jobs are taken ahead as are begun in this time … */
const AHEAD_MS = 50;
/** … or in this part of a lease, which is not to be used up by waiting … */
const PART_OF_LEASE = 0.1;
/** … and never more than so many. */
const MOST = 500;

/**
 * How many jobs a worker should have in hand beyond those that run: as many as it begins in a moment, by what jobs took of
 * late. So short jobs do not wait for a round trip each, and long ones are left to whoever has a hand free.
 */
export class Pace {
  /** So much time all hands have together in that moment. */
  readonly #handMs: number;
  #ended = 0;
  #tookMs = 0;
  #ahead = 0;

  constructor(leaseMs: number, concurrency: number) {
    this.#handMs = concurrency * Math.min(AHEAD_MS, leaseMs * PART_OF_LEASE);
  }

  /** A call of a handler has ended that took so long. */
  ended(tookMs: number): void {
    this.#ended += 1;
    this.#tookMs += tookMs;
  }

  /** How many to have in hand, by what has ended since this was last asked. */
  ahead(): number {
    if (this.#ended > 0) this.#ahead = Math.min(MOST, Math.floor((this.#handMs * this.#ended) / this.#tookMs));
    this.#ended = 0;
    this.#tookMs = 0;
    return this.#ahead;
  }

  /** What was taken was not begun in time: jobs take longer than they did. */
  slowed(): void {
    this.#ended = 0;
    this.#tookMs = 0;
    this.#ahead = 0;
  }
}
