import type { Step } from "../step.ts";
import type { Amount } from "./amount.ts";
import type { ClaimLane } from "./line.ts";
import { WAITING_COLUMNS, waitingRow } from "./record.ts";

const IN_TIME = "(deadline IS NULL OR deadline > ?)";
const FIRST = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND ${IN_TIME}
  ORDER BY due_at, seq LIMIT +?`;
const NEXT = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND (due_at, seq) > (?, ?)
  AND ${IN_TIME} ORDER BY due_at, seq LIMIT +?`;
// The very first of each of many lanes: found by the index, and read by its number.
const FIRST_OF_MANY = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE seq IN (SELECT
  (SELECT seq FROM sluice_jobs WHERE lane = of.value AND state = 'waiting' ORDER BY due_at, seq LIMIT 1)
  FROM json_each(?) AS of)`;

/** Reads the next jobs of a lane, so many at the most. */
export function readNext(step: Step, lane: ClaimLane, count: number, amount: Amount): void {
  const last = lane.rows.at(-1);
  const found =
    last === undefined
      ? step.arrays(FIRST).all(lane.id, step.now, count)
      : step.arrays(NEXT).all(lane.id, last.due_at, last.seq, step.now, count);
  const rows = found.map(waitingRow);
  amount.read(rows);
  lane.whole = rows.length < count;
  if (last === undefined) lane.rows = rows;
  else lane.rows.push(...rows);
}

/** Reads the first job of each of the lanes, in one go. */
export function readFirst(step: Step, lanes: readonly ClaimLane[], amount: Amount): void {
  const byId = new Map(lanes.map((lane) => [lane.id, lane]));
  const rows = step
    .arrays(FIRST_OF_MANY)
    .all(JSON.stringify([...byId.keys()]))
    .map(waitingRow);
  amount.read(rows);
  for (const row of rows) {
    const lane = byId.get(row.lane!)!;
    // One that is too late is in the way of others, which are looked for then.
    if (row.deadline === null || row.deadline > step.now) lane.rows.push(row);
    lane.whole = false;
    byId.delete(row.lane!);
  }
  for (const lane of byId.values()) lane.whole = true;
}
