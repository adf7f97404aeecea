import type { ErrorRecord } from "../../../core/job.ts";
import type { Step } from "../step.ts";
import type { JobRow } from "./record.ts";

const KEPT = 100;

const INSERT =
  "INSERT INTO sluice_attempts (job, attempt, started_at, ended_at, worker, error) VALUES (?, ?, ?, ?, ?, ?)";
const TRIM = `DELETE FROM sluice_attempts WHERE job = ?
  AND seq <= (SELECT seq FROM sluice_attempts WHERE job = ? ORDER BY seq DESC LIMIT 1 OFFSET ${KEPT})`;

/** Writes down that the attempt under way did not end well. The latest hundred are kept. */
export function recordFailure(
  step: Step,
  { seq, attempt, started_at, worker }: Pick<JobRow, "seq" | "attempt" | "started_at" | "worker">,
  error: ErrorRecord,
): void {
  step.sql(INSERT).run(seq, attempt, started_at ?? step.now, step.now, worker ?? "", JSON.stringify(error));
  step.sql(TRIM).run(seq, seq);
}
