import { NEVER, type Wait } from "../../limits/wait.ts";
import type { LimitRow } from "./limit-row.ts";
import type { Step } from "./step.ts";
import { insideOf, shiftTotal, usedOf } from "./totals.ts";

/*
 * The log of starts under each name: rows of (when, how many), and on the row of the name what is kept beside it. It is
 * the arithmetic of `limits/window.ts` on rows: at most `max` in any `windowMs`, ages compared by subtraction.
 *
 * Rows are kept for the longest window that was ever asked for. A longer one counts as full until everything that was
 * forgotten before has left it.
 */

/** At most `max` in any `windowMs`. */
export interface Window {
  readonly max: number;
  readonly windowMs: number;
}

const OLDEST = `SELECT at, n FROM sluice_starts WHERE limit_id = ? AND at > ? AND ? - at < ? AND n > 0
  ORDER BY at, seq LIMIT +?`;
const NEWEST = "SELECT seq, since, token FROM sluice_starts WHERE limit_id = ? ORDER BY at DESC, seq DESC LIMIT 1";
const JOIN = "UPDATE sluice_starts SET at = ?, n = n + ? WHERE seq = ?";
const INSERT =
  "INSERT INTO sluice_starts (limit_id, at, since, n, token, spent) VALUES (?, ?, ?, ?, ?, ?) RETURNING seq";

/** When does `weight` more fit beside `used`? */
export function waitFor(
  step: Step,
  row: LimitRow | undefined,
  { max, windowMs }: Window,
  weight: number,
  used = row === undefined ? 0 : usedOf(step, row, windowMs),
): Wait {
  if (weight > max) return NEVER;
  if (row === undefined) return 0;
  const paused = row.pause_until === null ? 0 : row.pause_until - step.now;
  return Math.max(0, paused, windowWait(step, row, { max, windowMs }, weight, used));
}

/** The same for the window alone. `used` may count starts that are not written down yet: they happen now. */
export function windowWait(
  step: Step,
  row: LimitRow | undefined,
  { max, windowMs }: Window,
  weight: number,
  used: number,
): Wait {
  const excess = used + weight - max;
  if (row === undefined) return excess <= 0 ? 0 : windowMs;
  const blind = row.forgotten_at === null ? 0 : Math.max(0, windowMs - (step.now - row.forgotten_at));
  return excess <= 0 ? blind : Math.max(blind, freed(step, row, windowMs, excess));
}

/** When so much has left the window. Every row counts for one at least: no more of them need be looked at. */
function freed(step: Step, { id }: LimitRow, windowMs: number, excess: number): Wait {
  const rows = step.sql(OLDEST).all(id, ...insideOf(step.now, windowMs), Math.ceil(excess)) as {
    readonly at: number;
    readonly n: number;
  }[];
  let left = excess;
  for (const { at, n } of rows) {
    left -= n;
    if (left <= 0) return windowMs - (step.now - at);
  }
  return windowMs;
}

/**
 * Counts `n` starts, and answers where. Those less than `resolution` apart share a row, stamped with the latest of them:
 * never over. Below 0 nobody shares. The total of the row is not changed.
 */
export function enterStarts(step: Step, { id, newest }: LimitRow, n: number, resolution: number): number {
  const at = Math.max(step.now, newest ?? step.now);
  if (resolution >= 0 && newest !== null && (at === newest || at - newest < resolution)) {
    const latest = step.sql(NEWEST).get(id) as { seq: number; since: number; token: number | null };
    if (latest.token === null && (at === latest.since || at - latest.since < resolution)) {
      step.sql(JOIN).run(at, n, latest.seq);
      return latest.seq;
    }
  }
  return (step.sql(INSERT).get(id, at, at, n, null, 0) as { readonly seq: number }).seq;
}

/** Counts `n` starts that nobody can name, and answers where, and when. */
export function recordStarts(step: Step, row: LimitRow, n: number): { readonly seq: number; readonly at: number } {
  const at = Math.max(step.now, row.newest ?? step.now);
  const seq = enterStarts(step, row, n, 0);
  shiftTotal(step, row, at, n);
  return { seq, at };
}

/**
 * Counts a start under a token of its own. `spent`: what was charged for it before, and has left every window. `until`: so
 * long it is kept at least.
 */
export function recordNamed(step: Step, row: LimitRow, n: number, token: number, spent = 0, until = 0): void {
  const at = Math.max(step.now, row.newest ?? step.now);
  step.sql(INSERT).get(row.id, at, Math.max(at, until), n, token, spent);
  shiftTotal(step, row, at, n);
}
