import { STEP_BYTES } from "../../../storage/step-bytes.ts";
import type { Step } from "../step.ts";
import { type JobRow, WAITING_COLUMNS, waitingRow } from "./record.ts";

const OF_LANE = "FROM sluice_jobs WHERE lane = ? AND state = 'waiting'";
const IN_TIME = "(deadline IS NULL OR deadline > ?)";
const ORDER = "ORDER BY due_at, seq LIMIT";
const FIRST = `SELECT ${WAITING_COLUMNS} ${OF_LANE} AND ${IN_TIME} ${ORDER} +?`;
const NEXT = `SELECT ${WAITING_COLUMNS} ${OF_LANE} AND (due_at, seq) > (?, ?) AND ${IN_TIME} ${ORDER} +?`;
// By the index alone: the job behind another one of its lane, and the very first of each of many lanes.
const NEXT_HEAD = `SELECT lane, due_at, seq ${OF_LANE} AND (due_at, seq) > (?, ?) ${ORDER} 1`;
const HEAD = `FROM sluice_jobs WHERE lane = of.value AND state = 'waiting' ${ORDER} 1`;
const HEADS = `SELECT of.value AS lane, (SELECT due_at ${HEAD}) AS due_at, (SELECT seq ${HEAD}) AS seq FROM json_each(?) AS of`;
const BY_SEQ = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE seq IN (SELECT value FROM json_each(?)) AND ${IN_TIME}`;
// The very first of each of many lanes, found by the index and read by its number, whether or not it is too late to start.
const FIRST_OF_EACH = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE seq IN (SELECT (SELECT seq ${HEAD}) FROM json_each(?) AS of)`;

/** A job by its place in a lane. */
export type JobHead = Pick<JobRow, "lane" | "due_at" | "seq">;

export const byDue = (a: JobHead, b: JobHead): number => a.due_at - b.due_at || a.seq - b.seq;

/** The next jobs of a lane that can start in time, behind `after`: so many at the most. */
export function nextOfLane(step: Step, lane: number, after: JobHead | undefined, count: number): JobRow[] {
  const rows =
    after === undefined
      ? step.arrays(FIRST).all(lane, step.now, count)
      : step.arrays(NEXT).all(lane, after.due_at, after.seq, step.now, count);
  return rows.map(waitingRow);
}

/** The first job of each of the lanes, in no order. It may be too late to start. */
export function firstOfEach(step: Step, lanes: readonly number[]): JobRow[] {
  return step.arrays(FIRST_OF_EACH).all(JSON.stringify(lanes)).map(waitingRow);
}

/** Those of these jobs that can start in time, in no order. */
export function jobsBySeq(step: Step, seqs: readonly number[]): JobRow[] {
  return step.arrays(BY_SEQ).all(JSON.stringify(seqs), step.now).map(waitingRow);
}

/** The heads of the lanes, in the order of these. Of a lane without jobs `seq` is null. */
export function headsOf(step: Step, lanes: readonly number[]): JobHead[] {
  return step.sql(HEADS).all(JSON.stringify(lanes)) as JobHead[];
}

/** The job behind this one in its lane. */
export function nextHead(step: Step, { lane, due_at: dueAt, seq }: JobHead): JobHead | undefined {
  return step.sql(NEXT_HEAD).get(lane, dueAt, seq) as JobHead | undefined;
}

/** So many are read before anything is known of their size. */
const FEW = 16;

/**
 * How many jobs of a claim to read at once: few at first, then, by the size of those, about as many as a claim may answer with. What
 * is read and not started costs as much as what is.
 */
export class Amount {
  /** How long the data is of those that were read. */
  bytes = 0;
  #jobs = 0;

  /** How many to read next, at most `count`. */
  of(count: number): number {
    if (this.#jobs === 0) return Math.min(count, FEW);
    return Math.min(count, Math.max(FEW, Math.floor((STEP_BYTES * this.#jobs) / this.bytes)));
  }

  /** These were read. */
  read(rows: readonly JobRow[]): void {
    this.#jobs += rows.length;
    for (const { data } of rows) this.bytes += data.length;
  }
}
