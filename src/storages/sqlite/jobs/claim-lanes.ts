import type { ClaimRules } from "../../../limits/claim-rules.ts";
import { type LimitRule, shareOf, valueOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { Decision, LimitKey, KeyCharge } from "../../../planner/claim-limits.ts";
import type { LaneSource, Head } from "../../../planner/plan-claim.ts";
import { readKeys } from "../../../storage/kept.ts";
import type { OfType } from "../limits/gates.ts";
import { groupOf, grpOf } from "../limits/groups.ts";
import type { SqliteKey, SqliteKeys } from "../limits/keys.ts";
import type { Step } from "../step.ts";
import { ClaimGates } from "./claim-gates.ts";
import { ClaimTurns, type KeyedUnit } from "./claim-turns.ts";
import {
  type AtGate,
  type ClaimLaneRow,
  homeLanes,
  laneById,
  lanesAt,
  lanesOfTurn,
  openGates,
  unitsOf,
} from "./lane-rows.ts";
import {
  type ClaimGate,
  type ClaimLane,
  type ClaimUnit,
  isOpen,
  ReadyLanes,
  type Rank,
  type Source,
  turnAt,
} from "./ready-lanes.ts";
import type { FirstLanes } from "./many-types.ts";
import type { OpenTypes } from "./open-types.ts";
import { type JobRow, weightsOf } from "./record.ts";
import { Amount, firstOfEach, nextOfLane } from "./waiting-jobs.ts";

/** A job that is to start, and what it takes. */
export interface Starting {
  readonly lane: ClaimLane;
  readonly row: JobRow;
  readonly charges: readonly KeyCharge[];
}

/** A job that can never start. */
export interface Refused {
  readonly row: JobRow;
  readonly decision: Decision & { readonly granted: false };
}

/** What a limit for all groups said that has closed its types. */
export interface Closing {
  readonly wait: Wait;
  readonly by: LimitKey;
}

/** No more than this is read at once. */
const PAGE = 1_000;

/** What a heavy head had reserved. */
interface Reserved {
  readonly name: string;
  readonly grp: string;
}

/** The lanes of a queue, for the planner. It reads what is needed, in few statements, and writes nothing. */
export class ClaimLanes implements LaneSource<ClaimLane> {
  readonly started: Starting[] = [];
  readonly refused: Refused[] = [];
  readonly gates = new ClaimGates();
  /** Lanes of which something is to be written. */
  readonly written = new Set<ClaimLane>();
  /** Lanes that count more than there is. */
  readonly miscounted = new Set<ClaimLane>();
  /** What heavy heads reserved that have started, or reserve nothing any more: others may have waited for them. */
  readonly unreserved: Reserved[] = [];
  /** Some of them have. */
  #othersMayLook = false;
  /** Lanes of which the first job has become too heavy, or is so no more. */
  readonly weighed = new Map<ClaimLane, number | null>();
  /** Limits for all groups that have refused a job. */
  readonly closed = new Map<LimitRule, Closing>();
  /** Where lanes of many types wait: are heavy heads asked for, whatever jobs come before them? */
  asksHeads = false;
  readonly #step: Step;
  readonly #types: OpenTypes;
  readonly #rules: ClaimRules;
  readonly #keys: SqliteKeys;
  readonly #want: number;
  /** Where lanes have keys. */
  readonly #turns: ClaimTurns | undefined;
  /** Where lanes of many types wait, and there are no groups: lanes are not looked for by type, but come by `add`. */
  readonly #first: FirstLanes | undefined;
  readonly #levels = new Map<number, { readonly lanes: ClaimLane[]; served: number }>();
  readonly #lanes = new Map<number, ClaimLane>();
  readonly #ready = new Map<string, ReadyLanes>();
  readonly #amount = new Amount();
  /** A gate has closed, or has no lanes. */
  #gatesChanged = false;
  /** How many ready lanes it knows. */
  #known = 0;
  /** The number of the next start: its turn, and its token. */
  #turn: number;

  constructor(step: Step, types: OpenTypes, rules: ClaimRules, keys: SqliteKeys, want: number, first?: FirstLanes) {
    this.#step = step;
    this.#types = types;
    this.#rules = rules;
    this.#keys = keys;
    this.#want = want;
    this.#turns = types.keyed ? new ClaimTurns(step, types.queue, types.asked, rules.shares) : undefined;
    this.#first = first;
    this.#turn = step.sequence + 1;
  }

  get queue(): string {
    return this.#types.queue;
  }

  /** Is there anything to write? */
  get changed(): boolean {
    return this.#gatesChanged || this.started.length + this.refused.length + this.miscounted.size > 0;
  }

  /** Jobs that the claim may take waited for heavy heads that reserve nothing any more. */
  get othersMayLook(): boolean {
    return this.#othersMayLook || this.gates.anyReopened;
  }

  /** Lanes of these waited for a heavy head that reserves nothing any more. */
  letLook(others: readonly OfType[]): void {
    this.#othersMayLook ||= others.some((one) => this.takes(one));
  }

  /** May the claim take jobs of this queue and type? */
  takes({ queue, type }: OfType): boolean {
    return queue === this.#types.queue && this.#types.has(type);
  }

  /** Lanes that have a later turn than is written there. */
  get stale(): Iterable<ClaimLane> {
    return this.#turns?.stale ?? [];
  }

  /** A lane that was read from `FirstLanes`. */
  add(row: ClaimLaneRow): void {
    for (const lane of this.#join([this.#lane(row, undefined)])) this.#readyOf(lane.type).put(lane);
  }

  first(type: string): ClaimLane | undefined {
    const first = this.firstKnown(type);
    return first !== undefined && this.#isReached(first) ? first : undefined;
  }

  /** The first lane of this type that is known and stands at no closed gate. */
  firstKnown(type: string): ClaimLane | undefined {
    return this.#readyOf(type).first;
  }

  /** Is its first job before those of lanes that are not known yet, or asked for before them? */
  #isReached(lane: ClaimLane): boolean {
    if (this.#first === undefined || this.#first.whole) return true;
    if (this.asksHeads && lane.gate !== undefined && lane.gate.front !== 0) return true;
    const head = lane.head ?? this.#readHead(lane);
    return head === undefined || this.#first.isBefore(lane.priority, head);
  }

  unit(lane: ClaimLane): readonly ClaimLane[] {
    if (this.#turns !== undefined) return this.#withKeys(lane, this.#turns.unit(lane));
    const { lanes } = lane.unit!;
    return lanes.length === 1 ? lanes : lanes.filter((one) => isOpen(one) && this.#isReached(one));
  }

  /** Of each other type of the unit the lanes that may have the job which starts next. */
  #withKeys(lane: ClaimLane, { turns }: KeyedUnit): readonly ClaimLane[] {
    if (turns.length === 1) return [lane];
    const ready = [lane];
    const { priority, group } = lane;
    for (const { type } of turns) {
      if (type === lane.type || !this.#types.has(type)) continue;
      const { first } = this.#readyOf(type);
      if (first !== undefined && first.priority === priority && first.group === group) {
        ready.push(first);
        continue;
      }
      let earliest: ClaimLane | undefined;
      for (const row of lanesOfTurn(this.#step, this.queue, priority, grpOf(group), type, MOST_LOOKS)) {
        const one = this.#atGate(row);
        if (!isOpen(one)) continue;
        if (!one.keyed) ready.push(one);
        else if (earliest === undefined || byHead(one, earliest) < 0) earliest = one;
      }
      if (earliest !== undefined) ready.push(earliest);
    }
    return ready;
  }

  head(lane: ClaimLane): Head | undefined {
    const head = lane.head ?? this.#readHead(lane);
    const { gate, id, type, since } = lane;
    const waited = head !== undefined && head.seq === lane.heavy && gate !== undefined && gate.front !== 0;
    this.#keys.asking = { id, queue: this.queue, type, by: waited ? gate.name : null, since: since ?? 0 };
    return head;
  }

  #readHead(lane: ClaimLane): Head | undefined {
    // Twice, for what was read with others may be too late to start.
    for (let i = 0; i < 2 && lane.at === lane.rows.length && !lane.whole; i++) this.#read(lane);
    const row = lane.rows[lane.at];
    if (row === undefined) {
      lane.ready = false;
      this.miscounted.add(lane);
      this.#move(lane, undefined);
      return undefined;
    }
    return (lane.head = { dueAt: row.due_at, seq: row.seq, weights: weightsOf(row), data: row.data });
  }

  start(lane: ClaimLane, charges: readonly KeyCharge[]): void {
    this.#endReservation(lane);
    const row = this.#pass(lane);
    this.started.push({ lane, row, charges });
    lane.gave += 1;
    this.#keys.start += 1;
    const turn = this.#turn++;
    const unit = (lane.unit ??= this.#turns!.unit(lane));
    unit.served += 1;
    const goesOn = this.#rules.shares && unit.served < this.#shareOf(lane);
    if (!goesOn) unit.served = 0;
    if (this.#turns !== undefined) {
      this.#serveWithKeys(lane, this.#turns, goesOn ? undefined : turn);
      return;
    }
    for (const other of this.#first === undefined ? unit.lanes : [lane]) {
      this.#serve(other, goesOn ? other.turn : turn);
    }
  }

  #serveWithKeys(lane: ClaimLane, all: ClaimTurns, turn: number | undefined): void {
    const unit = all.unit(lane);
    const own = all.of(lane);
    if (turn === undefined || !all.takesTurns(lane)) {
      this.#serve(lane, own.at);
      return;
    }
    for (const one of unit.turns) {
      one.at = turn;
      const carrier = one === own ? lane : this.#atGate(laneById(this.#step, one.carrier)!);
      carrier.unit = unit;
      this.#serve(carrier, turn);
    }
  }

  /** The lane has this turn from now on. */
  #serve(lane: ClaimLane, turn: number): void {
    lane.turn = turn;
    lane.turned = true;
    this.written.add(lane);
    if (lane.gate !== undefined) lane.gate.changed = true;
    this.#ready.get(lane.type)?.put(lane);
  }

  block(lane: ClaimLane, wait: Wait, by: LimitKey, fits: Wait): void {
    const heavy = fits > 0 ? lane.head!.seq : null;
    const { grp } = (by as SqliteKey).limitState;
    const gate = this.gates.of(lane.type, by.rule.name, grp, heavy === null ? 0 : lane.id);
    // A head that waited already keeps its place.
    const waited = heavy !== null && heavy === lane.heavy && lane.gate === gate;
    if (!waited && (heavy !== null || lane.heavy !== null)) {
      this.#endReservation(lane);
      this.weighed.set(lane, heavy);
    }
    if (lane.heavy !== null) this.#keys.decided.add(lane.id);
    if (!by.rule.byGroup) this.closed.set(by.rule, { wait, by });
    this.#move(lane, gate);
    gate.close(wait, fits);
    this.#gatesChanged = true;
  }

  close(lane: ClaimLane, wait: Wait, by: LimitKey): void {
    this.closed.set(by.rule, { wait, by });
    if (!this.#endReservation(lane)) return;
    this.weighed.set(lane, null);
    this.#gatesChanged = true;
  }

  /** The head of the lane starts, or another key refuses it, or it waits only for others: what it had reserved is free, if it had. */
  #endReservation(lane: ClaimLane): boolean {
    const { gate } = lane;
    if (gate === undefined || gate.front === 0 || lane.head?.seq !== lane.heavy) return false;
    lane.heavy = null;
    this.#keys.decided.add(lane.id);
    this.unreserved.push(gate);
    for (const behind of this.gates.reopenBehind(gate)) {
      for (const one of behind.lanes) this.#ready.get(one.type)?.put(one);
    }
    return true;
  }

  refuse(lane: ClaimLane, decision: Decision & { readonly granted: false }): void {
    this.#endReservation(lane);
    this.refused.push({ row: this.#pass(lane), decision });
    if (lane.gate !== undefined) lane.gate.changed = true;
    this.#ready.get(lane.type)?.put(lane);
  }

  #move(lane: ClaimLane, gate: ClaimGate | undefined): void {
    if (lane.gate === gate) return;
    this.gates.move(lane, gate);
    this.written.add(lane);
  }

  /** The head of the lane is not there any more. */
  #pass(lane: ClaimLane): JobRow {
    const row = lane.rows[lane.at]!;
    lane.at += 1;
    lane.head = undefined;
    lane.waiting -= 1;
    if (lane.waiting <= 0) lane.ready = false;
    if (lane.waiting <= 0 || (lane.gate !== undefined && lane.gate.front !== 0)) this.#move(lane, undefined);
    if (lane.headSeq > 0 && lane.ready) this.#lookAt(lane);
    return row;
  }

  #shareOf({ type, group }: ClaimLane): number {
    return shareOf(this.#rules.of(type), group);
  }

  #readyOf(type: string): ReadyLanes {
    let ready = this.#ready.get(type);
    if (ready === undefined) {
      const sources = this.#first === undefined ? [this.#home(type)] : [];
      if (this.#rules.blocks) sources.push(this.#gatesOf(type));
      ready = new ReadyLanes(sources, (lane) => this.#isRight(lane));
      this.#ready.set(type, ready);
    }
    return ready;
  }

  /** Does the lane stand where it belongs? */
  #isRight(lane: ClaimLane): boolean {
    const turns = this.#turns;
    if (turns === undefined) return true;
    const isRight = turns.isRight(lane);
    if (lane.headSeq > 0 || !turns.of(lane).many) return isRight;
    // Beside lanes with keys one without goes by its first job, too. It is not written down: there is one at the most.
    this.#lookAt(lane);
    return false;
  }

  #lookAt(lane: ClaimLane): void {
    const head = lane.head ?? this.#readHead(lane);
    lane.headAt = head?.dueAt ?? 0;
    lane.headSeq = head?.seq ?? 0;
  }

  /** One more than can start, to see whether anything is left; more, if those before have all been in vain. */
  #count(type: string, from: number): number {
    return Math.min(PAGE, Math.max(from, this.#left(type)));
  }

  #home(type: string): Source {
    let from = 0;
    const read = () => {
      const count = this.#count(type, from);
      const rows = homeLanes(this.#step, this.queue, type, count, from);
      from += rows.length;
      source.whole = rows.length < count;
      if (rows.length > 0) source.bound = rankOfRow(rows.at(-1)!);
      return this.#join(rows.map((row) => this.#lane(row, undefined)));
    };
    const source: Source = { bound: undefined, whole: false, read };
    return source;
  }

  #gatesOf(type: string): Source {
    let from = 0;
    const read = () => {
      const count = this.#count(type, from);
      const rows = openGates(this.#step, this.queue, type, count, from);
      from += rows.length;
      source.whole = rows.length < count;
      const lanes: ClaimLane[] = [];
      for (const { row, more, rank } of rows) {
        const gate = this.gates.read(type, row);
        source.bound = gate.known = rank;
        gate.others = more !== null;
        if (row.id === null) {
          this.#gatesChanged = true;
          continue;
        }
        gate.bound = rankOfRow(row, gate);
        lanes.push(this.#lane(row, gate));
        if (gate.others) this.#ready.get(type)!.add(this.#lanesAt(type, gate));
      }
      return this.#join(lanes);
    };
    const source: Source = { bound: undefined, whole: false, read };
    return source;
  }

  /** Its lanes behind the first. */
  #lanesAt(type: string, gate: ClaimGate): Source {
    let from = 1;
    const read = () => {
      const count = this.#count(type, from);
      const rows = lanesAt(this.#step, gate.id!, count, from);
      from += rows.length;
      gate.others = rows.length === count;
      if (rows.length > 0) gate.bound = rankOfRow(rows.at(-1)!, gate);
      return this.#join(rows.map((row) => this.#lane(row, gate)));
    };
    return {
      get bound() {
        return gate.bound;
      },
      get whole() {
        return !gate.others || !gate.open;
      },
      read,
    };
  }

  /** Finds the lanes that have their turn with these. */
  #join(lanes: readonly ClaimLane[]): readonly ClaimLane[] {
    if (this.#turns !== undefined) return lanes;
    const { asked } = this.#types;
    const alone = lanes.filter(({ unit }) => unit === undefined);
    if (alone.length === 0) return lanes;
    if (this.#first !== undefined) {
      for (const lane of alone) (lane.unit = this.#level(lane.priority)).lanes.push(lane);
      return lanes;
    }
    if (asked?.length === 1) {
      for (const lane of alone) lane.unit = { lanes: [lane], served: lane.served };
      return lanes;
    }
    const units = unitsOf(
      this.#step,
      alone.map(({ id }) => id),
      asked,
    );
    for (const rows of units) {
      const own = rows.map((row) => this.#atGate(row));
      const unit = { lanes: own, served: Math.max(...own.map(({ served }) => served)) };
      for (const lane of own) lane.unit = unit;
    }
    return lanes;
  }

  /** Without groups the lanes of a priority are a unit. */
  #level(priority: number): ClaimUnit & { readonly lanes: ClaimLane[] } {
    let level = this.#levels.get(priority);
    if (level === undefined) this.#levels.set(priority, (level = { lanes: [], served: 0 }));
    return level;
  }

  #atGate(row: AtGate): ClaimLane {
    return this.#lanes.get(row.id) ?? this.#lane(row, row.gate === null ? undefined : this.gates.read(row.type, row));
  }

  #lane(row: ClaimLaneRow, gate: ClaimGate | undefined): ClaimLane {
    let lane = this.#lanes.get(row.id);
    if (lane === undefined) {
      const { id, type, priority, grp, keys, own, turn, waiting, served } = row;
      lane = {
        id,
        type,
        priority,
        group: groupOf(grp),
        keys: keys === "" ? undefined : readKeys(keys),
        keyed: keys !== "",
        own,
        many: row.many === 1,
        turn,
        headAt: row.head_at,
        headSeq: row.head_seq,
        waiting,
        served,
        ready: waiting > 0 && this.#types.has(type),
        gate,
        moved: false,
        turned: false,
        version: 0,
        unit: undefined,
        rows: [],
        at: 0,
        whole: false,
        read: false,
        head: undefined,
        gave: 0,
        heavy: row.heavy,
        since: row.heavy_since,
      };
      this.#lanes.set(id, lane);
      gate?.lanes.add(lane);
      if (isOpen(lane)) this.#known += 1;
    }
    return lane;
  }

  /** How many jobs of a type may still be looked at: those that can start, and one more. */
  #left(type: string): number {
    return Math.min(this.#want - this.started.length, this.#available(type, null)) + 1;
  }

  /** How many could start under the limits for all, or under those that count by what the lane has. */
  #available(type: string, lane: ClaimLane | null): number {
    let available = Number.POSITIVE_INFINITY;
    for (const rule of this.#rules.of(type)) {
      if (rule.byGroup !== (lane !== null)) continue;
      available = Math.min(available, this.#keys.key(rule, lane === null ? null : valueOf(rule, lane)).available);
    }
    return available;
  }

  /** Reads jobs of this lane; where many lanes will give one each, the first of all those. */
  #read(lane: ClaimLane): void {
    const left = this.#left(lane.type);
    const share = Math.ceil(left / Math.max(1, this.#known));
    if (!lane.read && share === 1 && left > 1) {
      this.#readFirst(this.#unread(lane, this.#amount.of(left)));
      return;
    }
    lane.read = true;
    const count = this.#amount.of(Math.min(PAGE, share + 1, this.#available(lane.type, lane) + 1));
    const rows = nextOfLane(this.#step, lane.id, lane.rows.at(-1), count);
    this.#amount.read(rows);
    lane.whole = rows.length < count;
    lane.rows.push(...rows);
  }

  /** Reads the first job of each of the lanes, in one go. */
  #readFirst(lanes: readonly ClaimLane[]): void {
    const byId = new Map(lanes.map((lane) => [lane.id, lane]));
    const rows = firstOfEach(this.#step, [...byId.keys()]);
    this.#amount.read(rows);
    for (const row of rows) {
      const lane = byId.get(row.lane!)!;
      // One that is too late is in the way of others, which are looked for then.
      if (row.deadline === null || row.deadline > this.#step.now) lane.rows.push(row);
      lane.whole = false;
      byId.delete(row.lane!);
    }
    for (const lane of byId.values()) lane.whole = true;
  }

  /** This lane and those that come after it, none of which was read: as many as may be asked for. */
  #unread(lane: ClaimLane, count: number): readonly ClaimLane[] {
    const lanes = new Set([lane]);
    for (const one of this.#readyOf(lane.type).upcoming()) {
      if (lanes.size >= count) break;
      if (!one.read) lanes.add(one);
      for (const other of one.unit?.lanes ?? []) if (!other.read && isOpen(other)) lanes.add(other);
    }
    for (const one of lanes) one.read = true;
    return [...lanes];
  }
}

/** So many lanes of one type and unit are looked at, if others of the type come before them. */
const MOST_LOOKS = 64;

const byHead = (a: Rank, b: Rank): number => a.headAt - b.headAt || a.headSeq - b.headSeq;

/** Where a lane stands in the tables. */
function rankOfRow({ priority, turn, own, head_at: headAt, head_seq: headSeq }: ClaimLaneRow, gate?: ClaimGate): Rank {
  return { priority, turn: turnAt(turn, gate), own, headAt, headSeq };
}
