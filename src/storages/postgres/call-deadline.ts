import type { Clock } from "../../core/clock.ts";

/** A connection that is slower than this counts as broken: so many characters a millisecond, 64 KB a second. */
const SLOWEST = 64;

/**
 * How much longer than its time a call may take while bytes of its answer arrive, as a multiple. Answers are bounded in bytes, so a
 * connection on which one takes longer is of no use; and a server that sends a byte now and then must not keep a call open for ever.
 */
const LONGEST = 10;

/** How long it may take to send so many characters, beyond the time of a short call: how many have arrived is not visible. */
export const sendingMs = (characters: number): number => characters / SLOWEST;

/** The deadline of a call, over all attempts: so long without progress, and ten times that at most. */
export class CallDeadline {
  readonly withinMs: number;
  readonly #clock: Clock;
  readonly #start: number;
  #deadline: number;

  constructor(clock: Clock, withinMs: number) {
    this.#clock = clock;
    this.withinMs = withinMs;
    this.#start = clock.now();
    this.#deadline = this.#start + withinMs;
  }

  get remainingMs(): number {
    return Math.max(0, this.#deadline - this.#clock.now());
  }

  get passedMs(): number {
    return this.#clock.now() - this.#start;
  }

  /** A part of the request was sent, or of the answer received: the time begins anew. */
  progressed(): void {
    this.#deadline = Math.min(this.#clock.now() + this.withinMs, this.#start + LONGEST * this.withinMs);
  }
}
