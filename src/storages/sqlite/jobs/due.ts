import type { ErrorRecord } from "../../../core/job.ts";
import { valuesOf } from "../driver.ts";
import type { Step } from "../step.ts";
import { endUnstarted } from "./ended.ts";
import { LaneMoves } from "./lanes.ts";
import type { JobRow } from "./record.ts";

/** How many jobs come due, or are too late, in one step. */
const STEP = 1_000;

const DUE = `SELECT seq, queue, type, priority, grp, keys FROM sluice_jobs
  WHERE queue = ? AND state = 'scheduled' AND due_at <= ? ORDER BY due_at, seq LIMIT ${STEP}`;
const WAIT = `UPDATE sluice_jobs SET state = 'waiting', lane = ?, due_at = coalesce(first_due_at, due_at),
  first_due_at = NULL, due_wall = NULL WHERE seq = ?`;
const NEXT = `SELECT type, due_at FROM sluice_jobs WHERE queue = ? AND state = 'scheduled' ORDER BY due_at LIMIT +?`;
const NEXT_QUEUE = "SELECT queue FROM sluice_jobs WHERE state = 'scheduled' AND queue > ? ORDER BY queue LIMIT 1";
const LATE = `SELECT seq, id, queue, type, state, lane, attempt FROM sluice_jobs
  WHERE deadline IS NOT NULL AND finished_at IS NULL AND lease_until IS NULL AND deadline <= ?
  ORDER BY deadline LIMIT ${STEP}`;

// Both in one statement, for every claim asks.
const BEHIND = `SELECT
  EXISTS (SELECT 1 FROM sluice_jobs WHERE queue = ? AND state = 'scheduled' AND due_at <= ?) AS due,
  EXISTS (SELECT 1 FROM sluice_jobs WHERE deadline IS NOT NULL AND finished_at IS NULL AND lease_until IS NULL
    AND deadline <= ?) AS late`;

const TOO_LATE: ErrorRecord = {
  name: "JobTimeoutError",
  code: "SLUICE_TIMEOUT",
  message: "the deadline passed before the job could start",
};

type Coming = Pick<JobRow, "type" | "due_at">;
type Due = Pick<JobRow, "seq" | "queue" | "type" | "priority" | "grp" | "keys">;
type Late = Pick<JobRow, "seq" | "id" | "queue" | "type" | "state" | "lane" | "attempt">;

/** Is there a scheduled job of the queue that has come due? */
export function isAnyDue(step: Step, queue: string): boolean {
  const first = step.sql(NEXT).get(queue, 1) as Pick<JobRow, "due_at"> | undefined;
  return first !== undefined && first.due_at <= step.now;
}

/** The queues that have such jobs. */
export function queuesDue(step: Step): string[] {
  return [...step.names(NEXT_QUEUE)].filter((queue) => isAnyDue(step, queue));
}

/** Scheduled jobs of the queue that have come due wait from now on, and jobs that are too late to start are dead. */
export function catchUp(step: Step, queue: string): void {
  const [due, late] = valuesOf(step.arrays(BEHIND).get(queue, step.now, step.now));
  if (due === 1) promoteDue(step, queue);
  if (late === 1) endLate(step);
}

/** Scheduled jobs of the queue that have come due wait from now on. */
export function promoteDue(step: Step, queue: string): void {
  const due = step.sql(DUE).all(queue, step.now) as Due[];
  if (due.length === 0) return;
  // No wake-up: workers have their wake-up time.
  const lanes = new LaneMoves(step, false);
  for (const { seq, type, priority, grp, keys } of due) {
    step.sql(WAIT).run(lanes.enter({ queue, type, priority, group: grp, keys }, true), seq);
  }
  lanes.write();
}

/** How far ahead scheduled jobs are looked through for one whose type is asked for. */
const LOOK_AHEAD = 64;

/** When the next scheduled job of these types comes due, or a little before if many others come first. */
export function nextDueAt(step: Step, queue: string, wanted: (type: string) => boolean): number | null {
  const first = step.sql(NEXT).get(queue, 1) as Pick<JobRow, "type" | "due_at"> | undefined;
  if (first === undefined) return null;
  if (wanted(first.type)) return first.due_at;
  const next = step.sql(NEXT).all(queue, LOOK_AHEAD) as Pick<JobRow, "type" | "due_at">[];
  const found = next.find(({ type }) => wanted(type)) ?? (next.length === LOOK_AHEAD ? next.at(-1) : undefined);
  return found === undefined ? null : found.due_at;
}

/** Scheduled jobs that come due next, as far as it makes sense to look ahead. */
export function comingDue(step: Step, queue: string): { readonly jobs: readonly Coming[]; readonly more: boolean } {
  const jobs = step.sql(NEXT).all(queue, LOOK_AHEAD) as Coming[];
  return { jobs, more: jobs.length === LOOK_AHEAD };
}

/** Will this be the first of the scheduled jobs of its queue to come due; under limits, of its type? */
export function isFirstDue(step: Step, queue: string, type: string, dueAt: number): boolean {
  const first = step.sql(NEXT).get(queue, 1) as Coming | undefined;
  if (first === undefined || dueAt < first.due_at) return true;
  // Limits may keep those of other types back.
  return (
    step.rules.inForce.length > 0 &&
    !comingDue(step, queue).jobs.some((one) => one.type === type && one.due_at <= dueAt)
  );
}

/** Is there a job that can no longer start in time? */
export function isAnyLate(step: Step): boolean {
  return step.sql(LATE).get(step.now) !== undefined;
}

/** Jobs that have not started and whose deadline has passed are dead. That is no attempt. Answers how many. */
export function endLate(step: Step): number {
  const late = step.sql(LATE).all(step.now) as Late[];
  if (late.length === 0) return 0;
  const lanes = new LaneMoves(step);
  for (const { seq, id, queue, type, state, lane, attempt } of late) {
    endUnstarted(step, seq, TOO_LATE);
    if (state === "waiting") lanes.leave(lane!);
    step.event({ event: "dead", queue, id, type, attempt, error: TOO_LATE });
  }
  lanes.write();
  return late.length;
}

/** All of them were looked at, and there may be more. */
export const isFull = (count: number): boolean => count >= STEP;
