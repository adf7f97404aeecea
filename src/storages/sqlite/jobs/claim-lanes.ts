import { applies, chargeOf, type LimitRule, shareOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { Decision, LimitKey, KeyCharge } from "../../../planner/claim-limits.ts";
import type { LaneSource, Head } from "../../../planner/plan-claim.ts";
import type { Blocking, OfType } from "../limits/blocked.ts";
import { groupOf } from "../limits/groups.ts";
import type { SqliteKeys } from "../limits/keys.ts";
import type { Step } from "../step.ts";
import { Amount } from "./amount.ts";
import { type ClaimLaneRow, readyLanes, unitsOf } from "./lane-rows.ts";
import { readFirst, readNext } from "./heads.ts";
import { type ClaimLane, type ClaimUnit, Line, type Page } from "./line.ts";
import type { OpenTypes } from "./ready.ts";
import { type JobRow } from "./record.ts";
import { readWeights } from "../../../storage/kept.ts";

/** A job that is to start, and what it takes. */
export interface Starting {
  readonly row: JobRow;
  readonly charges: readonly KeyCharge[];
}

/** A job that can never start. */
export interface Refused {
  readonly row: JobRow;
  readonly decision: Decision & { readonly granted: false };
}

/** No more than this is read at once. */
const PAGE = 1_000;

/** The lanes of a queue as a claim walks over them. It reads what is needed, in few statements, and writes nothing. */
export class ClaimLanes implements LaneSource<ClaimLane> {
  readonly started: Starting[] = [];
  readonly refused: Refused[] = [];
  readonly blocked: Blocking[] = [];
  /** Units of which something was started. */
  readonly served = new Set<ClaimUnit>();
  /** Lanes that count more than there is. */
  readonly miscounted = new Set<ClaimLane>();
  /** Lanes of which a job was started that was too heavy before: others may have waited for it. */
  readonly heavy = new Set<ClaimLane>();
  /** Some of them have. */
  othersMayLook = false;
  readonly #step: Step;
  readonly #types: OpenTypes;
  readonly #rules: readonly LimitRule[];
  readonly #keys: SqliteKeys;
  readonly #want: number;
  readonly #shares: boolean;
  readonly #lanes = new Map<number, ClaimLane>();
  readonly #lines = new Map<string, Line>();
  readonly #amount = new Amount();
  /** How many ready lanes it knows. */
  #known = 0;
  /** The number of the next start: its turn, and its token. */
  #turn: number;

  constructor(step: Step, types: OpenTypes, rules: readonly LimitRule[], keys: SqliteKeys, want: number) {
    this.#step = step;
    this.#types = types;
    this.#rules = rules;
    this.#keys = keys;
    this.#want = want;
    this.#shares = rules.some(({ groups }) => Object.values(groups).some(({ share }) => share !== undefined));
    this.#turn = step.sequence + 1;
  }

  /** Is there anything to write? */
  get changed(): boolean {
    return this.started.length + this.refused.length + this.blocked.length + this.miscounted.size > 0;
  }

  /** May the claim take jobs of this queue and type? */
  takes({ queue, type }: OfType): boolean {
    return queue === this.#types.queue && this.#types.has(type);
  }

  first(type: string): ClaimLane | undefined {
    return this.#line(type).first;
  }

  unit(lane: ClaimLane): readonly ClaimLane[] {
    const { lanes } = lane.unit!;
    return lanes.length === 1 ? lanes : lanes.filter(({ ready }) => ready);
  }

  head(lane: ClaimLane): Head | undefined {
    const head = lane.head ?? this.#readHead(lane);
    const waited = head !== undefined && head.seq === lane.heavy;
    this.#keys.asking = { id: lane.id, by: waited ? lane.by : null, since: lane.since ?? 0 };
    return head;
  }

  #readHead(lane: ClaimLane): Head | undefined {
    // Twice, for what was read with others may be too late to start.
    for (let i = 0; i < 2 && lane.at === lane.rows.length && !lane.whole; i++) this.#read(lane);
    const row = lane.rows[lane.at];
    if (row === undefined) {
      lane.ready = false;
      this.miscounted.add(lane);
      return undefined;
    }
    const weights = row.weights === null ? null : readWeights(row.weights);
    return (lane.head = { dueAt: row.due_at, seq: row.seq, weights, data: row.data });
  }

  start(lane: ClaimLane, charges: readonly KeyCharge[]): void {
    const row = this.#decision(lane);
    if (row.seq === lane.heavy) this.heavy.add(lane);
    this.started.push({ row, charges });
    lane.gave += 1;
    this.#keys.start += 1;
    const turn = this.#turn++;
    const unit = lane.unit!;
    this.served.add(unit);
    unit.served += 1;
    if (this.#shares && unit.served < this.#shareOf(lane)) return;
    unit.served = 0;
    for (const other of unit.lanes) {
      other.turn = turn;
      this.#lines.get(other.type)?.serve(other);
    }
  }

  block(lane: ClaimLane, wait: Wait, by: LimitKey): void {
    lane.ready = false;
    const heavy = isHeavy(lane.head, by) ? lane.head!.seq : null;
    this.blocked.push({ id: lane.id, wait, by: by.rule.name, heavy });
  }

  refuse(lane: ClaimLane, decision: Decision & { readonly granted: false }): void {
    this.refused.push({ row: this.#decision(lane), decision });
  }

  /** The head of the lane is not there any more. */
  #decision(lane: ClaimLane): JobRow {
    const row = lane.rows[lane.at]!;
    lane.at += 1;
    lane.head = undefined;
    lane.waiting -= 1;
    if (lane.waiting <= 0) lane.ready = false;
    return row;
  }

  #shareOf({ type, group }: ClaimLane): number {
    return shareOf(
      this.#rules.filter((rule) => applies(rule, this.#types.queue, type)),
      group,
    );
  }

  #line(type: string): Line {
    let line = this.#lines.get(type);
    if (line === undefined) this.#lines.set(type, (line = new Line((from) => this.#page(type, from))));
    return line;
  }

  /** One more than can start, to see whether anything is left; more, if those before have all been in vain. */
  #page(type: string, from: number): Page {
    const count = Math.min(PAGE, Math.max(from, this.#left(type)));
    const lanes = readyLanes(this.#step, this.#types.queue, type, count, from).map((row) => this.#lane(row));
    this.#join(lanes.filter(({ unit }) => unit === undefined));
    return { lanes, last: lanes.length < count };
  }

  /** Finds the lanes that have their turn with these. */
  #join(lanes: readonly ClaimLane[]): void {
    const { asked } = this.#types;
    if (lanes.length === 0) return;
    if (asked?.length === 1) {
      for (const lane of lanes) lane.unit = { lanes: [lane], served: lane.served };
      return;
    }
    const units = unitsOf(
      this.#step,
      Array.from(lanes, ({ id }) => id),
      asked,
    );
    for (const rows of units) {
      const own = rows.map((row) => this.#lane(row));
      const unit = { lanes: own, served: Math.max(...own.map(({ served }) => served)) };
      for (const lane of own) lane.unit = unit;
    }
  }

  #lane(row: ClaimLaneRow): ClaimLane {
    let lane = this.#lanes.get(row.id);
    if (lane === undefined) {
      const { id, type, priority, grp, turn, waiting, served } = row;
      lane = {
        id,
        type,
        priority,
        group: groupOf(grp),
        turn,
        waiting,
        served,
        ready: waiting > 0 && row.blocked === 0 && this.#types.has(type),
        moved: false,
        unit: undefined,
        rows: [],
        at: 0,
        whole: false,
        read: false,
        head: undefined,
        gave: 0,
        heavy: row.heavy,
        by: row.by,
        since: row.since,
      };
      this.#lanes.set(id, lane);
      if (lane.ready) this.#known += 1;
    }
    return lane;
  }

  /** How many jobs of a type may still be looked at: those that can start, and one more. */
  #left(type: string): number {
    return Math.min(this.#want - this.started.length, this.#room(type, null, false)) + 1;
  }

  /** How many could start under the limits for all, or under those of a group. */
  #room(type: string, group: string | null, byGroup: boolean): number {
    let room = Number.POSITIVE_INFINITY;
    for (const rule of this.#rules) {
      if (rule.byGroup !== byGroup || !applies(rule, this.#types.queue, type)) continue;
      room = Math.min(room, this.#keys.key(rule, group).free ?? room);
    }
    return room;
  }

  /** Reads jobs of this lane; where many lanes will give one each, the first of all those. */
  #read(lane: ClaimLane): void {
    const left = this.#left(lane.type);
    const share = Math.ceil(left / Math.max(1, this.#known));
    if (!lane.read && share === 1 && left > 1) {
      readFirst(this.#step, this.#alike(lane, this.#amount.of(left)), this.#amount);
      return;
    }
    lane.read = true;
    const count = Math.min(PAGE, share + 1, this.#room(lane.type, lane.group, true) + 1);
    readNext(this.#step, lane, this.#amount.of(count), this.#amount);
  }

  /** This lane and those that come after it, none of which was read: as many as may be asked for. */
  #alike(lane: ClaimLane, count: number): readonly ClaimLane[] {
    const lanes = new Set([lane]);
    for (const one of this.#line(lane.type).unserved) {
      if (lanes.size >= count) break;
      for (const other of one.unit!.lanes) if (other.ready && !other.read) lanes.add(other);
    }
    for (const one of lanes) one.read = true;
    return [...lanes];
  }
}

/** Is it too heavy for what is left? Those who only wait behind such a one are not. */
function isHeavy(head: Head | undefined, by: LimitKey): boolean {
  if (head === undefined || by.rule.weight === null) return false;
  return by.wait(chargeOf(by.rule, head.weights)) > 0;
}
