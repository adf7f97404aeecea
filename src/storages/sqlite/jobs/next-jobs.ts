import { takeTurns, type Unit } from "../../../planner/turns.ts";
import type { Step } from "../step.ts";
import type { LaneRow, Sibling } from "./lane-rows.ts";
import type { OpenTypes } from "./open-types.ts";
import type { JobRow } from "./record.ts";
import { Amount, byDue, headsOf, type JobHead, jobsBySeq, nextHead, nextOfLane } from "./waiting-jobs.ts";

/** A unit whose turn it is. */
export interface ServedUnit {
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
interface Share extends ServedUnit {
  readonly take: number;
  readonly filled: readonly Sibling[];
  rows: readonly JobRow[];
  lanes: readonly Sibling[];
}

/** Those of the units that are to give something, in the order of their turns, and what they give. */
export function nextJobs(step: Step, types: OpenTypes, units: readonly Unit<LaneRow>[], wanted: Wanted): ServedUnit[] {
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
  const heads = mergedHeads(step, filled, take);
  const counts = new Map<number, number>();
  for (const { lane } of heads) counts.set(lane!, (counts.get(lane!) ?? 0) + 1);
  // Many lanes that give little are read together.
  if (counts.size > take / 2) return [...picked(step, heads, wanted.maxBytes).values()].toSorted(byDue);
  const rows = [...counts].flatMap(([lane, count]) => firstOfLane(step, lane, count, wanted));
  return rows.toSorted(byDue);
}

/** The next jobs of several lanes together, in order. Only the lane that gave one is looked at for the next. */
function mergedHeads(step: Step, lanes: readonly Sibling[], take: number): JobHead[] {
  const left = new Map(lanes.map(({ id, waiting }) => [id, waiting]));
  // The first comes last.
  const heads = headsOf(step, [...left.keys()])
    .filter(({ seq }) => seq !== null)
    .toSorted((a, b) => byDue(b, a));
  const next: JobHead[] = [];
  while (next.length < take && heads.length > 0) {
    const head = heads.pop()!;
    next.push(head);
    const lane = head.lane!;
    left.set(lane, left.get(lane)! - 1);
    if (left.get(lane)! <= 0) continue;
    const following = nextHead(step, head);
    if (following === undefined) continue;
    let at = heads.length;
    while (at > 0 && byDue(heads[at - 1]!, following) < 0) at -= 1;
    heads.splice(at, 0, following);
  }
  return next;
}

function firstOfLane(step: Step, lane: number, take: number, { max, maxBytes }: Wanted): JobRow[] {
  const amount = new Amount();
  const rows: JobRow[] = [];
  while (rows.length < take && amount.bytes <= maxBytes) {
    // Nothing is prefetched behind one that cannot be: the others would be read in vain.
    if (rows.length > max && !rows.slice(max).every(isPrefetchable)) break;
    const count = amount.of(take - rows.length);
    const next = nextOfLane(step, lane, rows.at(-1), count);
    amount.read(next);
    rows.push(...next);
    if (next.length < count) break;
  }
  return rows;
}

/** The very next job of each unit, in as few steps as their size allows. */
function giveOneEach(step: Step, shares: readonly Share[], maxBytes: number): void {
  const heads = headsOf(
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
function picked(step: Step, heads: readonly JobHead[], maxBytes: number): ReadonlyMap<number, JobRow> {
  const found = new Map<number, JobRow>();
  const amount = new Amount();
  for (let from = 0; from < heads.length && amount.bytes <= maxBytes;) {
    const some = heads.slice(from, from + amount.of(heads.length - from));
    const rows = jobsBySeq(
      step,
      some.map(({ seq }) => seq),
    );
    amount.read(rows);
    for (const row of rows) found.set(row.seq, row);
    from += some.length;
  }
  return found;
}
