import { type KeyState, correctCharge, newKeyState } from "../../../limits/key-state.ts";
import { findLimit, type LimitRow, openLimit } from "../limit-row.ts";
import type { Step } from "../step.ts";

const SAVE = `UPDATE sluice_limits SET latest_at = ?, called_at = ?, called_by = ?, pause_until = ?, told_left = ?, told_until = ?, failures = ?,
  open_until = ? WHERE id = ?`;

/** The numbers beside the window. */
export function keyStateOf(row: LimitRow | undefined): KeyState {
  if (row === undefined) return newKeyState();
  return {
    latestAt: row.latest_at,
    calledAt: row.called_at,
    calledBy: row.called_by,
    calledIn: row.called_in,
    heldUntil: row.pause_until,
    remaining: row.told_left,
    remainingUntil: row.told_until,
    failures: row.failures,
    openUntil: row.open_until,
  };
}

export function saveKeyState(step: Step, id: number, keyState: KeyState): void {
  const { latestAt, calledAt, calledBy, heldUntil, remaining, remainingUntil, failures, openUntil } = keyState;
  step.sql(SAVE).run(latestAt, calledAt, calledBy, heldUntil, remaining, remainingUntil, failures, openUntil, id);
}

/** Changes the numbers of a limit, whether or not it has a row. */
export function changeKeyState(step: Step, name: string, grp: string, change: (keyState: KeyState) => void): void {
  const row = findLimit(step, name, grp) ?? openLimit(step, name, 0, grp);
  const keyState = keyStateOf(row);
  change(keyState);
  saveKeyState(step, row.id, keyState);
}

/** A start under this limit used so much more than was charged for it. */
export function chargeMore(step: Step, row: LimitRow, more: number): void {
  if (row.told_left === null || more <= 0) return;
  const keyState = keyStateOf(row);
  correctCharge(keyState, more);
  saveKeyState(step, row.id, keyState);
}
