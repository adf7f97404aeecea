import type { Outcome } from "../../../storage/job-storage.ts";
import { endLeases } from "../limits/leases.ts";
import type { Step } from "../step.ts";
import { KEPT_MS } from "./ended.ts";
import type { JobRow } from "./record.ts";

export type Completed = Extract<Outcome, { to: "completed" }>;

const HELD = "id = ? AND token = ? AND state = 'active'";
const CHANGES = `state = 'completed', finished_at = ?, lease_until = NULL,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.completed})`;
const ONE = `UPDATE sluice_jobs SET ${CHANGES}, result = ? WHERE ${HELD} AND keep_for IS NOT 0`;
const ONE_GONE = `DELETE FROM sluice_jobs WHERE ${HELD} AND keep_for = 0`;
// Outcomes go in as one text, a list of [id, token, result]: measured, a quarter less work than one statement for each.
const MATCH = `sluice_jobs.id = ended.value ->> 0 AND sluice_jobs.token = ended.value ->> 1
  AND sluice_jobs.state = 'active'`;
const MANY = `UPDATE sluice_jobs SET ${CHANGES}, result = ended.value ->> 2 FROM json_each(?) AS ended
  WHERE ${MATCH} AND keep_for IS NOT 0`;
const MANY_GONE = `DELETE FROM sluice_jobs WHERE seq IN
  (SELECT seq FROM json_each(?) AS ended JOIN sluice_jobs ON ${MATCH} WHERE keep_for = 0)`;
const NAMED = " RETURNING id";
const TOLD = " RETURNING id, queue, type, attempt";

/** SQLite ends a text that it takes out of JSON here. */
const NUL = "\\u0000";

/** The way of almost all jobs: one statement for all of them. Answers with those whose lease was lost. */
export function complete(step: Step, outcomes: readonly Completed[]): string[] {
  const stale = new Set(end(step, outcomes));
  const ended = stale.size === 0 ? outcomes : outcomes.filter((outcome) => !stale.has(outcome));
  endLeases(
    step,
    ended.map(({ token }) => token),
    "well",
  );
  return Array.from(stale, ({ id }) => id);
}

function end(step: Step, outcomes: readonly Completed[]): Completed[] {
  const list = listOf(outcomes);
  if (list === undefined) return outcomes.filter((outcome) => !completeOne(step, outcome));
  const { now } = step;
  const told = step.eventsWanted ? TOLD : NAMED;
  const rows = step.sql(MANY + told).all(now, now, list) as Told[];
  if (rows.length < outcomes.length) rows.push(...(step.sql(MANY_GONE + told).all(list) as Told[]));
  if (!step.eventsWanted && rows.length === outcomes.length) return [];
  const done = new Map(rows.map((row) => [row.id, row]));
  const stale: Completed[] = [];
  for (const outcome of outcomes) {
    const row = done.get(outcome.id);
    if (row === undefined) stale.push(outcome);
    else if (step.eventsWanted) tell(step, row);
  }
  return stale;
}

/** Many outcomes as one text. Undefined where they have to be taken one by one: of two for one job the first holds. */
function listOf(outcomes: readonly Completed[]): string | undefined {
  if (outcomes.length === 1 || new Set(outcomes.map(({ id }) => id)).size < outcomes.length) return undefined;
  const list = JSON.stringify(outcomes.map(({ id, token, result }) => [id, token, result]));
  return list.includes(NUL) ? undefined : list;
}

type Told = Pick<JobRow, "id" | "queue" | "type" | "attempt">;

function completeOne(step: Step, { id, token, result }: Completed): boolean {
  const { now } = step;
  if (!step.eventsWanted) {
    return (
      step.sql(ONE).run(now, now, result, id, token).changes !== 0 || step.sql(ONE_GONE).run(id, token).changes !== 0
    );
  }
  const row = step.sql(ONE + TOLD).get(now, now, result, id, token) ?? step.sql(ONE_GONE + TOLD).get(id, token);
  if (row !== undefined) tell(step, row as Told);
  return row !== undefined;
}

function tell(step: Step, { id, queue, type, attempt }: Told): void {
  step.event({ event: "completed", queue, id, type, attempt });
}
