import { noJobs } from "../../core/job.ts";
import type { LimitRule } from "../../limits/rule.ts";
import type { Slotted } from "./heap.ts";
import { ByGroup } from "./by-group.ts";
import { type Counts, Lane, type LaneUnit, Line, type StoredJob } from "./lanes.ts";

/** How long jobs of a type ran: a moving average over about a hundred. */
interface Ran {
  count: number;
  averageMs: number;
}

const REMEMBERED = 100;

/** An idempotency key, and the job that it stands for. It may outlive the job. */
export interface Key extends Slotted {
  readonly queue: MemoryQueue;
  readonly key: string;
  fingerprint: string;
  id: string;
  expiresAt: number;
}

/** One queue: its jobs in the order of adding, its lines by type, its idempotency keys, and its pauses. */
export class MemoryQueue {
  readonly name: string;
  readonly counts: Counts = noJobs();
  readonly lines = new Map<string, Line>();
  /** Its lanes of one priority and group, of all types. */
  readonly units = new ByGroup<LaneUnit>();
  readonly keys = new Map<string, Key>();
  readonly pausedTypes = new Set<string>();
  paused = false;
  /** The limits that the latest claim brought along. */
  claimLimits: readonly LimitRule[] = [];
  readonly #ran = new Map<string, Ran>();
  /** By `seq`. Deleted jobs are removed from it when they are half of it. */
  #added: StoredJob[] = [];
  #gone = 0;

  constructor(name: string) {
    this.name = name;
  }

  get added(): readonly StoredJob[] {
    return this.#added;
  }

  get size(): number {
    return this.#added.length - this.#gone;
  }

  /** Does it have jobs or pauses? */
  get exists(): boolean {
    return this.size > 0 || this.paused || this.pausedTypes.size > 0;
  }

  /** Has it nothing to remember? Then it is deleted. */
  get vacant(): boolean {
    return !this.exists && this.lines.size === 0 && this.keys.size === 0;
  }

  line(type: string): Line {
    let line = this.lines.get(type);
    if (line === undefined) this.lines.set(type, (line = new Line(this.name, type)));
    return line;
  }

  /** The lines that a claim of these types may take from. */
  openLines(types: readonly string[] | null): Line[] {
    const open: Line[] = [];
    if (this.paused) return open;
    for (const type of types ?? this.lines.keys()) {
      const line = this.lines.get(type);
      if (line !== undefined && !this.pausedTypes.has(type)) open.push(line);
    }
    return open;
  }

  /** A new lane of the line. It has the latest turn of its unit, so that a group is not served again because of a new type. */
  openLane(id: number, line: Line, { priority, group, keys }: StoredJob): Lane {
    const unit = this.units.get(priority, group) ?? { priority, group, turns: [], started: 0 };
    const before = unit.turns.find(({ type }) => type === line.type);
    const own = before ?? { id, type: line.type, at: Math.max(0, ...unit.turns.map(({ at }) => at)), lanes: [] };
    const lane = new Lane(id, line, unit, own, keys);
    // Arrays of exactly one item: most groups have jobs of one type, without keys, and there may be very many groups.
    if (before === undefined) own.lanes = [lane];
    else own.lanes.push(lane);
    if (unit.turns.length === 0) unit.turns = [own];
    else if (before === undefined) unit.turns.push(own);
    this.units.set(priority, group, unit);
    line.add(lane);
    return lane;
  }

  /** Deletes an empty lane, and its line if that is vacant. */
  closeLane(lane: Lane): void {
    const { line, own, unit } = lane;
    const last = own.lanes.pop()!;
    if (last !== lane) own.lanes[(last.index = lane.index)] = last;
    if (own.lanes.length === 0) unit.turns.splice(unit.turns.indexOf(own), 1);
    if (unit.turns.length === 0) this.units.delete(unit.priority, unit.group);
    line.delete(lane);
    if (line.vacant) this.lines.delete(line.type);
  }

  /** Are there jobs of this priority without a group, and none with one? */
  isUngrouped(priority: number): boolean {
    return this.units.count(priority) === 1 && this.units.get(priority, null) !== undefined;
  }

  /** A job of this type ran for so long and completed. */
  ran(type: string, ms: number): void {
    let ran = this.#ran.get(type);
    if (ran === undefined) this.#ran.set(type, (ran = { count: 0, averageMs: 0 }));
    if (ran.count < REMEMBERED) ran.count += 1;
    ran.averageMs += (ms - ran.averageMs) / ran.count;
  }

  /** How long jobs of this type ran lately, on average; undefined: none has completed. */
  ranMs(type: string): number | undefined {
    return this.#ran.get(type)?.averageMs;
  }

  add(job: StoredJob): void {
    this.#added.push(job);
    this.counts[job.state] += 1;
  }

  remove(job: StoredJob): void {
    job.gone = true;
    this.counts[job.state] -= 1;
    this.#gone += 1;
    if (this.#gone > 32 && this.#gone * 2 > this.#added.length) {
      this.#added = this.#added.filter(({ gone }) => !gone);
      this.#gone = 0;
    }
  }
}
