import type { JobState } from "../../../core/job.ts";
import type { SqlValue } from "../driver.ts";
import type { Step } from "../step.ts";
import type { JobRow } from "./record.ts";

/** Which jobs of a queue. */
export interface Selection {
  readonly queue: string;
  readonly states: readonly JobState[];
  readonly type: string | null;
  readonly group: string | null;
  /** Added at or after this instant, and before that one. */
  readonly since: number | null;
  readonly until: number | null;
  /** Ended at or before this instant. */
  readonly endedBefore: number | null;
  /** Only jobs that are not asked to stop. */
  readonly unasked?: boolean;
  readonly newestFirst: boolean;
  /** Only after this place in the order. */
  readonly after: number | null;
  readonly limit: number;
}

/** Jobs of a queue in a state, which are bound, along the index that has them: active jobs are those that have a lease. */
export const jobsIn = (state: JobState): string =>
  state === "active"
    ? "sluice_jobs INDEXED BY sluice_jobs_leases WHERE queue = ? AND state = ? AND lease_until > 0"
    : "sluice_jobs WHERE queue = ? AND state = ? AND lease_until IS NULL";

/** Instants of two processes may lie so far apart that the order of adding differs. */
const SLACK_MS = 1_000;

/**
 * The numbers of the jobs, in the order of adding: their rows may be large, and are read one by one. Each state is a range of its
 * own in an index; the ranges are merged here.
 */
export function selectJobs(step: Step, selection: Selection): number[] {
  const { queue, type, group, since, until, endedBefore, newestFirst, after, limit } = selection;
  let where = "";
  const values: SqlValue[] = [];
  const add = (condition: string, value: SqlValue) => {
    where += ` AND ${condition}`;
    values.push(value);
  };
  if (after !== null) add(newestFirst ? "seq < ?" : "seq > ?", after);
  if (since !== null) {
    add("seq >= ?", firstSince(step, since - SLACK_MS));
    add("created_at >= ?", since);
  }
  if (until !== null) {
    add("seq < ?", firstSince(step, until + SLACK_MS));
    add("created_at < ?", until);
  }
  if (type !== null) add("type = ?", type);
  if (group !== null) add("grp = ?", group);
  if (endedBefore !== null) add("finished_at <= ?", endedBefore);
  if (selection.unasked === true) add("cancel_requested = ?", 0);
  const order = newestFirst ? "DESC" : "ASC";
  const states = [...new Set(selection.states)];
  const rows = states.flatMap((state) => {
    const sql = `SELECT seq FROM ${jobsIn(state)}${where} ORDER BY seq ${order} LIMIT +?`;
    return step.sql(sql).all(queue, state, ...values, limit) as Pick<JobRow, "seq">[];
  });
  const seqs = rows.map(({ seq }) => seq);
  if (states.length > 1) seqs.sort((a, b) => (newestFirst ? b - a : a - b));
  return seqs.slice(0, limit);
}

const FIRST = "SELECT min(seq) AS seq FROM sluice_jobs";
const LAST = "SELECT max(seq) AS seq FROM sluice_jobs";
const FROM = "SELECT seq, created_at FROM sluice_jobs WHERE seq >= ? ORDER BY seq LIMIT 1";

/** The place in the order of adding from which on jobs were added at or after `instant`, found by halving. */
function firstSince(step: Step, instant: number): number {
  const { seq: first } = step.sql(FIRST).get() as { readonly seq: number | null };
  if (first === null) return 0;
  let low = first;
  let high = (step.sql(LAST).get() as { readonly seq: number }).seq + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const row = step.sql(FROM).get(middle) as Pick<JobRow, "seq" | "created_at"> | undefined;
    if (row === undefined || row.created_at >= instant) high = middle;
    else low = row.seq + 1;
  }
  return low;
}
