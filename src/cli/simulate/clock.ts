import type { Clock } from "../../core/clock.ts";

/** A clock that the simulation sets. It begins at 0, and has no timers. */
export class VirtualClock implements Clock {
  #now = 0;

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#now;
  }

  after(): () => void {
    throw new Error("a simulated clock has no timers");
  }

  /** Time never goes back. */
  moveTo(at: number): void {
    this.#now = Math.max(this.#now, at);
  }
}

/**
 * Instants and durations that are made up here are multiples of this: a fraction of two, so that sums and differences of
 * them are exact, and what is released at an instant is available at that instant.
 */
const GRAIN_MS = 1 / 1_024;

/** The nearest instant that sums are exact for. */
export function onGrid(ms: number): number {
  return Math.round(ms / GRAIN_MS) * GRAIN_MS;
}

/** The next instant after `now`, at or after `at`. */
export function later(at: number, now: number): number {
  return at > now ? at : now + GRAIN_MS;
}
