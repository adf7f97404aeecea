import { NEVER, type Wait } from "../../limits/wait.ts";
import type { Step } from "./step.ts";

/**
 * The log of starts under each name: rows of (when, how many), and on the row of the name the pause set from outside. It is
 * the arithmetic of `limits/window.ts` on rows: at most `max` in any `windowMs`, ages compared by subtraction.
 *
 * Rows are kept for the longest window that was ever asked for. A longer one counts as full until everything that was
 * forgotten before has left it.
 */
export interface LimitRow {
  readonly id: number;
  readonly pause_until: number | null;
  readonly longest: number;
  readonly forgotten_at: number | null;
  /** When the newest start was. Time does not run backwards in a log: nothing is stamped before it. */
  readonly newest: number | null;
}

/** At most `max` in any `windowMs`. */
export interface Window {
  readonly max: number;
  readonly windowMs: number;
}

const FIND = `SELECT id, pause_until, longest, forgotten_at,
    (SELECT max(at) FROM sluice_starts WHERE limit_id = sluice_limits.id) AS newest
  FROM sluice_limits WHERE name = ?`;
const OPEN = `INSERT INTO sluice_limits (name, longest, prune_at) VALUES (?, ?, ?)
  ON CONFLICT (name) DO UPDATE SET longest = max(longest, excluded.longest)`;
const PAUSE = `INSERT INTO sluice_limits (name, longest, prune_at, pause_until) VALUES (?, 0, ?, ?)
  ON CONFLICT (name) DO UPDATE SET pause_until = max(coalesce(pause_until, excluded.pause_until), excluded.pause_until)`;
// The first bound finds the place in the index; the second is exact.
const INSIDE = "limit_id = ? AND at > ? AND ? - at < ?";
const USED = `SELECT total(n) AS used FROM sluice_starts WHERE ${INSIDE}`;
const OLDEST = `SELECT at, n FROM sluice_starts WHERE ${INSIDE} AND n > 0 ORDER BY at, seq LIMIT +?`;
const NEWEST = "SELECT seq, since, token FROM sluice_starts WHERE limit_id = ? ORDER BY at DESC, seq DESC LIMIT 1";
const JOIN = "UPDATE sluice_starts SET at = ?, n = n + ? WHERE seq = ?";
const INSERT = "INSERT INTO sluice_starts (limit_id, at, since, n, token, spent) VALUES (?, ?, ?, ?, ?, ?)";
const TAKE_BACK = `UPDATE sluice_starts SET n = n - 1 WHERE seq = (SELECT seq FROM sluice_starts
  WHERE limit_id = (SELECT id FROM sluice_limits WHERE name = ? AND instr(?, ',' || id || ',') > 0)
    AND at >= ? AND since <= ? AND token IS NULL AND n >= 1 ORDER BY at, seq LIMIT 1)`;

/** What is kept under this name, if anything is. */
export function findLimit(step: Step, name: string): LimitRow | undefined {
  return step.sql(FIND).get(name) as LimitRow | undefined;
}

/** The same, and from now on its starts are kept for at least so long. */
export function openLimit(step: Step, name: string, longest: number): LimitRow {
  const found = findLimit(step, name);
  if (found !== undefined && found.longest >= longest) return found;
  step.sql(OPEN).run(name, longest, step.now + longest);
  return findLimit(step, name)!;
}

/** Nothing starts under this name before `until`. It only ever moves later. */
export function pauseLimit(step: Step, name: string, until: number): void {
  step.sql(PAUSE).run(name, step.now, until);
}

/** How much of the window is in use. */
export function usedOf(step: Step, { id }: LimitRow, windowMs: number): number {
  const { used } = step.sql(USED).get(id, ...inside(step, windowMs)) as { readonly used: number };
  return used;
}

/** When does `weight` more fit? */
export function waitFor(step: Step, row: LimitRow | undefined, { max, windowMs }: Window, weight: number): Wait {
  if (weight > max) return NEVER;
  if (row === undefined) return 0;
  const { now } = step;
  const paused = row.pause_until === null ? 0 : row.pause_until - now;
  const blind = row.forgotten_at === null ? 0 : windowMs - (now - row.forgotten_at);
  const wait = Math.max(0, paused, blind);
  const excess = usedOf(step, row, windowMs) + weight - max;
  if (excess <= 0) return wait;
  return Math.max(wait, freed(step, row, windowMs, excess));
}

/** When so much has left the window. Every row counts for one at least: no more of them need be looked at. */
function freed(step: Step, { id }: LimitRow, windowMs: number, excess: number): Wait {
  const rows = step.sql(OLDEST).all(id, ...inside(step, windowMs), Math.ceil(excess)) as { at: number; n: number }[];
  let left = excess;
  for (const { at, n } of rows) {
    left -= n;
    if (left <= 0) return windowMs - (step.now - at);
  }
  return windowMs;
}

const inside = ({ now }: Step, windowMs: number): [number, number, number] => [now - windowMs - 1, now, windowMs];

/** Counts `n` starts. Those less than `resolution` apart share a row, stamped with the latest of them: never over. */
export function recordStarts(step: Step, { id, newest }: LimitRow, n: number, resolution: number): void {
  const at = Math.max(step.now, newest ?? step.now);
  if (newest !== null) {
    const latest = step.sql(NEWEST).get(id) as { seq: number; since: number; token: number | null };
    if (latest.token === null && (at === latest.since || at - latest.since < resolution)) {
      step.sql(JOIN).run(at, n, latest.seq);
      return;
    }
  }
  step.sql(INSERT).run(id, at, at, n, null, 0);
}

/** Counts a start under a token of its own. `spent`: what was charged for it before, and has left every window. */
export function recordNamed(step: Step, { id, newest }: LimitRow, n: number, token: number, spent = 0): void {
  const at = Math.max(step.now, newest ?? step.now);
  step.sql(INSERT).run(id, at, at, n, token, spent);
}

/**
 * One of the starts counted at this instant never was: that of a job which was counted under `limits`. What it was not
 * counted under, or what was cleared since, has another id and keeps its starts.
 */
export function takeBack(step: Step, name: string, limits: string, startedAt: number): void {
  step.sql(TAKE_BACK).run(name, limits, startedAt, startedAt);
}
