import type { Step } from "./step.ts";

/** What is kept under one name, for one group or for all: how long starts are kept, how many there are, and what else holds. */
export interface LimitRow {
  readonly id: number;
  readonly name: string;
  /** As in `limits/groups.ts`: '' for all. */
  readonly grp: string;
  /** When the latest start was granted. Time does not run backwards: nothing is decided before it. */
  readonly latest_at: number | null;
  readonly called_at: number | null;
  readonly called_by: number | null;
  readonly called_in: number;
  readonly pause_until: number | null;
  readonly told_left: number | null;
  readonly told_until: number | null;
  readonly failures: number;
  readonly open_until: number | null;
  window_ms: number | null;
  used: number;
  seen_at: number;
  readonly longest: number;
  readonly forgotten_at: number | null;
}

const COLUMNS = `id, name, grp, latest_at, called_at, called_by, called_in, pause_until, told_left, told_until, failures,
    open_until, window_ms, used, seen_at, longest, forgotten_at`;
const FIND = `SELECT ${COLUMNS} FROM sluice_limits WHERE name = ? AND grp = ?`;
const BY_ID = `SELECT ${COLUMNS} FROM sluice_limits WHERE id = ?`;
const OPEN = `INSERT INTO sluice_limits (name, grp, longest, prune_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (name, grp) DO UPDATE SET longest = max(longest, excluded.longest)`;
const PAUSE = `INSERT INTO sluice_limits (name, grp, longest, prune_at, pause_until) VALUES (?, '', 0, ?, ?)
  ON CONFLICT (name, grp) DO UPDATE
    SET pause_until = max(coalesce(pause_until, excluded.pause_until), excluded.pause_until)`;

/** What is kept under this name, if anything is. */
export function findLimit(step: Step, name: string, grp = ""): LimitRow | undefined {
  return step.sql(FIND).get(name, grp) as LimitRow | undefined;
}

export function limitById(step: Step, id: number): LimitRow | undefined {
  return step.sql(BY_ID).get(id) as LimitRow | undefined;
}

/** The same, and from now on its starts are kept for at least so long. */
export function openLimit(step: Step, name: string, longest: number, grp = ""): LimitRow {
  const found = findLimit(step, name, grp);
  if (found !== undefined && found.longest >= longest) return found;
  step.sql(OPEN).run(name, grp, longest, step.now + longest);
  return findLimit(step, name, grp)!;
}

/** Nothing starts under this name before `until`. It only ever moves later. */
export function pauseLimit(step: Step, name: string, until: number): void {
  step.sql(PAUSE).run(name, step.now, until);
}
