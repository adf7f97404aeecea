import type { Wait } from "./wait.ts";

/** A hold: nothing starts before `until`, because a service said so (a 429 with Retry-After). It only ever moves later. */
export interface Hold {
  until: number;
}

export const createHold = (): Hold => ({ until: Number.NEGATIVE_INFINITY });

export function extendHold(hold: Hold, until: number): void {
  if (until > hold.until) hold.until = until;
}

export function holdWait(hold: Hold, now: number): Wait {
  return Math.max(0, hold.until - now);
}
