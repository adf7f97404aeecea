import type { ErrorRecord } from "../../../core/job.ts";
import type { Outcome } from "../../../storage/job-storage.ts";
import type { Step } from "../step.ts";
import { pauseLimit, takeBack } from "../windows.ts";
import { recordFailure } from "./attempts.ts";
import { complete, type Completed } from "./complete.ts";
import { KEPT_MS } from "./ended.ts";
import { LaneMoves } from "./lanes.ts";
import type { JobRow } from "./record.ts";

/** The lease is told by the job's latest token; one that ran out is still its holder's until the sweep takes it away. */
const HELD = "id = ? AND token = ? AND state = 'active'";
const FIND = `SELECT seq, id, queue, type, priority, grp, attempt, started_at, worker, cancel_requested, due_at, limits
  FROM sluice_jobs WHERE ${HELD}`;
const END = `UPDATE sluice_jobs SET state = ?, finished_at = ?, lease_until = NULL, attempt = ?, holds = holds + ?,
  error = coalesce(?, error), delete_at = ? + coalesce(keep_for, ?) WHERE seq = ?`;
const RETURN = `UPDATE sluice_jobs SET state = ?, lane = ?, due_at = ?, lease_until = NULL, worker = NULL, attempt = ?,
  holds = holds + ?, error = coalesce(?, error) WHERE seq = ?`;

export type HeldRow = Pick<
  JobRow,
  | "seq"
  | "id"
  | "queue"
  | "type"
  | "priority"
  | "grp"
  | "attempt"
  | "started_at"
  | "worker"
  | "cancel_requested"
  | "due_at"
>;

/** What the latest start of a job was counted under: ids of limits, each between commas. */
interface Counted {
  readonly limits: string | null;
}

/** Ends leases, and answers with the jobs whose lease was lost. */
export function settle(step: Step, outcomes: readonly Outcome[]): string[] {
  if (outcomes.length === 0) return [];
  const lanes = new LaneMoves(step);
  const stale: string[] = [];
  let run: Completed[] = [];
  const completeRun = () => {
    if (run.length > 0) stale.push(...complete(step, run));
    run = [];
  };
  for (const outcome of outcomes) {
    if (outcome.to === "completed") {
      run.push(outcome);
      continue;
    }
    completeRun();
    if (!release(step, outcome, lanes)) stale.push(outcome.id);
  }
  completeRun();
  lanes.write();
  return stale;
}

/** Every way but completion. */
function release(step: Step, outcome: Exclude<Outcome, { to: "completed" }>, lanes: LaneMoves): boolean {
  const row = step.sql(FIND).get(outcome.id, outcome.token) as (HeldRow & Counted) | undefined;
  if (row === undefined) return false;
  const { error } = outcome;
  const kept = { attempt: row.attempt, holds: 0, error };
  if (outcome.to === "back") {
    kept.attempt -= 1;
    if (outcome.held) kept.holds = 1;
    changeLimits(step, row, outcome);
  } else if (error !== null) {
    recordFailure(step, row, error);
  }
  if (outcome.to === "dead" || outcome.to === "cancelled") {
    end(step, row, outcome.to, kept);
  } else if (row.cancel_requested === 1) {
    // Nobody wants it any more.
    end(step, row, "cancelled", kept);
  } else {
    const dueAt = outcome.to === "retry" || outcome.inMs > 0 ? step.now + outcome.inMs : row.due_at;
    comeBack(step, row, dueAt, kept, lanes);
    const { id, queue, type, attempt } = row;
    step.event({ event: "retried", queue, id, type, attempt, inMs: outcome.inMs, error });
  }
  return true;
}

/** What a service said about its limits, and what was counted without ever having started. */
function changeLimits(step: Step, row: HeldRow & Counted, { hold, unstarted }: Extract<Outcome, { to: "back" }>): void {
  for (const key of hold?.keys ?? []) pauseLimit(step, key, step.now + hold!.forMs);
  if (unstarted === undefined || row.started_at === null || row.limits === null) return;
  for (const key of new Set(unstarted)) takeBack(step, key, row.limits, row.started_at);
  if (unstarted.length > 0) step.everybody = true;
}

/** What a job takes with it when its lease is over. */
interface Kept {
  readonly attempt: number;
  /** How many holds are to be added. */
  readonly holds: number;
  readonly error: ErrorRecord | null;
}

const textOf = (error: ErrorRecord | null): string | null => (error === null ? null : JSON.stringify(error));

export function end(step: Step, row: HeldRow, state: "dead" | "cancelled", { attempt, holds, error }: Kept): void {
  const { id, queue, type, seq } = row;
  step.sql(END).run(state, step.now, attempt, holds, textOf(error), step.now, KEPT_MS[state], seq);
  if (state === "dead") step.event({ event: "dead", queue, id, type, attempt: row.attempt, error: error! });
  else step.event({ event: "cancelled", queue, id, type });
}

/** It is in the queue again. */
export function comeBack(step: Step, row: HeldRow, dueAt: number, kept: Kept, lanes: LaneMoves): void {
  const waits = dueAt <= step.now;
  const lane = waits ? lanes.enter({ ...row, group: row.grp }) : null;
  step
    .sql(RETURN)
    .run(waits ? "waiting" : "scheduled", lane, dueAt, kept.attempt, kept.holds, textOf(kept.error), row.seq);
  step.woken.add(row.queue);
}
