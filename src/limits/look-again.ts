import type { Wait } from "./wait.ts";

/**
 * When to look again at a window that a start is in the way of which is granted and not confirmed yet. Most are confirmed
 * within milliseconds: so first at the instant at which it has left if it was called when calls usually are, then a quarter of
 * the window later, then twice as long after that, and so on; at the latest when it has left for certain. However many such
 * starts there are, those that should have left already are looked at once in a quarter of the window.
 *
 * `age`: how long ago the call was expected; below 0: it is expected later. `certainIn`: when it has left whatever happened.
 */
export function lookAgainIn(age: number, windowMs: number, certainIn: Wait): Wait {
  if (age < windowMs) return Math.min(certainIn, windowMs - age);
  const quarter = windowMs / 4;
  let at = windowMs;
  for (let step = quarter; at <= age; step *= 2) at += step;
  return Math.min(certainIn, Math.max(at - age, quarter));
}

/** By so much of the window a call is expected later than it was asked for, at most: one slow call is no rule. */
export const expectedDelay = (calledInMs: number, windowMs: number): number =>
  Math.max(0, Math.min(calledInMs, windowMs / 4));
