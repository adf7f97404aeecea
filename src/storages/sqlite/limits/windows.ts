import { expectedDelay, lookAgainIn } from "../../../limits/look-again.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { LimitRow } from "./limit-row.ts";
import type { Step } from "../step.ts";
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
  AND (at <= ? OR claim IS NULL) ORDER BY at, seq LIMIT +?`;
// Whose last moment has passed counts from there; of the others it is hoped that they were called when calls usually are.
const UNCONFIRMED = `SELECT at, n, granted FROM sluice_starts WHERE limit_id = ? AND at > ? AND n > 0
  AND claim IS NOT NULL`;
// What was given back was never called, and says nothing about calls.
const LATEST_CALL = `SELECT at - granted AS ms FROM sluice_starts WHERE limit_id = ? AND at <= ? AND n > 0 AND claim IS NULL
  ORDER BY at DESC, seq DESC LIMIT 1`;
const NEWEST = `SELECT seq, since, at, token FROM sluice_starts WHERE limit_id = ? AND at <= ? AND claim IS NULL
  ORDER BY at DESC, seq DESC LIMIT 1`;
const JOIN = "UPDATE sluice_starts SET at = ?, n = n + ? WHERE seq = ?";
const INSERT = `INSERT INTO sluice_starts (limit_id, at, since, n, token, spent, granted, claim)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

/** Starts that will be confirmed under this number: called within so long, or never. */
export interface Granting {
  readonly number: number;
  readonly ttlMs: number;
}

/** When a start that is granted now is called at the latest. */
export const lastMoment = ({ now, error }: Step, ttlMs: number): number => now + error + ttlMs;

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
  const paused = row.held_until === null ? 0 : row.held_until - step.now;
  return Math.max(0, paused, windowWait(step, row, { max, windowMs }, weight, used));
}

/** The same for the window alone. Of what is used so much was taken by this step, and is not written down yet: it happens now. */
export function windowWait(
  step: Step,
  row: LimitRow | undefined,
  { max, windowMs }: Window,
  weight: number,
  used: number,
  taken = 0,
): Wait {
  const excess = used + weight - max;
  if (row === undefined) return excess <= 0 ? 0 : windowMs;
  const blind = row.forgotten_at === null ? 0 : Math.max(0, windowMs - (step.now - row.forgotten_at));
  return excess <= 0 ? blind : Math.max(blind, freed(step, row, windowMs, excess, taken));
}

/** Starts that leave the window: what they count for, and when to look. */
interface Leaving {
  readonly n: number;
  readonly wait: Wait;
}

/** When so much has left the window. Every row counts for one at least: no more of them need be looked at. */
function freed(step: Step, { id }: LimitRow, windowMs: number, excess: number, taken: number): Wait {
  const { now } = step;
  const most = Math.ceil(excess);
  const known = step.sql(OLDEST).all(id, ...insideOf(now, windowMs), now, most) as { at: number; n: number }[];
  const leaving = known.map(({ at, n }): Leaving => ({ n, wait: windowMs - (now - at) }));
  const hoped = unconfirmed(step, id, windowMs);
  // What this step has taken itself leaves after a window.
  const rows = [...leaving, ...hoped, { n: taken, wait: windowMs }];
  if (hoped.length > 0) rows.sort((one, other) => one.wait - other.wait);
  let left = excess;
  for (const { n, wait } of rows) {
    left -= n;
    if (left <= 0) return wait;
  }
  return windowMs;
}

/** Those that are granted and not confirmed: few. */
function unconfirmed(step: Step, id: number, windowMs: number): Leaving[] {
  const { now } = step;
  const rows = step.sql(UNCONFIRMED).all(id, now) as { at: number; n: number; granted: number }[];
  if (rows.length === 0) return [];
  const latest = step.sql(LATEST_CALL).get(id, now) as { readonly ms: number | null } | undefined;
  const delay = expectedDelay(latest?.ms ?? 0, windowMs);
  return rows.map(({ at, n, granted }) => {
    return { n, wait: lookAgainIn(now - (granted + delay), windowMs, windowMs - (now - at)) };
  });
}

/**
 * Counts `n` starts, and answers where. Those less than `resolution` apart share a row, stamped with the latest of them:
 * never over. Below 0 no entry is shared. The total of the row is not changed.
 */
export function enterStarts(step: Step, { id }: LimitRow, n: number, resolution: number): number {
  const { now } = step;
  if (resolution >= 0) {
    const latest = step.sql(NEWEST).get(id, now) as
      | { readonly seq: number; readonly since: number; readonly token: number | null }
      | undefined;
    if (latest?.token === null && (now === latest.since || now - latest.since < resolution)) {
      step.sql(JOIN).run(now, n, latest.seq);
      return latest.seq;
    }
  }
  return insert(step, id, now, now, n, null, 0, undefined);
}

/** Counts `n` starts that are not called yet, in a row of their own. */
export function grantStarts(step: Step, { id }: LimitRow, n: number, granting: Granting): number {
  return insert(step, id, lastMoment(step, granting.ttlMs), step.now, n, null, 0, granting);
}

function insert(
  step: Step,
  id: number,
  at: number,
  since: number,
  n: number,
  token: number | null,
  spent: number,
  granting: Granting | undefined,
): number {
  const asked = granting === undefined ? null : step.asked;
  const written = step.sql(INSERT).run(id, at, since, n, token, spent, asked, granting?.number ?? null);
  return Number(written.lastInsertRowid);
}

/** Counts `n` starts without a token, and returns their entry and its time. */
export function recordStarts(step: Step, row: LimitRow, n: number): { readonly seq: number; readonly at: number } {
  const seq = enterStarts(step, row, n, 0);
  shiftTotal(step, row, step.now, n);
  return { seq, at: step.now };
}

/**
 * Counts a start under a token of its own. `spent`: what was charged for it before, and has left every window. `until`: so
 * long it is kept at least.
 */
export function recordNamed(step: Step, row: LimitRow, n: number, token: number, spent = 0, until = 0): void {
  insert(step, row.id, step.now, Math.max(step.now, until), n, token, spent, undefined);
  shiftTotal(step, row, step.now, n);
}

/** The same for a start that is not called yet: the token is the number that it is confirmed under, too. */
export function grantNamed(step: Step, row: LimitRow, n: number, token: number, ttlMs: number): void {
  const at = lastMoment(step, ttlMs);
  insert(step, row.id, at, step.now, n, token, 0, { number: token, ttlMs });
  shiftTotal(step, row, at, n);
}
