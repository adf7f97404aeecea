import type { Clock } from "../../core/clock.ts";

/** A line that is slower than this is taken for broken: so many characters a millisecond, 64 KB a second. */
const SLOWEST_LINE = 64;

/**
 * How much longer than its time a call may take because something arrives of its answer, in multiples. Answers are bounded in bytes, so
 * a line on which one takes longer than that is of no use; and a server that says a word now and then ends no call for ever.
 */
const LONGEST = 10;

/** How long it may take to send so many characters, beyond what a short call takes: nothing shows how many have arrived. */
export const sendingMs = (characters: number): number => characters / SLOWEST_LINE;

/** The time of a call, all attempts together: so long without progress, and ten times that at the most. */
export class CallTime {
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

  get left(): number {
    return Math.max(0, this.#deadline - this.#clock.now());
  }

  get passed(): number {
    return this.#clock.now() - this.#start;
  }

  /** Something of the request was taken, or of the answer has come: the time begins anew. */
  progressed(): void {
    this.#deadline = Math.min(this.#clock.now() + this.withinMs, this.#start + LONGEST * this.withinMs);
  }
}
