import type { ClaimRules } from "../../../limits/claim-rules.ts";
import { shareOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { Decision, KeyCharge, LimitKey } from "../../../planner/claim-limits.ts";
import type { Head, LaneSource, ReadyLane } from "../../../planner/plan-claim.ts";
import { readKeys, readWeights } from "../../../storage/kept.ts";
import type { ReadyHead, SnapshotKey, SnapshotKeys } from "../limits/snapshot-keys.ts";
import type { HeadRow, LaneRow, Snapshot } from "./snapshot.ts";

/**
 * What a plan wants to become of the head of a lane (`claim_plan` in sql/types.sql): it starts, it can never start, its lane is blocked, a
 * limit closes its type. If it fits after all where the plan expects a refusal, it starts, and the plan ends there.
 */
export const START = 1;
export const REFUSE = 2;
export const BLOCK = 3;
export const CLOSE = 4;

export interface Entry {
  readonly lane: PlanLane;
  readonly kind: number;
  readonly dueAt: number;
  readonly seq: number;
  /** Is the turn of its group over with this start? */
  readonly passes: boolean;
}

/** A lane as a plan sees it, with all that the plan has done so far. */
export interface PlanLane extends ReadyLane {
  turn: number;
  ready: boolean;
  /** It had its turn in this plan: it stands behind all others of its priority. */
  moved: boolean;
  readonly unit: Unit;
  readonly heads: readonly HeadRow[];
  /** The first that has not started; are these all? */
  at: number;
  readonly whole: boolean;
  readonly heavy: number | null;
  /** A heavy head may look again here, and reserves what it waits for until a claim starts or refuses it. */
  readonly reserves: boolean;
  readonly by: string | null;
  readonly byGrp: string | null;
  readonly since: number | null;
  /** The first of the lanes that differ only in their keys. */
  readonly own: number;
  /** False: it differs from others only in its keys, and without groups these go on in the order of their jobs. */
  readonly turns: boolean;
}

interface Unit {
  readonly lanes: PlanLane[];
  served: number;
}

/** The ready lanes of one type. */
interface Line {
  readonly fresh: PlanLane[];
  at: number;
  readonly whole: boolean;
  /** Those that had their turn in this plan, by priority, in that order. */
  readonly served: Map<number, PlanLane[]>;
}

/** Thrown where a snapshot does not reach far enough to tell what comes next: the plan ends there. */
export const BEYOND_SNAPSHOT = new Error("the snapshot of lanes ends here");

/** Turns of a plan come after all others. */
const LATER = Number.MAX_SAFE_INTEGER - 1e9;

/** The lanes of a snapshot. What a plan does to them is kept as its entries, in order. */
export class SnapshotLanes implements LaneSource<PlanLane> {
  readonly entries: Entry[] = [];
  /** Lanes in which no job is left, as far as the snapshot tells. */
  readonly emptied = new Set<PlanLane>();
  /** A release wakes up nothing for some of the blocked lanes before they stand at their gates. */
  needsGates = false;
  /** How much data the head has that was asked for last. */
  bytes = 0;
  readonly #rules: ClaimRules;
  readonly #keys: SnapshotKeys;
  readonly #lines = new Map<string, Line>();
  /** Do lanes of the snapshot have keys? */
  readonly #keyed: boolean;
  #turn = LATER;

  /** `stuck`: lanes whose jobs other transactions have. */
  constructor(snapshot: Snapshot, rules: ClaimRules, keys: SnapshotKeys, stuck: ReadonlySet<number>) {
    this.#rules = rules;
    this.#keys = keys;
    const lanes = new Map<number, PlanLane>();
    const units = new Map<string, Unit>();
    for (const row of snapshot.lanes) {
      const key = `${row[2]} ${row[3] === null ? "" : `:${row[3]}`}`;
      let unit = units.get(key);
      if (unit === undefined) units.set(key, (unit = { lanes: [], served: 0 }));
      const lane = laneOf(row, unit, snapshot);
      unit.lanes.push(lane);
      unit.served = Math.max(unit.served, row[5]);
      lanes.set(lane.id, lane);
      if (row[9] === null || (row[10] !== null && !this.#comesDue(lane, row[10]))) continue;
      this.known.push(lane.id);
      if (stuck.has(lane.id)) lane.ready = false;
      else if (row[10] === null && !lane.ready) this.emptied.add(lane);
    }
    const heavy = [...lanes.values()].filter((lane) => lane.heavy !== null);
    if (heavy.length > 0) keys.readyHeads = () => readyHeads(heavy, keys.now);
    for (const [type, ids] of snapshot.lines) {
      const ready = ids.map((id) => lanes.get(id)!);
      const whole = ids.length < snapshot.page;
      const line = this.#lines.get(type);
      if (line === undefined) this.#lines.set(type, { fresh: ready, at: 0, whole, served: new Map() });
      else this.#lines.set(type, { ...line, fresh: [...ready, ...line.fresh], whole });
    }
    // Lanes that come due stand among the others; one without keys, which is read before those with keys, by its first job.
    this.#keyed = snapshot.lanes.some((row) => row[11] !== null);
    if (this.#keyed || snapshot.lanes.some((row) => row[10] !== null)) {
      for (const { fresh } of this.#lines.values()) fresh.sort(byPlace);
    }
  }

  /** All lanes that are ready. A blocked one that something returned makes ready earlier is not known: it may precede others. */
  readonly known: number[] = [];

  /** A blocked lane is ready when its instant has come: has it? There is no lane of its type that is not in the snapshot. */
  #comesDue(lane: PlanLane, until: number): boolean {
    const isDue = until <= this.#keys.now;
    lane.ready &&= isDue;
    if (!lane.ready) return isDue;
    const line = this.#lines.get(lane.type);
    if (line === undefined) this.#lines.set(lane.type, { fresh: [lane], at: 0, whole: true, served: new Map() });
    else line.fresh.push(lane);
    return true;
  }

  /** How many of the lanes of each type it has looked at, and whether these are all that there are. */
  seen(type: string): { readonly count: number; readonly all: boolean } {
    const line = this.#lines.get(type);
    if (line === undefined) return { count: 0, all: true };
    // The lane without keys is among the first, wherever its first job puts it.
    const count = Math.min(line.fresh.length, line.at + (this.#keyed ? 2 : 1));
    return { count, all: line.whole };
  }

  first(type: string): PlanLane | undefined {
    const line = this.#lines.get(type);
    if (line === undefined) return undefined;
    const { fresh, served } = line;
    while (line.at < fresh.length && (!fresh[line.at]!.ready || fresh[line.at]!.moved)) line.at += 1;
    const next = fresh[line.at];
    if (next === undefined && !line.whole) throw BEYOND_SNAPSHOT;
    let first = next;
    for (const lanes of served.values()) {
      while (lanes.length > 0 && !lanes[0]!.ready) lanes.shift();
      const lane = lanes[0];
      if (lane !== undefined && (first === undefined || byPlace(lane, first) < 0)) first = lane;
    }
    return first;
  }

  unit({ unit }: PlanLane): readonly PlanLane[] {
    return unit.lanes.filter(({ ready }) => ready);
  }

  head(lane: PlanLane): Head | undefined {
    const row = lane.heads[lane.at];
    if (row === undefined) {
      if (!lane.whole) throw BEYOND_SNAPSHOT;
      lane.ready = false;
      this.emptied.add(lane);
      return undefined;
    }
    const [dueAt, seq, bytes, weights] = row;
    const waited = seq === lane.heavy;
    this.bytes = bytes;
    this.#keys.isDoubtful = false;
    this.#keys.asking = { id: lane.id, by: waited ? lane.by : null, grp: lane.byGrp, since: lane.since ?? 0 };
    return { dueAt, seq, weights: weights === null ? null : readWeights(weights), data: "" };
  }

  start(lane: PlanLane, _charges: readonly KeyCharge[]): void {
    const { unit } = lane;
    const head = this.#leave(lane);
    this.#keys.start += 1;
    const passes = this.#passes(lane);
    unit.served += 1;
    this.entries.push({ lane, kind: START, ...head, passes });
    if (!passes || !lane.turns) return;
    unit.served = 0;
    this.#turn += 1;
    for (const other of unit.lanes) {
      other.turn = this.#turn;
      other.moved = true;
      if (!other.ready) continue;
      const served = this.#lines.get(other.type)?.served;
      const level = served?.get(other.priority)?.filter((one) => one !== other) ?? [];
      served?.set(other.priority, [...level, other]);
    }
  }

  block(lane: PlanLane, _wait: Wait, by: LimitKey): void {
    lane.ready = false;
    this.needsGates ||= !(by as SnapshotKey).wakesByMark;
    this.entries.push({ lane, kind: BLOCK, ...headOf(lane), passes: this.#passes(lane) });
  }

  close(lane: PlanLane): void {
    this.entries.push({ lane, kind: CLOSE, ...headOf(lane), passes: this.#passes(lane) });
  }

  refuse(lane: PlanLane, _decision: Decision & { readonly granted: false }): void {
    this.entries.push({ lane, kind: REFUSE, ...this.#leave(lane), passes: true });
  }

  /** The head of the lane is not there any more. */
  #leave(lane: PlanLane): Pick<Entry, "dueAt" | "seq"> {
    const head = headOf(lane);
    lane.at += 1;
    if (lane.at === lane.heads.length && lane.whole) {
      lane.ready = false;
      this.emptied.add(lane);
    }
    return head;
  }

  /** Is the turn of its group over if its head starts? */
  #passes({ type, group, unit }: PlanLane): boolean {
    return !this.#rules.shares || unit.served + 1 >= shareOf(this.#rules.of(type), group);
  }
}

/** Those that the claim may start: they fit from now on, as far as the plan is concerned. */
function readyHeads(lanes: readonly PlanLane[], now: number): ReadyHead[] {
  return lanes.flatMap(({ ready, heavy, by, byGrp, since, heads, at, id, priority }) => {
    const head = heads[at];
    if (!ready || head === undefined || head[1] !== heavy || by === null) return [];
    const weights = head[3] === null ? null : readWeights(head[3]);
    return [{ id, priority, since: since ?? 0, until: now, by, grp: byGrp ?? "", weights }];
  });
}

function headOf({ heads, at }: PlanLane): Pick<Entry, "dueAt" | "seq"> {
  const [dueAt, seq] = heads[at]!;
  return { dueAt, seq };
}

/** The higher priority, then the turn, then of lanes that differ only in their keys the one whose first job came first. */
function byPlace(a: PlanLane, b: PlanLane): number {
  return b.priority - a.priority || a.turn - b.turn || a.own - b.own || byHead(a.heads[a.at], b.heads[b.at]);
}

const byHead = (a: HeadRow | undefined, b: HeadRow | undefined): number =>
  a === undefined || b === undefined ? Number(a === undefined) - Number(b === undefined) : a[0] - b[0] || a[1] - b[1];

function laneOf(row: LaneRow, unit: Unit, { each, unturned }: Snapshot): PlanLane {
  const [id, type, priority, group, turn, , heavy, by, since, ready, blockedUntil, keys, own, byGrp] = row;
  const heads = ready ?? [];
  return {
    id,
    type,
    priority,
    group,
    keys: keys === null ? undefined : readKeys(keys),
    turn,
    waiting: heads.length,
    // One whose jobs are gone is ready until a claim looks at it; it speaks for no other.
    ready: heads.length > 0,
    moved: false,
    unit,
    heads,
    at: 0,
    whole: heads.length < each,
    heavy,
    reserves: heavy !== null && blockedUntil !== null,
    by,
    byGrp,
    since,
    own,
    turns: group !== null || !(unturned ?? []).some((one) => one[0] === type && one[1] === priority),
  };
}
