import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";

/** How long closing waits for open calls. */
const LONGEST_WAIT_MS = 2_000;

/** Counts the calls that were begun and have not ended, so that closing can wait for them. */
export class OpenCalls {
  readonly #clock: Clock;
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async run<T>(call: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await call();
    } finally {
      this.#count -= 1;
      if (this.#count === 0) for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  /** Resolves when no call is open, or when the server has not answered for too long. */
  async ended(): Promise<void> {
    if (this.#count === 0) return;
    const ended = () => new Promise<void>((resolve) => this.#waiting.push(resolve));
    await inTime(this.#clock, ended, { withinMs: LONGEST_WAIT_MS }).catch(() => {});
  }
}
