import { OptionsError } from "../../../core/errors.ts";
import { type AttemptRecord, JOB_STATES, type JobRecord, type LogLine } from "../../../core/job.ts";
import type { Ending, Endings, JobHistory, JobPage, ListQuery } from "../../../storage/job-storage.ts";
import { PageRoom, STEP_BYTES } from "../../../storage/step-bytes.ts";
import type { Step } from "../step.ts";
import { COLUMNS, type JobRow, toRecord } from "./record.ts";
import { readError } from "../../../storage/kept.ts";
import { selectJobs } from "./select.ts";

const FIND = `SELECT ${COLUMNS}, first_due_at FROM sluice_jobs WHERE id = ?`;
const HOLDER = "SELECT job FROM sluice_keys WHERE queue = ? AND key = ? AND expires_at > ?";
const ROW = `SELECT ${COLUMNS} FROM sluice_jobs WHERE seq = ?`;
const ENDING = "SELECT state, result, error FROM sluice_jobs WHERE id = ?";
const SEQ = "SELECT seq FROM sluice_jobs WHERE id = ?";
const ATTEMPTS = `SELECT attempt, started_at, ended_at, worker, error FROM sluice_attempts WHERE job = ? ORDER BY seq`;
const LINES = "SELECT at, attempt, text FROM sluice_log WHERE job = ? ORDER BY seq";

/** A row, and the place that its job takes again when it has backed off. */
type FoundRow = JobRow & { readonly first_due_at: number | null };

export function find(step: Step, ids: readonly string[]): (JobRecord | undefined)[] {
  return ids.map((id) => {
    const row = step.sql(FIND).get(id) as FoundRow | undefined;
    if (row === undefined) return undefined;
    // It has come due; the next claim will write that down.
    const waits = row.state === "scheduled" && row.due_at <= step.now;
    return toRecord(waits ? { ...row, state: "waiting", due_at: row.first_due_at ?? row.due_at } : row, step.skew);
  });
}

/** The job that has the key. */
export function findByKey(step: Step, queue: string, key: string): JobRecord | undefined {
  const holder = step.sql(HOLDER).get(queue, key, step.now) as { readonly job: string } | undefined;
  return holder && find(step, [holder.job])[0];
}

/** Of large results as many as a step may hold, and one more. */
export function endings(step: Step, ids: readonly string[]): Endings {
  const ended: Ending[] = [];
  let size = 0;
  for (const id of ids) {
    if (size >= STEP_BYTES) return { ended, more: true };
    const row = step.sql(ENDING).get(id) as Pick<JobRow, "state" | "result" | "error"> | undefined;
    if (row === undefined) ended.push({ id, state: "gone" });
    else if (row.state === "completed") ended.push({ id, state: row.state, result: row.result });
    else if (row.state === "dead")
      ended.push({ id, state: row.state, error: row.error === null ? null : readError(row.error) });
    else if (row.state === "cancelled") ended.push({ id, state: row.state });
    size += row?.result?.length ?? 0;
  }
  return { ended, more: false };
}

interface AttemptRow {
  readonly attempt: number;
  readonly started_at: number;
  readonly ended_at: number;
  readonly worker: string;
  readonly error: string;
}

export function history(step: Step, id: string): JobHistory {
  const job = step.sql(SEQ).get(id) as Pick<JobRow, "seq"> | undefined;
  if (job === undefined) return { attempts: [], log: [] };
  const attempts = (step.sql(ATTEMPTS).all(job.seq) as AttemptRow[]).map((row): AttemptRecord => ({
    attempt: row.attempt,
    startedAt: row.started_at - step.skew,
    endedAt: row.ended_at - step.skew,
    worker: row.worker,
    error: readError(row.error),
  }));
  const lines = step.sql(LINES).all(job.seq) as LogLine[];
  const log = lines.map(({ at, attempt, text }) => ({ at: at - step.skew, attempt, text }));
  return { attempts, log };
}

export function list(step: Step, query: ListQuery): JobPage {
  const seqs = selectJobs(step, {
    queue: query.queue,
    states: query.states ?? JOB_STATES,
    type: query.type,
    group: query.group,
    since: query.since === null ? null : query.since + step.skew,
    until: query.until === null ? null : query.until + step.skew,
    endedBefore: null,
    newestFirst: true,
    after: query.cursor === null ? null : readCursor(query.cursor),
    limit: query.limit + 1,
  });
  const room = new PageRoom();
  const jobs: JobRecord[] = [];
  for (const seq of seqs.slice(0, query.limit)) {
    const row = step.sql(ROW).get(seq) as JobRow;
    if (!room.take(row)) break;
    jobs.push(toRecord(row, step.skew));
  }
  return { jobs, cursor: seqs.length > jobs.length ? String(seqs[jobs.length - 1]!) : null };
}

/** A cursor is the place of the last job of a page in the order of adding. */
export function readCursor(cursor: string): number {
  if (typeof cursor === "string" && /^[1-9]\d{0,15}$/.test(cursor)) return Number(cursor);
  throw new OptionsError("SqliteStorage", "cursor", cursor, "the `cursor` of a page");
}
