/**
 * Every decision in this folder answers one question with one number: in how many milliseconds does this weight fit?
 *
 * - `0`: now.
 * - a number above 0: then exactly, if nobody takes anything before.
 * - `WHEN_RELEASED`: when something that is held is given back; no clock can tell.
 * - `NEVER`: not even into an empty limit.
 */
export type Wait = number;

export const WHEN_RELEASED = Number.POSITIVE_INFINITY;
export const NEVER = -1;
