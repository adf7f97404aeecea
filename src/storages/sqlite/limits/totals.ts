import type { LimitRow } from "./limit-row.ts";
import type { Step } from "../step.ts";

/*
 * How much of a window is in use, without adding up the whole window every time: on the row of the limit stands what was in
 * use at one instant, in a window of one length. A later read subtracts what has left since, along the index.
 * Weights are whole numbers, so the sums are exact. Whatever changes a start changes the total with it.
 */

// The first bounds find the place in the index; the others are exact.
const USED = "SELECT total(n) AS n FROM sluice_starts WHERE limit_id = ? AND at > ? AND ? - at < ?";
const LEFT = `SELECT total(n) AS n FROM sluice_starts WHERE limit_id = ? AND at > ? AND ? - at < ?
  AND at < ? AND ? - at >= ?`;
const SHIFT = "UPDATE sluice_limits SET used = ? WHERE id = ?";
const KEEP = "UPDATE sluice_limits SET window_ms = ?, used = ?, seen_at = ? WHERE id = ?";

/** What selects the starts inside a window: a bound for the index, and the age. */
export const insideOf = (now: number, windowMs: number): [number, number, number] => [
  now - windowMs - 1,
  now,
  windowMs,
];

/** How much of the window is in use. */
export function usedOf(step: Step, row: LimitRow, windowMs: number): number {
  const { now } = step;
  const { id, used, seen_at: seenAt } = row;
  if (row.window_ms !== windowMs || seenAt > now) return sum(step.sql(USED).get(id, ...insideOf(now, windowMs)));
  // Nothing has left that was not there, and nothing at all at the same instant.
  if (used === 0 || seenAt === now) return used;
  return used - sum(step.sql(LEFT).get(id, ...insideOf(seenAt, windowMs), now - windowMs + 1, now, windowMs));
}

const sum = (row: unknown): number => (row as { readonly n: number }).n;

/** The total of a window, as the row of a limit has it. */
export type Total = Pick<LimitRow, "id" | "window_ms" | "used" | "seen_at">;

/** A start of this instant counts for so much more, or less. */
export function shiftTotal(step: Step, row: Total, at: number, by: number): void {
  if (by === 0 || !isInTotal(row, at)) return;
  row.used += by;
  step.sql(SHIFT).run(row.used, row.id);
}

/** A start that counts for so much moves from one instant to another. */
export function moveTotal(step: Step, row: Total, from: number, to: number, n: number): void {
  // Almost always it was in the total, and stays there.
  if (isInTotal(row, from) === isInTotal(row, to)) return;
  shiftTotal(step, row, from, -n);
  shiftTotal(step, row, to, n);
}

/** Is a start of this instant part of the total? */
const isInTotal = ({ window_ms: windowMs, seen_at: seenAt }: Total, at: number): boolean =>
  windowMs !== null && seenAt - at < windowMs;

/** Writes down what is in use now. */
export function keepTotal(step: Step, row: LimitRow, windowMs: number, used: number): void {
  row.window_ms = windowMs;
  row.used = used;
  row.seen_at = step.now;
  step.sql(KEEP).run(windowMs, used, step.now, row.id);
}

/** Before starts are deleted that have left the window: what is taken off later is only what is still there. */
export function settleTotal(step: Step, row: LimitRow): void {
  if (row.window_ms !== null) keepTotal(step, row, row.window_ms, usedOf(step, row, row.window_ms));
}
