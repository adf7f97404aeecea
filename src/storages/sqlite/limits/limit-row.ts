import { type KeyState, correctCharge, holdKey, newKeyState } from "../../../limits/key-state.ts";
import type { Step } from "../step.ts";
import { hasSlots } from "./slots.ts";

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
  readonly held_until: number | null;
  readonly remaining: number | null;
  readonly remaining_until: number | null;
  readonly failures: number;
  readonly open_until: number | null;
  window_ms: number | null;
  used: number;
  seen_at: number;
  readonly longest: number;
  readonly forgotten_at: number | null;
  /** 1: something was refused since the latest wake-up: a permit, or of a limit for all a job. Only of limits with slots. */
  readonly awaited: number;
  /** Who waits for its slots without having any, and since when (`limits/starved.ts`). */
  readonly starved_by: string | null;
  readonly starved_since: number | null;
}

const COLUMNS = `id, name, grp, latest_at, called_at, called_by, called_in, held_until, remaining, remaining_until, failures,
    open_until, window_ms, used, seen_at, longest, forgotten_at, awaited, starved_by, starved_since`;
const FIND = `SELECT ${COLUMNS} FROM sluice_limits WHERE name = ? AND grp = ?`;
const BY_ID = `SELECT ${COLUMNS} FROM sluice_limits WHERE id = ?`;
const OPEN = `INSERT INTO sluice_limits (name, grp, longest, prune_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (name, grp) DO UPDATE SET longest = max(longest, excluded.longest)`;
const SAVE = `UPDATE sluice_limits SET latest_at = ?, called_at = ?, called_by = ?, held_until = ?, remaining = ?, remaining_until = ?, failures = ?,
  open_until = ? WHERE id = ?`;
const FORGET = "DELETE FROM sluice_starts WHERE limit_id = ?";
const DROP = "DELETE FROM sluice_limits WHERE id = ?";
const ANEW = "INSERT INTO sluice_limits (name, grp, longest, prune_at) VALUES (?, ?, ?, ?) RETURNING id";
const MOVE_SLOTS = "UPDATE sluice_slots SET limit_id = ? WHERE limit_id = ?";
const END_SLOTS = "DELETE FROM sluice_slots WHERE limit_id = ?";

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

/** The numbers beside the window. */
export function keyStateOf(row: LimitRow | undefined): KeyState {
  if (row === undefined) return newKeyState();
  return {
    latestAt: row.latest_at,
    calledAt: row.called_at,
    calledBy: row.called_by,
    calledIn: row.called_in,
    heldUntil: row.held_until,
    remaining: row.remaining,
    remainingUntil: row.remaining_until,
    failures: row.failures,
    openUntil: row.open_until,
  };
}

export function saveKeyState(step: Step, id: number, keyState: KeyState): void {
  const { latestAt, calledAt, calledBy, heldUntil, remaining, remainingUntil, failures, openUntil } = keyState;
  step.sql(SAVE).run(latestAt, calledAt, calledBy, heldUntil, remaining, remainingUntil, failures, openUntil, id);
}

export function changeKeyState(step: Step, row: LimitRow, change: (keyState: KeyState) => void): void {
  const keyState = keyStateOf(row);
  change(keyState);
  saveKeyState(step, row.id, keyState);
}

/** Nothing starts under this limit before `until`: a service said so. It only ever moves later. */
export function holdLimit(step: Step, name: string, grp: string, until: number): void {
  changeKeyState(step, openLimit(step, name, 0, grp), (keyState) => holdKey(keyState, until));
}

/** A start under this limit used so much more than was charged for it. */
export function chargeMore(step: Step, row: LimitRow, more: number): void {
  if (row.remaining !== null && more > 0) changeKeyState(step, row, (keyState) => correctCharge(keyState, more));
}

/** Forgets what was counted. Slots stay in use, under another id: whatever names the old one names nothing then. */
export function resetLimit(step: Step, { id, name, grp, longest }: LimitRow): void {
  step.sql(FORGET).run(id);
  step.sql(DROP).run(id);
  if (!hasSlots(step, id)) return;
  const anew = step.sql(ANEW).get(name, grp, longest, step.now + longest) as { readonly id: number };
  step.sql(MOVE_SLOTS).run(anew.id, id);
}

/** Forgets everything, slots as well. */
export function dropLimit(step: Step, id: number): void {
  step.sql(FORGET).run(id);
  step.sql(END_SLOTS).run(id);
  step.sql(DROP).run(id);
}
