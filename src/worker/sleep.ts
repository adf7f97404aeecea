import type { Clock } from "../core/clock.ts";

/** Where a loop sleeps until it is signalled. A signal that comes while it is awake is not lost. */
export class Sleep {
  readonly #clock: Clock;
  #signalled = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Something changed since `begin` was called. */
  get signalled(): boolean {
    return this.#signalled;
  }

  /** What is signalled from here on has not been looked at yet. */
  begin(): void {
    this.#signalled = false;
  }

  signal(): void {
    this.#signalled = true;
    this.#wake?.();
  }

  /** Sleeps for so long, whatever is signalled, unless `enough`. */
  async rest(ms: number, enough: () => boolean): Promise<void> {
    const until = this.#clock.now() + ms;
    for (let left = ms; left > 0 && !enough(); left = until - this.#clock.now()) await this.pause(left);
  }

  /** Sleeps until the next signal, for so long at most. */
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
