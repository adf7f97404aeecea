import { quotaOf } from "../../../limits/rule.ts";
import { type Confirmation, confirmInMs, type Grant } from "../../../storage/grants.ts";
import type { Use } from "../../../storage/under-limits.ts";
import { limitById } from "../limit-row.ts";
import type { Step } from "../step.ts";
import { shiftTotal } from "../totals.ts";

const UNCONFIRMED = "SELECT seq, limit_id, at, granted, n FROM sluice_starts WHERE claim = ?";
const CALLED = "UPDATE sluice_starts SET at = ?, claim = NULL WHERE seq = ?";
const DELETE = "DELETE FROM sluice_starts WHERE seq = ?";
const SPACED = `UPDATE sluice_limits SET called_at = ?, called_by = NULL, called_in = ? WHERE id = ? AND called_by = ?`;

interface Unconfirmed {
  readonly seq: number;
  readonly limit_id: number;
  readonly at: number;
  readonly granted: number;
  readonly n: number;
}

/** What is to be confirmed of starts that were counted under this number; undefined: nothing of them goes by time. */
export function grantOf(number: number, uses: Iterable<Use>): Grant | undefined {
  let shortest = Number.POSITIVE_INFINITY;
  for (const { meter } of uses) {
    const { max, windowMs, everyMs } = quotaOf(meter.rule, meter.group);
    shortest = Math.min(shortest, (max === null ? null : windowMs) ?? shortest, everyMs ?? shortest);
  }
  return Number.isFinite(shortest) ? { id: String(number), confirmInMs: confirmInMs(shortest) } : undefined;
}

/** The calls were made: their starts count from then. The total of a window goes along with what its starts do. */
export function confirm(step: Step, confirmations: readonly Confirmation[]): void {
  for (const { grant, calledInMs } of confirmations) {
    const number = Number(grant);
    if (Number.isSafeInteger(number)) confirmCalls(step, number, calledInMs, undefined);
  }
}

/** `limit`: only of this one. */
export function confirmCalls(step: Step, number: number, calledInMs: number, limit: number | undefined): void {
  for (const start of step.sql(UNCONFIRMED).all(number) as unknown as Unconfirmed[]) {
    const row = limitById(step, start.limit_id);
    if (row === undefined || (limit !== undefined && limit !== row.id)) continue;
    const at = start.granted + calledInMs;
    step.sql(SPACED).run(at, calledInMs, row.id, number);
    if (row.longest === 0) {
      // It only led here: nothing is counted in a window.
      step.sql(DELETE).run(start.seq);
      continue;
    }
    step.sql(CALLED).run(at, start.seq);
    shiftTotal(step, row, start.at, -start.n);
    shiftTotal(step, row, at, start.n);
  }
}
