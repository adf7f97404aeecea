import { type KeyState, correctCharge, newKeyState } from "../../../limits/key-state.ts";
import { findLimit, type LimitRow, openLimit } from "../limit-row.ts";
import type { Step } from "../step.ts";

const SAVE = `UPDATE sluice_limits SET latest_at = ?, called_at = ?, called_by = ?, pause_until = ?, told_left = ?, told_until = ?, failures = ?,
  open_until = ? WHERE id = ?`;

/** The numbers beside the window. */
export function gaugeOf(row: LimitRow | undefined): KeyState {
  if (row === undefined) return newKeyState();
  return {
    latestAt: row.latest_at,
    calledAt: row.called_at,
    calledBy: row.called_by,
    calledIn: row.called_in,
    pausedUntil: row.pause_until,
    toldLeft: row.told_left,
    toldUntil: row.told_until,
    failures: row.failures,
    openUntil: row.open_until,
  };
}

export function saveGauge(step: Step, id: number, gauge: KeyState): void {
  const { latestAt, calledAt, calledBy, pausedUntil, toldLeft, toldUntil, failures, openUntil } = gauge;
  step.sql(SAVE).run(latestAt, calledAt, calledBy, pausedUntil, toldLeft, toldUntil, failures, openUntil, id);
}

/** Changes the numbers of a limit, whether or not anything was kept of it before. */
export function changeGauge(step: Step, name: string, grp: string, change: (gauge: KeyState) => void): void {
  const row = findLimit(step, name, grp) ?? openLimit(step, name, 0, grp);
  const gauge = gaugeOf(row);
  change(gauge);
  saveGauge(step, row.id, gauge);
}

/** A start under this limit used so much more than was charged for it. */
export function chargeMore(step: Step, row: LimitRow, more: number): void {
  if (row.told_left === null || more <= 0) return;
  const gauge = gaugeOf(row);
  correctCharge(gauge, more);
  saveGauge(step, row.id, gauge);
}
