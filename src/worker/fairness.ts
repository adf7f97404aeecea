import { type Clock, systemClock } from "../core/clock.ts";

/** After so many steps and so much time without a turn of the event loop, the worker lets it have one. */
const MOST_STEPS = 8;
const MOST_MS = 10;

/**
 * Makes sure that the event loop has its turn: a storage in this process answers without one, so a busy worker could keep timers,
 * sockets and signals waiting for ever, its own heartbeats among them.
 */
export class Fairness {
  readonly #clock: Clock;
  /** How many turns the event loop has had, of those that were watched for. */
  turns = 0;
  #steps = 0;
  #since = 0;
  /** Resolves at the next turn of the event loop. */
  #turn: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one step. Returns a promise to await if the event loop has waited long enough. */
  step(): Promise<void> | undefined {
    // A fake clock does not advance with the event loop.
    if (this.#clock !== systemClock) return undefined;
    this.#turn ??= this.#watch();
    this.#steps += 1;
    return this.#steps > MOST_STEPS && this.#clock.now() - this.#since >= MOST_MS ? this.#turn : undefined;
  }

  /** The next turn of the event loop. */
  turn(): Promise<void> | undefined {
    if (this.#clock !== systemClock) return undefined;
    return (this.#turn ??= this.#watch());
  }

  #watch(): Promise<void> {
    this.#steps = 0;
    this.#since = this.#clock.now();
    return new Promise((resolve) => {
      this.#clock.after(0, () => {
        this.turns += 1;
        this.#turn = undefined;
        resolve();
      });
    });
  }
}
