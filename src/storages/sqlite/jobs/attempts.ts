import type { ErrorRecord } from "../../../core/job.ts";
import type { Lease } from "../../../storage/job-storage.ts";
import { STALLED } from "../../../storage/stalled.ts";
import type { Step } from "../step.ts";
import type { LaneMoves } from "./lanes.ts";
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

/** A job that nothing has happened to since its latest lease ran out; of those that are dead, only this was their last attempt. */
const STALLED_LAST = `SELECT j.seq, j.queue, j.type, j.priority, j.grp, j.keys, j.state, a.seq AS record
  FROM sluice_jobs j JOIN sluice_attempts a ON a.job = j.seq
  WHERE j.id = ? AND j.token = ? AND a.attempt = j.attempt AND a.started_at = j.started_at
    AND json_extract(a.error, '$.code') = '${STALLED}'
    AND (j.state IN ('waiting', 'scheduled') OR (j.state = 'dead' AND j.attempt >= j.max_attempts))
  ORDER BY a.seq DESC LIMIT 1`;
const FORGET = "DELETE FROM sluice_attempts WHERE seq = ?";
const UNSPEND = `UPDATE sluice_jobs SET attempt = attempt - 1,
  error = (SELECT a.error FROM sluice_attempts a WHERE a.job = sluice_jobs.seq ORDER BY a.seq DESC LIMIT 1) WHERE seq = ?`;
const REVIVE = `UPDATE sluice_jobs SET state = 'waiting', lane = ?, worker = NULL, finished_at = NULL, delete_at = NULL
  WHERE seq = ?`;

type StalledRow = Pick<JobRow, "seq" | "queue" | "type" | "priority" | "grp" | "keys" | "state"> & {
  readonly record: number;
};

/** The handler of this lease was never called: if a sweep has taken the lease away meanwhile, its attempt is given back. */
export function unspend(step: Step, { id, token }: Lease, lanes: LaneMoves): void {
  const row = step.sql(STALLED_LAST).get(id, token) as StalledRow | undefined;
  if (row === undefined) return;
  step.sql(FORGET).run(row.record);
  step.sql(UNSPEND).run(row.seq);
  if (row.state === "dead") step.sql(REVIVE).run(lanes.enter({ ...row, group: row.grp }, true), row.seq);
}
