import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";

/** How long closing waits for what is under way. */
const LAST_WORDS_MS = 2_000;

/** What was called and is not done, for whoever has to wait until it is. */
export class UnderWay {
  readonly #clock: Clock;
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async through<T>(call: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await call();
    } finally {
      this.#count -= 1;
      if (this.#count === 0) for (const goOn of this.#waiting.splice(0)) goOn();
    }
  }

  /** Nothing is under way any more; or the server does not answer. */
  async over(): Promise<void> {
    if (this.#count === 0) return;
    const over = () => new Promise<void>((resolve) => this.#waiting.push(resolve));
    await inTime(this.#clock, over, { withinMs: LAST_WORDS_MS }).catch(() => {});
  }
}
