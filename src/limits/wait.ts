/**
 * Every decision in this folder answers one question with one number: in how many milliseconds does this weight fit?
 *
 * - `0`: now.
 * - a number above 0: exactly then, if nothing else starts before.
 * - `WHEN_RELEASED`: when a slot is released; the instant is unknown.
 * - `NEVER`: not even into an empty limit.
 */
export type Wait = number;

export const WHEN_RELEASED = Infinity;
export const NEVER = -1;

/** The wait in milliseconds; null: not a matter of time, since it ends with a release or a change, or never. */
export const knownWait = (wait: Wait): number | null => (wait === NEVER || wait === WHEN_RELEASED ? null : wait);
