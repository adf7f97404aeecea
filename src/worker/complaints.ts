import type { Clock } from "../core/clock.ts";

const COMPLAIN_EVERY_MS = 10_000;

/** Where what goes wrong outside of handlers is told. Never throws: whoever listens must not be able to stop a worker. */
export class Complaints {
  readonly #queue: string;
  readonly #clock: Clock;
  readonly #listener: ((error: unknown) => void) | undefined;
  #complainedAt = Number.NEGATIVE_INFINITY;

  constructor(queue: string, clock: Clock, listener: ((error: unknown) => void) | undefined) {
    this.#queue = queue;
    this.#clock = clock;
    this.#listener = listener;
  }

  readonly report = (error: unknown): void => {
    try {
      if (this.#listener === undefined) this.#complain(error);
      else this.#listener(error);
    } catch {
      // There is nobody left to tell.
    }
  };

  /** Nobody listens: a line now and then, for a worker that fails in silence is worse. */
  #complain(error: unknown): void {
    const now = this.#clock.now();
    if (now - this.#complainedAt < COMPLAIN_EVERY_MS) return;
    this.#complainedAt = now;
    // oxlint-disable-next-line no-console -- see above; `onError` takes its place
    console.error(`sluice: worker of queue "${this.#queue}":`, error);
  }
}
