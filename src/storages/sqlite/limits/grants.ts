import { quotaOf } from "../../../limits/rule.ts";
import { type Confirmation, confirmInMs, type Grant } from "../../../storage/grants.ts";
import type { KeyCharge } from "../../../planner/claim-limits.ts";
import type { LimitRow } from "./limit-row.ts";
import type { Step } from "../step.ts";
import { moveTotal } from "./totals.ts";
import { groupOf } from "./groups.ts";

const UNCONFIRMED = `SELECT s.seq, s.at, s.granted, s.n, l.id, l.name, l.grp, l.longest, l.window_ms, l.used, l.seen_at
  FROM sluice_starts AS s JOIN sluice_limits AS l ON l.id = s.limit_id WHERE s.claim = ?`;
const CALLED = "UPDATE sluice_starts SET at = ?, claim = NULL WHERE seq = ?";
const DELETE = "DELETE FROM sluice_starts WHERE seq = ?";
const LATE = "UPDATE sluice_limits SET called_at = ? WHERE id = ? AND called_at < ?";
const SPACED = `UPDATE sluice_limits SET called_at = ?, called_by = NULL, called_in = ? WHERE id = ? AND called_by = ?`;

/** A start that is not confirmed, and the total of the window that it may be counted in. */
interface Unconfirmed extends Pick<LimitRow, "id" | "name" | "grp" | "longest" | "window_ms" | "used" | "seen_at"> {
  readonly seq: number;
  readonly at: number;
  readonly granted: number;
  readonly n: number;
}

/** What is to be confirmed of starts that were counted under this number; undefined: nothing of them goes by time. */
export function grantOf(number: number, charges: Iterable<KeyCharge>): Grant | undefined {
  let shortest = Number.POSITIVE_INFINITY;
  for (const { key } of charges) {
    const { max, windowMs, everyMs } = quotaOf(key.rule, key.group);
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
    if (limit !== undefined && limit !== start.id) continue;
    // No call was made after it was confirmed, whatever the clocks of its caller say.
    const at = Math.min(start.granted + calledInMs, step.now + step.error);
    if (isSpaced(step, start)) {
      const { changes } = step.sql(SPACED).run(at, at - start.granted, start.id, number);
      // Another start came after it; only a call that was made too late is later than what that needs.
      if (Number(changes) === 0 && at > start.at) step.sql(LATE).run(at, start.id, at);
    }
    if (start.longest === 0) {
      // It only led here: nothing is counted in a window.
      step.sql(DELETE).run(start.seq);
      continue;
    }
    step.sql(CALLED).run(at, start.seq);
    moveTotal(step, start, start.at, at, start.n);
  }
}

/** Does a rule keep the starts of this limit apart? */
function isSpaced({ rules }: Step, { name, grp }: Unconfirmed): boolean {
  const rule = rules.byName.get(name);
  return rule !== undefined && quotaOf(rule, groupOf(grp)).everyMs !== null;
}
