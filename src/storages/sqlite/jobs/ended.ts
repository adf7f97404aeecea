import type { ErrorRecord } from "../../../core/job.ts";
import type { Step } from "../step.ts";

const DAY_MS = 86_400_000;

/** How long a job that ended is kept if it does not say so itself. */
export const KEPT_MS = { completed: DAY_MS, cancelled: DAY_MS, dead: 30 * DAY_MS } as const;

const END = `UPDATE sluice_jobs SET state = 'dead', finished_at = ?, error = ?,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.dead}) WHERE seq = ?`;

/** A job that has not started, and never can, is dead. That is no attempt. */
export function endUnstarted(step: Step, seq: number, error: ErrorRecord): void {
  step.sql(END).run(step.now, JSON.stringify(error), step.now, seq);
}
