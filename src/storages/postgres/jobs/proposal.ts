import type { ClaimRules } from "../../../limits/claim-rules.ts";
import { ClaimLimits } from "../../../planner/claim-limits.ts";
import { type Allowance, type ClaimPlan, planClaim } from "../../../planner/plan-claim.ts";
import { type Earlier, SnapshotKeys } from "../limits/snapshot-keys.ts";
import type { Snapshot } from "./snapshot.ts";
import { BEYOND_SNAPSHOT, CLOSE, type PlanLane, SnapshotLanes, START } from "./snapshot-lanes.ts";

/** What a claim proposes to take, as `claim_plan` (sql/types.sql) reads it. */
export interface ProposalText {
  readonly epoch: number | undefined;
  readonly page: number;
  readonly number?: number | undefined;
  readonly types: readonly string[];
  readonly seen_types: readonly string[];
  readonly seen_counts: readonly number[];
  readonly known?: readonly number[];
  readonly is_late?: boolean;
  readonly front_lanes?: readonly number[];
  readonly front_skips?: readonly number[];
  readonly front_dues?: readonly number[];
  readonly front_seqs?: readonly number[];
  readonly lanes: readonly number[];
  readonly places: readonly number[];
  readonly kinds: readonly number[];
  readonly dues?: readonly (number | null)[];
  readonly seqs?: readonly (number | null)[];
  readonly passes?: readonly boolean[];
  readonly counts: readonly number[];
  readonly units: readonly number[];
  readonly emptied: readonly number[];
  readonly awaits?: readonly string[];
  readonly starves?: readonly boolean[];
}

/** A plan that was made from a snapshot. */
export interface Proposal {
  readonly text: Omit<ProposalText, "page">;
  /** Nothing is to be done. */
  readonly isEmpty: boolean;
  readonly started: number;
  /** The snapshot ended before the plan did: what it says about the rest is not known. */
  readonly cut: boolean;
  /** Undefined: it was cut. */
  readonly plan: ClaimPlan | undefined;
  readonly limits: ClaimLimits;
  /** Limits for all that refused something of it: they have to say so before a claim is answered with that. */
  readonly unmarked: ReadonlySet<string>;
  /** The same, for those that have started nothing of the claim. */
  readonly unserved: ReadonlySet<string>;
  /** It blocks lanes, and a release wakes up nothing for them before that is done. */
  readonly needsGates: boolean;
  /** For how long others have waited for slots that were refused. */
  readonly othersWaitMs: number;
  /** The instant that it was made for, by the clock of the storage. */
  readonly now: number;
}

/** How much a plan may start. */
export interface Wanted {
  readonly max: number;
  readonly bytes: number;
  /** So many more are proposed: other claims may have started some of them by then. The storage stops at `max`. */
  readonly spare: number;
  /** Something was started before, in the same claim: one job in any case is no more. */
  readonly begun: boolean;
}

const NONE: ReadonlySet<number> = new Set();

/**
 * `ttlMs`: what starts is called within so long; undefined: at once.
 *
 * `earlier`: the snapshot was answered to an earlier claim. `stuck`: lanes whose jobs other transactions have.
 */
export function propose(
  snapshot: Snapshot,
  rules: ClaimRules,
  wanted: Wanted,
  ttlMs: number | undefined,
  { earlier, stuck = NONE }: { readonly earlier?: Earlier; readonly stuck?: ReadonlySet<number> } = {},
): Proposal {
  const keys = new SnapshotKeys(snapshot, ttlMs, earlier);
  const lanes = new SnapshotLanes(snapshot, rules, keys, stuck);
  const limits = new ClaimLimits(rules, keys.key);
  let plan: ClaimPlan | undefined;
  try {
    plan = planClaim(snapshot.types, lanes, limits, allowanceOf(wanted, lanes, keys));
  } catch (error) {
    if (error !== BEYOND_SNAPSHOT) throw error;
  }
  const started = lanes.entries.filter(({ kind }) => kind === START).length;
  // What it refused, it may have refused because of starts beyond the number that is wanted.
  if (plan !== undefined && started > wanted.max) plan = { ...plan, more: true, blockedBy: null };
  return {
    text: textOf(snapshot, lanes, limits, started >= wanted.max),
    isEmpty: lanes.entries.every(({ kind, lane }) => kind === CLOSE && !lane.reserves) && lanes.emptied.size === 0,
    started,
    cut: plan === undefined,
    plan,
    limits,
    unmarked: keys.unmarked,
    unserved: keys.unserved,
    needsGates: lanes.needsGates,
    othersWaitMs: keys.othersWaitMs,
    now: keys.now,
  };
}

