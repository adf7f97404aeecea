import type { ErrorRecord } from "../../../core/job.ts";
import { valueOf } from "../../../limits/rule.ts";
import type { Hold, Outcome } from "../../../storage/job-storage.ts";
import { stateGrpOf } from "../limits/groups.ts";
import { endLeases } from "../limits/release.ts";
import { holdLimit } from "../limits/limit-row.ts";
import { cancelCharges, cancelWeights } from "../limits/job-charges.ts";
import type { Step } from "../step.ts";
import { recordFailure, unspend } from "./attempts.ts";
import { isFirstDue } from "./due.ts";
import { KEPT_MS } from "./ended.ts";
import { LaneMoves } from "./lanes.ts";
import { type JobRow, keyedOf } from "./record.ts";

/** The lease is known by the job's latest token; one that ran out is still its holder's until the sweep takes it away. */
const HELD = "id = ? AND token = ? AND state = 'active'";
const FIND = `SELECT seq, id, queue, type, priority, grp, keys, attempt, started_at, worker, cancel_requested, due_at, token,
    limits
  FROM sluice_jobs WHERE ${HELD}`;
// A statement for each: measured, a list of outcomes as JSON takes a sixth longer for a hundred, and twice as long for one.
const COMPLETE = `UPDATE sluice_jobs SET state = 'completed', finished_at = ?, lease_until = NULL,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.completed}), result = ? WHERE ${HELD} AND keep_for IS NOT 0`;
const DELETE = `DELETE FROM sluice_jobs WHERE ${HELD} AND keep_for = 0`;
const ENDED = "RETURNING queue, type, attempt";
const COMPLETE_ENDED = `${COMPLETE} ${ENDED}`;
const DELETE_ENDED = `${DELETE} ${ENDED}`;
const END = `UPDATE sluice_jobs SET state = ?, finished_at = ?, lease_until = NULL, attempt = ?, holds = holds + ?,
  error = coalesce(?, error), delete_at = ? + coalesce(keep_for, ?) WHERE seq = ?`;
const RETURN = `UPDATE sluice_jobs SET state = ?, lane = ?, due_at = ?, first_due_at = ?, lease_until = NULL, worker = NULL,
  attempt = ?, holds = holds + ?, error = coalesce(?, error) WHERE seq = ?`;

export type HeldRow = Pick<
  JobRow,
  | "seq"
  | "id"
  | "queue"
  | "type"
  | "priority"
  | "grp"
  | "keys"
  | "attempt"
  | "started_at"
  | "worker"
  | "cancel_requested"
  | "due_at"
  | "token"
>;

/** What the latest start of a job took of limits. */
interface Counted {
  readonly limits: string | null;
}

/** Ends leases, and answers with the jobs whose lease was lost. */
export function settle(step: Step, outcomes: readonly Outcome[]): string[] {
  if (outcomes.length === 0) return [];
  let lanes: LaneMoves | undefined;
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
    lanes ??= new LaneMoves(step);
    if (release(step, outcome, lanes)) continue;
    stale.push(outcome.id);
    if (outcome.to === "back" && outcome.unstarted) unspend(step, outcome, lanes);
  }
  completeRun();
  lanes?.write();
  return stale;
}

type Completed = Extract<Outcome, { to: "completed" }>;

/** The way of almost all jobs. Answers with those whose lease was lost. */
function complete(step: Step, outcomes: readonly Completed[]): string[] {
  const stale: string[] = [];
  const ended: number[] = [];
  for (const outcome of outcomes) {
    if (completeOne(step, outcome)) ended.push(outcome.token);
    else stale.push(outcome.id);
  }
  endLeases(step, ended, "well");
  return stale;
}

function completeOne(step: Step, { id, token, result }: Completed): boolean {
  const { now } = step;
  if (!step.eventsWanted) {
    return (
      step.sql(COMPLETE).run(now, now, result, id, token).changes !== 0 || step.sql(DELETE).run(id, token).changes !== 0
    );
  }
  const row = step.sql(COMPLETE_ENDED).get(now, now, result, id, token) ?? step.sql(DELETE_ENDED).get(id, token);
  if (row === undefined) return false;
  const { queue, type, attempt } = row as Pick<JobRow, "queue" | "type" | "attempt">;
  step.event({ event: "completed", queue, id, type, attempt });
  return true;
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
    holdLimits(step, row, outcome.hold);
    if (outcome.unstarted) {
      if (row.started_at !== null) cancelCharges(step, row.limits, row.started_at);
    } else if (outcome.held) cancelWeights(step, row, outcome.settled ?? []);
  } else if (error !== null) {
    recordFailure(step, row, error);
  }
  endLeases(step, [row.token], outcome.to === "retry" || outcome.to === "dead" ? kindsOf(outcome.error) : undefined);
  if (outcome.to === "dead" || outcome.to === "cancelled") {
    end(step, row, outcome.to, kept);
  } else if (row.cancel_requested === 1) {
    // It was asked to stop.
    end(step, row, "cancelled", kept);
  } else {
    comeBack(step, row, outcome.inMs > 0 ? step.now + outcome.inMs : row.due_at, kept, lanes);
    const { id, queue, type, attempt } = row;
    step.event({ event: "retried", queue, id, type, attempt, inMs: outcome.inMs, error });
  }
  return true;
}

/** What a service said about its limits. */
function holdLimits(step: Step, row: HeldRow, hold: Hold | null): void {
  if (hold === null) return;
  const { queue, type } = row;
  const until = step.now + hold.forMs;
  const scope = hold.scope ? step.rules.of(queue, type).filter(({ byGroup }) => !byGroup) : [];
  for (const name of new Set([...hold.names, ...scope.map((rule) => rule.name)])) {
    const rule = step.rules.byName.get(name);
    const grp = rule === undefined ? "" : stateGrpOf(rule, valueOf(rule, keyedOf(row)));
    holdLimit(step, name, grp, until);
  }
}

/** What a breaker knows an error by. */
export const kindsOf = ({ name, code }: ErrorRecord): readonly string[] => (code === undefined ? [name] : [name, code]);

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

/** It is in the queue again: at its old place, when it is due. */
export function comeBack(step: Step, row: HeldRow, dueAt: number, kept: Kept, lanes: LaneMoves): void {
  const waits = dueAt <= step.now;
  const lane = waits ? lanes.enter({ ...row, group: row.grp }, true) : null;
  if (!waits) step.wake(row.queue, isFirstDue(step, row.queue, row.type, dueAt));
  step
    .sql(RETURN)
    .run(
      waits ? "waiting" : "scheduled",
      lane,
      dueAt,
      waits ? null : row.due_at,
      kept.attempt,
      kept.holds,
      textOf(kept.error),
      row.seq,
    );
}
