import type { Wait } from "./wait.ts";

/** A hold: nothing starts before `until`, because a service said so (a 429 with Retry-After). It only ever moves later. */
export interface Pause {
  until: number;
}

export const createPause = (): Pause => ({ until: Number.NEGATIVE_INFINITY });

export function pauseUntil(pause: Pause, until: number): void {
  if (until > pause.until) pause.until = until;
}

export function pauseWait(pause: Pause, now: number): Wait {
  return Math.max(0, pause.until - now);
}
