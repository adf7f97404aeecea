import type { Work } from "./peers.ts";

/**
 * The least that decides at most `max` starts in any `windowMs`: a ring of the last `max` decisions, a line, one timer.
 * It counts from the decision, not from the call, so a pause between the two (a garbage collection) can still put a call
 * or two too many into a window.
 */
export class MinimalWindow {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #starts: Float64Array;
  #count = 0;
  #line: (() => void)[] = [];
  #served = 0;
  #asleep = false;

  constructor(max: number, windowMs: number) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#starts = new Float64Array(max);
  }

  /** Resolves when it is time to start. */
  acquire(): Promise<void> {
    if (!this.#asleep && this.#take() === 0) return Promise.resolve();
    return new Promise((resolve) => this.#wait(resolve));
  }

  call(fn: Work): Promise<unknown> {
    if (!this.#asleep && this.#take() === 0) return fn();
    return new Promise((resolve, reject) => this.#wait(() => void fn().then(resolve, reject)));
  }

  /** Takes and answers 0, or says how long to wait. */
  #take(): number {
    const now = performance.now();
    const slot = this.#count % this.#max;
    if (this.#count >= this.#max) {
      const wait = this.#windowMs - (now - this.#starts[slot]!);
      if (wait > 0) return wait;
    }
    this.#starts[slot] = now;
    this.#count += 1;
    return 0;
  }

  #wait(start: () => void): void {
    this.#line.push(start);
    if (!this.#asleep) this.#advance();
  }

  #advance(): void {
    this.#asleep = false;
    while (this.#served < this.#line.length) {
      const wait = this.#take();
      if (wait > 0) {
        this.#asleep = true;
        setTimeout(() => this.#advance(), Math.ceil(wait));
        return;
      }
      this.#line[this.#served++]!();
    }
    this.#line = [];
    this.#served = 0;
  }
}
