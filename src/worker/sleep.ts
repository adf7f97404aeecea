import type { Clock } from "../core/clock.ts";

/** Lets a loop sleep until it is signalled. A signal that comes while the loop is awake is not lost. */
export class Sleep {
  readonly #clock: Clock;
  #signalled = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A signal came since `begin` was called. */
  get signalled(): boolean {
    return this.#signalled;
  }

  /** From here on, a signal means that the loop has to run again. */
  begin(): void {
    this.#signalled = false;
  }

  signal(): void {
    this.#signalled = true;
    this.#wake?.();
  }

  /** Sleeps for `ms`, signalled or not, but ends early once `enough` returns true. */
  async rest(ms: number, enough: () => boolean): Promise<void> {
    const until = this.#clock.now() + ms;
    for (let left = ms; left > 0 && !enough(); left = until - this.#clock.now()) await this.pause(left);
  }

  /** Sleeps until the next signal, for at most `ms`. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimer = Number.isFinite(ms) ? this.#clock.after(Math.max(0, ms), () => this.#wake?.()) : () => {};
      this.#wake = () => {
        this.#wake = undefined;
        cancelTimer();
        resolve();
      };
    });
  }
}
