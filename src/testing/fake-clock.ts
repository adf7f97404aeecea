import type { Clock } from "../core/clock.ts";

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock that only `advance` moves. Give it to a limiter as `clock`, then `await clock.advance(1000)`. */
export class FakeClock implements Clock {
  #now = 0;
  /** What the wall clock showed at 0. Not moved along: short advances would be lost in a number of that size. */
  #origin: number;
  readonly #timers = new Set<Timer>();

  /** `wall`: the wall clock at the beginning, in milliseconds since 1970. Default: 2030-01-01. */
  constructor(wall: number = Date.UTC(2030, 0, 1)) {
    this.#origin = wall;
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#origin + this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    // Time has advanced when the wait is over, however short it was.
    const soonest = ms > 0 ? this.#now * (1 + Number.EPSILON) + Number.MIN_VALUE : this.#now;
    const timer = { at: Math.max(soonest, this.#now + ms), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** How many timers are waiting. */
  get timers(): number {
    return this.#timers.size;
  }

  /** How long until the next timer is due, if one is waiting. */
  get nextTimerIn(): number | undefined {
    const next = this.#next(Number.POSITIVE_INFINITY);
    return next && next.at - this.#now;
  }

  /** Advances time, and calls the timers that come due in their order; pending promises settle before, between and after. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#move(timer.at);
      this.#timers.delete(timer);
      timer.callback();
      await settle();
    }
    this.#move(end);
  }

  /** Moves only the wall clock, forwards or back, as an administrator would. */
  stepWall(ms: number): void {
    this.#origin += ms;
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
    return next;
  }

  #move(to: number): void {
    this.#now = to;
  }
}

/** Lets all promises that can settle do so: a macrotask runs only after every microtask. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(undefined);
  });
}
