import type { Outcome } from "../../../storage/job-storage.ts";
import { endLeases } from "../limits/leases.ts";
import type { Step } from "../step.ts";
import { KEPT_MS } from "./ended.ts";
import type { JobRow } from "./record.ts";

export type Completed = Extract<Outcome, { to: "completed" }>;

const HELD = "id = ? AND token = ? AND state = 'active'";
// A statement for each: measured, a list of outcomes as JSON takes a sixth longer for a hundred, and twice as long for one.
const KEEP = `UPDATE sluice_jobs SET state = 'completed', finished_at = ?, lease_until = NULL,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.completed}), result = ? WHERE ${HELD} AND keep_for IS NOT 0`;
const DELETE = `DELETE FROM sluice_jobs WHERE ${HELD} AND keep_for = 0`;
const TOLD = "RETURNING id, queue, type, attempt";
const KEEP_TOLD = `${KEEP} ${TOLD}`;
const DELETE_TOLD = `${DELETE} ${TOLD}`;

/** The way of almost all jobs. Answers with those whose lease was lost. */
export function complete(step: Step, outcomes: readonly Completed[]): string[] {
  const stale: string[] = [];
  const ended: number[] = [];
  for (const outcome of outcomes) {
    if (completeOne(step, outcome)) ended.push(outcome.token);
    else stale.push(outcome.id);
  }
  endLeases(step, ended, "well");
  return stale;
}

type Told = Pick<JobRow, "id" | "queue" | "type" | "attempt">;

function completeOne(step: Step, { id, token, result }: Completed): boolean {
  const { now } = step;
  if (!step.eventsWanted) {
    return (
      step.sql(KEEP).run(now, now, result, id, token).changes !== 0 || step.sql(DELETE).run(id, token).changes !== 0
    );
  }
  const row = step.sql(KEEP_TOLD).get(now, now, result, id, token) ?? step.sql(DELETE_TOLD).get(id, token);
  if (row !== undefined) tell(step, row as Told);
  return row !== undefined;
}

function tell(step: Step, { id, queue, type, attempt }: Told): void {
  step.event({ event: "completed", queue, id, type, attempt });
}
