import { takeTurns, type Unit } from "../../../planner/turns.ts";
import type { Step } from "../step.ts";
import { Amount } from "./amount.ts";
import type { LaneRow, OpenTypes } from "./ready.ts";
import { type JobRow, WAITING_COLUMNS, waitingRow } from "./record.ts";

/** A unit whose turn it is. */
export interface Giving {
  readonly priority: number;
  /** Its next jobs, in order. */
  readonly rows: readonly JobRow[];
  /** All lanes that have their turn with it. */
  readonly lanes: readonly number[];
}

const ORDER = "ORDER BY due_at, seq LIMIT";
const IN_TIME = "(deadline IS NULL OR deadline > ?)";
const FIRST_OF_LANE = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND ${IN_TIME} ${ORDER} +?`;
const NEXT_OF_LANE = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND (due_at, seq) > (?, ?)
  AND ${IN_TIME} ${ORDER} +?`;
// Who is next, by the index alone: the first of one lane, and the very first of each of many.
const HEADS = `SELECT lane, due_at, seq FROM sluice_jobs WHERE lane = ? AND state = 'waiting' ${ORDER} +?`;
const VERY_FIRST = `FROM sluice_jobs WHERE lane = of.value AND state = 'waiting' ${ORDER} 1`;
const FIRST_OF_MANY = `SELECT of.value AS lane, (SELECT due_at ${VERY_FIRST}) AS due_at, (SELECT seq ${VERY_FIRST}) AS seq
  FROM json_each(?) AS of`;
const PICKED = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE seq IN (SELECT value FROM json_each(?)) AND ${IN_TIME}`;

type Head = Pick<JobRow, "lane" | "due_at" | "seq">;

const byDue = (a: Head, b: Head): number => a.due_at - b.due_at || a.seq - b.seq;

/** How much a claim wants. */
export interface Wanted {
  /** So many start at once, whatever they are; */
  readonly max: number;
  /** so many with those that are prefetched. */
  readonly most: number;
  /** No more data than this of each unit, and one job more. */
  readonly maxBytes: number;
}

/** An attempt may be spent on a prefetched job without its having begun: it must be the first of several. */
export const isPrefetchable = ({ attempt, max_attempts: most }: JobRow): boolean => attempt === 0 && most > 1;

/** The same while it is being made up: it is to give so many, out of these lanes. */
interface Share extends Giving {
  readonly take: number;
  readonly filled: readonly number[];
  rows: readonly JobRow[];
}

/** Those of the units that are to give something, in the order of their turns, and what they give. */
export function giving(step: Step, types: OpenTypes, units: readonly Unit<LaneRow>[], wanted: Wanted): Giving[] {
  const takes = new Map(takeTurns(units, wanted.most).map(({ unit, take }) => [unit, take]));
  const chosen = units.filter((unit) => takes.has(unit));
  const siblings = types.siblings(chosen);
  const shares = chosen.map((unit, i): Share => {
    const filled = siblings[i]!.filter(({ type, waiting }) => waiting > 0 && types.has(type));
    return {
      priority: unit.priority,
      rows: [],
      lanes: siblings[i]!.map(({ id }) => id),
      take: takes.get(unit)!,
      filled: filled.map(({ id }) => id),
    };
  });
  const ones: Share[] = [];
  for (const share of shares) {
    if (share.take === 1 && shares.length > 1) ones.push(share);
    else share.rows = firstOf(step, share, wanted);
  }
  if (ones.length > 0) giveOneEach(step, ones, wanted.maxBytes);
  return shares;
}

/** The next jobs of one unit. Of several lanes the index shows how many each of them gives, and only those are read. */
function firstOf(step: Step, { filled, take }: Share, wanted: Wanted): JobRow[] {
  if (filled.length === 1) return firstOfLane(step, filled[0]!, take, wanted);
  const heads = filled.flatMap((lane) => step.sql(HEADS).all(lane, take) as Head[]);
  const counts = new Map<number, number>();
  for (const { lane } of heads.toSorted(byDue).slice(0, take)) counts.set(lane!, (counts.get(lane!) ?? 0) + 1);
  const rows = [...counts].flatMap(([lane, count]) => firstOfLane(step, lane, count, wanted));
  return rows.toSorted(byDue);
}

function firstOfLane(step: Step, lane: number, take: number, { max, maxBytes }: Wanted): JobRow[] {
  const amount = new Amount();
  let count = amount.of(take);
  const rows = step.arrays(FIRST_OF_LANE).all(lane, step.now, count).map(waitingRow);
  amount.read(rows);
  for (let found = rows.length; found === count && rows.length < take && amount.bytes <= maxBytes;) {
    // Nothing is prefetched behind one that cannot be: the others would be read in vain.
    if (rows.length > max && !rows.slice(max).every(isPrefetchable)) break;
    count = amount.of(take - rows.length);
    const { due_at: dueAt, seq } = rows.at(-1)!;
    const next = step.arrays(NEXT_OF_LANE).all(lane, dueAt, seq, step.now, count).map(waitingRow);
    amount.read(next);
    rows.push(...next);
    found = next.length;
  }
  return rows;
}

/** The very next job of each unit, in as few steps as their size allows. */
function giveOneEach(step: Step, shares: readonly Share[], maxBytes: number): void {
  const heads = step.sql(FIRST_OF_MANY).all(JSON.stringify(shares.flatMap(({ filled }) => filled))) as Head[];
  let at = 0;
  const picked = shares.map(({ filled }) => heads.slice(at, (at += filled.length)).toSorted(byDue)[0]!.seq);
  const amount = new Amount();
  for (let from = 0; from < picked.length && amount.bytes <= maxBytes;) {
    const some = picked.slice(from, from + amount.of(picked.length - from));
    const rows = step.arrays(PICKED).all(JSON.stringify(some), step.now).map(waitingRow);
    amount.read(rows);
    const bySeq = new Map(rows.map((row) => [row.seq, row]));
    for (const [i, seq] of some.entries()) {
      const row = bySeq.get(seq);
      if (row !== undefined) shares[from + i]!.rows = [row];
    }
    from += some.length;
  }
}
