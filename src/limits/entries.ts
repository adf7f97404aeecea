import { NEVER, type Wait } from "./wait.ts";

/** Starts at one instant: when, and what they count for together. */
export interface Entry {
  readonly at: number;
  readonly weight: number;
}

/** What a window has left, and when there is more. */
export interface WindowRoom {
  /** What fits now. */
  readonly free: number;
  /** When one more than that fits, in milliseconds; 0: now. `NEVER`: the window never holds anything (`max` is 0). */
  readonly nextIn: Wait;
}

/**
 * The same arithmetic as in `window.ts` for starts that are kept as rows: at most `max` in any `windowMs`. `entries` are
 * the starts inside the window, oldest first. Ages are compared by subtraction, which is exact.
 */
export function windowRoom(entries: readonly Entry[], max: number, windowMs: number, now: number): WindowRoom {
  return { free: Math.max(0, freeIn(entries, max)), nextIn: entriesWait(entries, max, windowMs, now, 1) };
}

/** When does `weight` more fit under `max`? */
export function entriesWait(
  entries: readonly Entry[],
  max: number,
  windowMs: number,
  now: number,
  weight: number,
): Wait {
  if (weight > max) return NEVER;
  let excess = weight - freeIn(entries, max);
  let wait = 0;
  for (let i = 0; excess > 0; i++) {
    const { at, weight: freed } = entries[i]!;
    excess -= freed;
    wait = Math.max(wait, windowMs - (now - at));
  }
  return wait;
}

function freeIn(entries: readonly Entry[], max: number): number {
  let free = max;
  for (const { weight } of entries) free -= weight;
  return free;
}
