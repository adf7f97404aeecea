import type { Wait } from "./wait.ts";

/**
 * When to look again at a window that is full because of a start that is granted and not confirmed yet. Most are confirmed
 * within milliseconds. So the first look is at the instant at which the start leaves the window if its call took the usual time, the next a quarter of
 * the window later, then after twice as long, and so on; the last when it has left for certain. However many such
 * starts there are, those that should have left already cause one look per quarter of the window.
 *
 * `age`: how long ago the call was expected; below 0: it is expected later. `certainIn`: when it has left for certain.
 */
export function lookAgainIn(age: number, windowMs: number, certainIn: Wait): Wait {
  if (age < windowMs) return Math.min(certainIn, windowMs - age);
  const quarter = windowMs / 4;
  let at = windowMs;
  for (let step = quarter; at <= age; step *= 2) at += step;
  return Math.min(certainIn, Math.max(at - age, quarter));
}

/** The expected delay of a call is at most this part of the window, so that one slow call has little effect. */
export const expectedDelay = (calledInMs: number, windowMs: number): number =>
  Math.max(0, Math.min(calledInMs, windowMs / 4));
