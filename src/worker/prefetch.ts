/** As many jobs are prefetched as start in this time … */
const PREFETCH_MS = 50;
/** … or in this part of a lease, so that waiting does not use it up … */
const PART_OF_LEASE = 0.1;
/** … and never more than so many. */
const MOST = 500;

/**
 * How many jobs a worker should have prefetched: as many as it starts in `PREFETCH_MS`, by how long recent jobs took. Short jobs
 * then do not wait for a round trip each, and long ones are left to workers with a free slot.
 */
export class PrefetchSize {
  /** The time of all slots together in `PREFETCH_MS`. */
  readonly #slotMs: number;
  #ended = 0;
  #tookMs = 0;
  #size = 0;

  constructor(leaseMs: number, concurrency: number) {
    this.#slotMs = concurrency * Math.min(PREFETCH_MS, leaseMs * PART_OF_LEASE);
  }

  /** Counts a call of a handler that ended after `tookMs`. */
  ended(tookMs: number): void {
    this.#ended += 1;
    this.#tookMs += tookMs;
  }

  /** The size, by the calls that ended since the last time this was called. */
  next(): number {
    if (this.#ended > 0) this.#size = Math.min(MOST, Math.floor((this.#slotMs * this.#ended) / this.#tookMs));
    this.#ended = 0;
    this.#tookMs = 0;
    return this.#size;
  }

  /** Prefetched jobs did not start in time: jobs take longer than they did. */
  reset(): void {
    this.#ended = 0;
    this.#tookMs = 0;
    this.#size = 0;
  }
}
