import { takeTurns, type Unit } from "../../../planner/turns.ts";
import type { Step } from "../step.ts";
import { Amount } from "./amount.ts";
import type { LaneRow, Sibling } from "./lane-rows.ts";
import type { OpenTypes } from "./ready.ts";
import { type JobRow, WAITING_COLUMNS, waitingRow } from "./record.ts";

/** A unit whose turn it is. */
export interface Giving {
  readonly priority: number;
  /** Its next jobs, in order. */
  readonly rows: readonly JobRow[];
  /** All lanes that have their turn with it. Of lanes of many types, those that give something. */
  readonly lanes: readonly Sibling[];
  /** Does it have lanes of many types? */
  readonly many: boolean;
  /** Has its priority no other units? */
  readonly alone: boolean;
}

const ORDER = "ORDER BY due_at, seq LIMIT";
const IN_TIME = "(deadline IS NULL OR deadline > ?)";
const FIRST_OF_LANE = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND ${IN_TIME} ${ORDER} +?`;
const NEXT_OF_LANE = `SELECT ${WAITING_COLUMNS} FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND (due_at, seq) > (?, ?)
  AND ${IN_TIME} ${ORDER} +?`;
// The next job, by the index alone: behind another one of its lane, and the very first of each of many lanes.
const NEXT_HEAD = `SELECT lane, due_at, seq FROM sluice_jobs WHERE lane = ? AND state = 'waiting' AND (due_at, seq) > (?, ?) ${ORDER} 1`;
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
  readonly filled: readonly Sibling[];
  rows: readonly JobRow[];
  lanes: readonly Sibling[];
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
      lanes: siblings[i]!,
      alone: types.isAlone(unit),
      many: filled.some(({ many }) => many === 1),
      take: takes.get(unit)!,
      filled,
    };
  });
  const ones: Share[] = [];
  for (const share of shares) {
    if (share.take === 1 && shares.length > 1) ones.push(share);
    else share.rows = firstOf(step, share, wanted);
  }
  if (ones.length > 0) giveOneEach(step, ones, wanted.maxBytes);
  for (const share of shares) {
    if (!share.many) continue;
    const gave = new Set(share.rows.map(({ lane }) => lane));
    share.lanes = share.lanes.filter(({ id }) => gave.has(id));
  }
  return shares;
}

/** The next jobs of one unit. Of several lanes the index shows how many each of them gives, and only those are read. */
function firstOf(step: Step, { filled, take }: Share, wanted: Wanted): JobRow[] {
  if (filled.length === 1) return firstOfLane(step, filled[0]!.id, take, wanted);
  const heads = headsOf(step, filled, take);
  const counts = new Map<number, number>();
  for (const { lane } of heads) counts.set(lane!, (counts.get(lane!) ?? 0) + 1);
  // Many lanes that give little are read together.
  if (counts.size > take / 2) return [...picked(step, heads, wanted.maxBytes).values()].toSorted(byDue);
  const rows = [...counts].flatMap(([lane, count]) => firstOfLane(step, lane, count, wanted));
  return rows.toSorted(byDue);
}

/** The next jobs of several lanes together, in order. Only the lane that gave one is looked at for the next. */
function headsOf(step: Step, lanes: readonly Sibling[], take: number): Head[] {
  const left = new Map(lanes.map(({ id, waiting }) => [id, waiting]));
  // The first comes last.
  const heads = veryFirst(step, [...left.keys()])
    .filter(({ seq }) => seq !== null)
    .toSorted((a, b) => byDue(b, a));
  const next: Head[] = [];
  while (next.length < take && heads.length > 0) {
    const head = heads.pop()!;
    next.push(head);
    const lane = head.lane!;
    left.set(lane, left.get(lane)! - 1);
    if (left.get(lane)! <= 0) continue;
    const following = step.sql(NEXT_HEAD).get(lane, head.due_at, head.seq) as Head | undefined;
    if (following === undefined) continue;
    let at = heads.length;
    while (at > 0 && byDue(heads[at - 1]!, following) < 0) at -= 1;
    heads.splice(at, 0, following);
  }
  return next;
}

const veryFirst = (step: Step, lanes: readonly number[]): Head[] =>
  step.sql(FIRST_OF_MANY).all(JSON.stringify(lanes)) as Head[];

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
  const heads = veryFirst(
    step,
    shares.flatMap(({ filled }) => filled.map(({ id }) => id)),
  );
  let at = 0;
  const first = shares.map(({ filled }) => heads.slice(at, (at += filled.length)).toSorted(byDue)[0]!);
  const rows = picked(step, first, maxBytes);
  for (const [i, { seq }] of first.entries()) {
    const row = rows.get(seq);
    if (row !== undefined) shares[i]!.rows = [row];
  }
}

/** The rows of these jobs by their numbers, in as few steps as their size allows; of too much data, the first. */
function picked(step: Step, heads: readonly Head[], maxBytes: number): ReadonlyMap<number, JobRow> {
  const found = new Map<number, JobRow>();
  const amount = new Amount();
  for (let from = 0; from < heads.length && amount.bytes <= maxBytes;) {
    const some = heads.slice(from, from + amount.of(heads.length - from));
    const rows = step
      .arrays(PICKED)
      .all(JSON.stringify(some.map(({ seq }) => seq)), step.now)
      .map(waitingRow);
    amount.read(rows);
    for (const row of rows) found.set(row.seq, row);
    from += some.length;
  }
  return found;
}
