import type { Heartbeat, Lease, Report } from "../../../storage/job-storage.ts";
import { settleCharges, type Weighed } from "../limits/job-charges.ts";
import type { Step } from "../step.ts";
import type { JobRow } from "./record.ts";

const LINES_KEPT = 1_000;

const EXTEND = `UPDATE sluice_jobs SET lease_until = ? WHERE id = ? AND token = ? AND state = 'active' AND lease_until > ?
  RETURNING cancel_requested`;
const FIND = `SELECT seq, token, started_at, limits, queue, type, attempt FROM sluice_jobs
  WHERE id = ? AND token = ? AND state = 'active'`;
const PROGRESS = "UPDATE sluice_jobs SET progress = ? WHERE seq = ?";
const LINE = "INSERT INTO sluice_log (job, at, attempt, text) VALUES (?, ?, ?, ?)";
const TRIM = `DELETE FROM sluice_log WHERE job = ?
  AND seq <= (SELECT seq FROM sluice_log WHERE job = ? ORDER BY seq DESC LIMIT 1 OFFSET ${LINES_KEPT})`;

/** Keeps leases that have not run out. */
export function heartbeat(step: Step, leases: readonly Lease[], leaseMs: number): Heartbeat {
  const lost: string[] = [];
  const cancelled: string[] = [];
  for (const { id, token } of leases) {
    const row = step.sql(EXTEND).get(step.now + leaseMs, id, token, step.now) as
      | Pick<JobRow, "cancel_requested">
      | undefined;
    if (row === undefined) lost.push(id);
    else if (row.cancel_requested === 1) cancelled.push(id);
  }
  return { lost, cancelled };
}

type Reporting = Pick<JobRow, "queue" | "type" | "attempt"> & Weighed;

/** Writes progress, log lines and weights, and answers with the jobs whose lease was lost. */
export function report(step: Step, reports: readonly Report[]): string[] {
  const lost: string[] = [];
  for (const { id, token, progress, log, warnings, weights } of reports) {
    const row = step.sql(FIND).get(id, token) as Reporting | undefined;
    if (row === undefined) {
      lost.push(id);
      continue;
    }
    const { seq, queue, type, attempt } = row;
    for (const text of log ?? []) step.sql(LINE).run(seq, step.now, attempt, text);
    if (log !== undefined && log.length > 0) step.sql(TRIM).run(seq, seq);
    if (weights !== undefined) settleCharges(step, row, weights);
    for (const warning of warnings ?? []) step.event({ event: "warning", queue, id, type, attempt, ...warning });
    if (progress === undefined) continue;
    step.sql(PROGRESS).run(JSON.stringify(progress), seq);
    step.event({ event: "progress", queue, id, type, progress });
  }
  return lost;
}