function allowanceOf({ max, bytes, spare, begun }: Wanted, lanes: SnapshotLanes, keys: SnapshotKeys): Allowance {
  let jobs = max + spare;
  let doubtful = max;
  let left = bytes;
  let first = !begun;
  return {
    take: () => {
      if (jobs <= 0 || !(first || lanes.bytes <= left)) return false;
      // What may be refused takes the place of nothing else.
      if (keys.isDoubtful && doubtful > 0) {
        doubtful -= 1;
        return true;
      }
      jobs -= 1;
      left -= lanes.bytes;
      first = false;
      return true;
    },
  };
}

/** `full`: as many start as are wanted, so that lanes behind those it looked at do not matter. */
function textOf(snapshot: Snapshot, lanes: SnapshotLanes, limits: ClaimLimits, full: boolean): Proposal["text"] {
  const { entries } = lanes;
  const places = new Map<PlanLane, number>();
  const counts: number[] = [];
  let again = false;
  for (const { lane, kind } of entries) {
    again ||= kind === START && places.has(lane);
    const place = numberOf(places, lane) - 1;
    counts[place] = (counts[place] ?? 0) + 1;
  }
  const types = new Set([...places.keys()].map(({ type }) => type));
  const units = new Map<PlanLane["unit"], number>();
  // Where it matters how heavy a job is, or which of several lanes has the first, none may have come before it.
  const exact = (lane: PlanLane): boolean => limits.weighs(lane.type) || lane.unit.lanes.length > 1;
  return {
    epoch: snapshot.epoch,
    types: [...types],
    seen_types: [...snapshot.types],
    seen_counts: snapshot.types.map((type) => {
      const { count, all } = lanes.seen(type);
      // Of a type without lanes, one that has some by now may come before all others.
      return Math.max(1, all && (again || !full) ? count + 1 : count);
    }),
    known: lanes.known,
    ...frontOf(lanes),
    lanes: Array.from(places.keys(), ({ id }) => id),
    places: entries.map(({ lane }) => places.get(lane)!),
    kinds: entries.map(({ kind }) => kind),
    ...(entries.some(({ lane }) => exact(lane)) && {
      dues: entries.map(({ lane, dueAt }) => (exact(lane) ? dueAt : null)),
      seqs: entries.map(({ lane, seq }) => (exact(lane) ? seq : null)),
    }),
    ...(entries.some(({ passes }) => !passes) && {
      passes: entries.map(({ passes }) => passes),
    }),
    counts,
    units: Array.from(places.keys(), (lane) => (lane.turns ? numberOf(units, lane.unit) : 0)),
    emptied: Array.from(lanes.emptied, ({ id }) => id),
  };
}

/** The number of an object: those that were asked about are numbered from 1 on. */
function numberOf<T>(numbers: Map<T, number>, one: T): number {
  let number = numbers.get(one);
  if (number === undefined) numbers.set(one, (number = numbers.size + 1));
  return number;
}

/**
 * Where a job that the plan did not know of would precede others of it: at the head of a lane that has its turns with others, and in
 * a lane that is left empty, after the jobs that the plan takes from it.
 */
function frontOf({ entries, emptied }: SnapshotLanes): Partial<Front> {
  const units = new Set(entries.map(({ lane }) => lane.unit).filter((unit) => unit.lanes.length > 1));
  const front = [...units].flatMap((unit) => unit.lanes).map((lane) => ({ lane, skip: 0, head: lane.heads[0] }));
  if (emptied.size > 0) {
    const precedes = precedenceIn(entries);
    for (const lane of emptied) if (precedes(lane)) front.push({ lane, skip: lane.at, head: undefined });
  }
  if (front.length === 0) return {};
  return {
    front_lanes: front.map(({ lane }) => lane.id),
    front_skips: front.map(({ skip }) => skip),
    front_dues: front.map(({ head }) => head?.[0] ?? Number.MAX_VALUE),
    front_seqs: front.map(({ head }) => head?.[1] ?? 0),
  };
}

/**
 * Would one more job of the lane precede anything of the plan? It precedes jobs of a lower priority, and groups that have
 * two more turns after the last one of the lane. Where the plan takes nothing from the lane, that is not known.
 */
function precedenceIn(entries: SnapshotLanes["entries"]): (lane: PlanLane) => boolean {
  let least = Number.POSITIVE_INFINITY;
  /** The latest turn of each unit; and of all turns of a priority after which their unit has another one, the latest. */
  const latest = new Map<PlanLane["unit"], number>();
  const repeated = new Map<number, number>();
  for (const [i, { lane }] of entries.entries()) {
    least = Math.min(least, lane.priority);
    const before = latest.get(lane.unit) ?? -1;
    repeated.set(lane.priority, Math.max(before, repeated.get(lane.priority) ?? -1));
    latest.set(lane.unit, i);
  }
  return ({ at, priority, unit }) =>
    at === 0 || priority > least || (repeated.get(priority) ?? -1) > (latest.get(unit) ?? -1);
}

type Front = Pick<ProposalText, "front_lanes" | "front_skips" | "front_dues" | "front_seqs">;
