import type { AttemptRecord, JobKeys, JobRecord, JobState, LogLine } from "../../core/job.ts";
import type { HeavyHead } from "../../planner/heavy-heads.ts";
import type { Lane as Turning } from "../../planner/turns.ts";
import { ByGroup } from "./by-group.ts";
import { Heap, NOWHERE, type Slotted } from "./heap.ts";
import type { Charged, MemoryLimitState } from "./limits/limit-state.ts";
import { type Linked, Sequence } from "./sequence.ts";

/** A deadline that is being watched: that of a job which has not started. */
export interface Deadline extends Slotted {
  at: number;
  readonly job: StoredJob;
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** A job as this storage keeps it. It is changed in place; callers get a copy. */
export interface StoredJob extends Mutable<JobRecord>, Linked<StoredJob> {
  /** Its place in the order of adding, over all queues. */
  readonly seq: number;
  /** The lane it waits in. Only the lane writes it. Its neighbours (`before`, `after`) are there, or among the active jobs. */
  lane: Lane | undefined;
  /** While it backs off: the `dueAt` that it takes again when that is over. */
  firstDueAt: number | undefined;
  /** How many jobs of its queue are in each state. */
  readonly counts: Counts;
  /** Deleted: it is in no index any more. */
  gone: boolean;
  /**
   * When it is deleted, once it has ended; infinity before that, for it must not be a small integer: V8 keeps these in another way, and where
   * a field gets its first other number, every object of the same shape is rewritten when it is next used. With 0 a claim of ten jobs
   * that had been added before any job ended took 10 µs instead of 3.
   */
  deleteAt: number;
  /** The instants that the caller gave, by the wall clock. `dueAt` (until the job waits) and `deadline` follow them (`Book.now`). */
  dueWall: number | null;
  deadlineWall: number | null;
  /** Set while it waits or is scheduled, if it has a deadline. */
  watched: Deadline | undefined;
  /** While it is active: what its start was charged under its limits. */
  charges: readonly Charged[];
  attempts: AttemptRecord[] | undefined;
  log: LogLine[] | undefined;
}

export type Counts = Record<JobState, number>;

/** The order of jobs in one unit. */
export const byDue = (a: Place, b: Place): number => a.dueAt - b.dueAt || a.seq - b.seq;

interface Place {
  readonly dueAt: number;
  readonly seq: number;
}

/** What takes turns: all lanes of one queue, priority and group, whatever their type and keys. */
export interface LaneUnit {
  readonly priority: number;
  readonly group: string | null;
  /** One for each type. */
  turns: Turn[];
  /** How many jobs it has started in the turn that it has now. */
  started: number;
}

/** The latest turn of a unit with one type. */
export interface Turn {
  readonly id: number;
  readonly type: string;
  /** A number that grows with every turn; 0: never. */
  at: number;
  /** Several, if its jobs have different keys. */
  lanes: Lane[];
}

/** Due jobs of one type, priority, group and keys: a linked list, so that any job can be removed in O(1). */
export class Lane implements Turning, Linked<Lane> {
  readonly id: number;
  readonly line: Line;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  readonly keys: JobKeys | undefined;
  readonly unit: LaneUnit;
  /** Its turn, and its index among the lanes of that turn. */
  readonly own: Turn;
  index: number;
  /** The gate that it is at, while jobs wait in it. */
  gate: Gate | undefined = undefined;
  /** The turn that orders it at its gate. Where a turn has many lanes it may be out of date: then the lane is too far in front. */
  turn: number;
  /** Its first job, if that is a heavy head. Only `HeavyHeads` writes it. */
  heavy: LaneHead | undefined = undefined;
  waiting = 0;
  slot = NOWHERE;
  before: Lane | undefined = undefined;
  after: Lane | undefined = undefined;
  /** Since when it has been empty; infinity before that, for the reason that `deleteAt` of a job gives. */
  emptySince = Number.POSITIVE_INFINITY;
  first: StoredJob | undefined;
  #last: StoredJob | undefined;
  /** The job that was inserted before the end most recently, while it waits: the next such job mostly belongs right after it. */
  #finger: StoredJob | undefined;

  constructor(id: number, line: Line, unit: LaneUnit, own: Turn, keys: JobKeys | undefined) {
    this.id = id;
    this.line = line;
    this.type = line.type;
    this.priority = unit.priority;
    this.group = unit.group;
    // A copy: `ClaimLimits` tells lanes apart by this object, and a job that is updated takes its own to another lane.
    this.keys = keys && { ...keys };
    this.unit = unit;
    this.own = own;
    this.index = own.lanes.length;
    this.turn = own.at;
  }

  /** Most jobs come last. A job that returns to the lane belongs near the front. */
  put(job: StoredJob): void {
    let before = this.#last;
    if (before !== undefined && byDue(job, before) < 0) {
      const from = this.#finger !== undefined && byDue(this.#finger, job) < 0 ? this.#finger : undefined;
      before = from;
      let after = from === undefined ? this.first : from.after;
      while (after !== undefined && byDue(after, job) < 0) {
        before = after;
        after = after.after;
      }
      this.#finger = job;
    }
    const after = before === undefined ? this.first : before.after;
    job.before = before;
    job.after = after;
    if (before === undefined) this.first = job;
    else before.after = job;
    if (after === undefined) this.#last = job;
    else after.before = job;
    job.lane = this;
    this.waiting += 1;
    this.line.waiting += 1;
  }

  remove(job: StoredJob): void {
    const { before, after } = job;
    if (before === undefined) this.first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    if (this.#finger === job) this.#finger = before;
    job.before = undefined;
    job.after = undefined;
    job.lane = undefined;
    this.waiting -= 1;
    this.line.waiting -= 1;
  }
}

/** The first job of a lane, as a heavy head. Instants are by the clock of the limits. */
export interface LaneHead extends HeavyHead {
  readonly lane: Lane;
  readonly job: StoredJob;
  /** The key that it reserves. */
  readonly by: MemoryLimitState;
  until: number;
  /** Something was returned since: it may fit earlier. */
  returnedAt: number | undefined;
}

/** The gate is open. */
export const OPEN = Number.NEGATIVE_INFINITY;

/**
 * The lanes of one queue and type that wait for the same limit key. A gate opens and closes as a whole, and its lanes stay at it: a
 * key that many lanes wait for costs as much as one with a single lane.
 */
export class Gate implements Slotted {
  readonly line: Line;
  /** undefined: a home gate. */
  readonly key: MemoryLimitState | undefined;
  /** It is for one lane, whose first job is a heavy head: that lane goes before others of its priority. */
  readonly front: boolean;
  /** In the order in which they have their turn. */
  readonly lanes: Sequence<Lane> = new Sequence(byPlace);
  /** When it opens, by the clock of the limits; infinity: when something is returned; `OPEN`: it is open. */
  until = OPEN;
  slot = NOWHERE;

  constructor(line: Line, key: MemoryLimitState | undefined, front: boolean) {
    this.line = line;
    this.key = key;
    this.front = front;
  }

  get isOpen(): boolean {
    return this.until === OPEN;
  }

  enter(lane: Lane): void {
    lane.gate = this;
    lane.turn = lane.own.at;
    this.lanes.add(lane);
    if (this.lanes.size === 1) this.#heap.add(this);
    else this.#heap.moved(this);
  }

  leave(lane: Lane): void {
    // A gate without lanes is in no heap, because heaps order gates by their first lanes.
    if (this.lanes.size === 1) this.#heap.remove(this);
    this.lanes.remove(lane);
    lane.gate = undefined;
    if (this.lanes.size > 0) this.#heap.moved(this);
    else this.until = OPEN;
  }

  /** The lane had its turn, or another job is its first. */
  moved(lane: Lane): void {
    lane.turn = lane.own.at;
    this.lanes.moved(lane);
    this.#heap.moved(this);
  }

  close(until: number): void {
    if (this.isOpen) {
      this.line.open.remove(this);
      this.until = until;
      this.line.closed.add(this);
    } else {
      this.until = until;
      this.line.closed.moved(this);
    }
  }

  open(): void {
    if (this.isOpen) return;
    this.line.closed.remove(this);
    this.until = OPEN;
    this.line.open.add(this);
  }

  get #heap(): Heap<Gate> {
    return this.isOpen ? this.line.open : this.line.closed;
  }
}

/**
 * All jobs of one type in a queue that have not started. A lane in which jobs wait is at one gate: that of a limit key that
 * refused it, or the home gate of its priority, which is always open. A claim looks at the first lanes of open gates only.
 */
export class Line {
  readonly queue: string;
  readonly type: string;
  /** How many jobs wait in its lanes. */
  waiting = 0;
  /** Open gates with lanes, in the order of the turns of these. */
  readonly open: Heap<Gate> = new Heap(byFirstLane);
  /** Closed gates with lanes, the one that opens first in front. */
  readonly closed: Heap<Gate> = new Heap(byOpening);
  /** Jobs that are due later. */
  readonly scheduled = new Heap<StoredJob>(byDue);
  /** One for each priority: so the lanes at one differ by their turns alone, which suits a sequence. */
  readonly #homes = new Map<number, Gate>();
  readonly #gates = new Map<MemoryLimitState, Gate>();
  readonly #lanes = new ByGroup<Lane>();

  constructor(queue: string, type: string) {
    this.queue = queue;
    this.type = type;
  }

  /** Has it neither lanes nor scheduled jobs? */
  get vacant(): boolean {
    return this.#lanes.size === 0 && this.scheduled.size === 0;
  }

  /** The lane at an open gate whose turn it is. */
  get first(): Lane | undefined {
    for (let moves = 0; ; moves++) {
      const gate = this.open.first;
      const lane = gate?.lanes.first;
      if (lane === undefined || lane.turn === lane.own.at || moves === MOST_MOVES) return lane;
      gate!.moved(lane);
    }
  }

  lane(priority: number, group: string | null, keys: JobKeys | undefined): Lane | undefined {
    return this.#lanes.get(priority, laneName(group, keys));
  }

  add(lane: Lane): void {
    this.#lanes.set(lane.priority, laneName(lane.group, lane.keys), lane);
  }

  /** Deletes an empty lane. */
  delete(lane: Lane): void {
    this.#lanes.delete(lane.priority, laneName(lane.group, lane.keys));
    if (this.#lanes.count(lane.priority) === 0) this.#homes.delete(lane.priority);
  }

  /** Jobs wait in the lane from now on: it goes to the home gate. */
  enter(lane: Lane): void {
    this.#home(lane.priority).enter(lane);
  }

  /** No job waits in the lane any more. */
  leave(lane: Lane): void {
    const gate = lane.gate!;
    gate.leave(lane);
    if (gate.lanes.size === 0 && gate.key !== undefined && !gate.front) this.#gates.delete(gate.key);
  }

  /** Moves the lane to the gate of this key; `front`: to one of its own, before all others of its priority. */
  move(lane: Lane, key: MemoryLimitState | undefined, front: boolean): Gate {
    const found = key === undefined ? this.#home(lane.priority) : front ? undefined : this.#gates.get(key);
    if (found !== undefined && found === lane.gate) return found;
    const gate = found ?? new Gate(this, key, front);
    if (!front && key !== undefined) this.#gates.set(key, gate);
    this.leave(lane);
    gate.enter(lane);
    return gate;
  }

  #home(priority: number): Gate {
    let home = this.#homes.get(priority);
    if (home === undefined) this.#homes.set(priority, (home = new Gate(this, undefined, false)));
    return home;
  }

  *lanes(): Iterable<Lane> {
    for (const gate of this.open) yield* gate.lanes;
    for (const gate of this.closed) yield* gate.lanes;
  }
}

/** At most so many lanes whose turn is out of date are moved before the first lane is answered, which then may not be the first. */
const MOST_MOVES = 1_000;

/** The name of a lane among those of its line and priority. Names of groups have no U+0000. */
function laneName(group: string | null, keys: JobKeys | undefined): string | null {
  if (keys === undefined) return group;
  const pairs = Object.entries(keys).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([group, pairs]) + "\0";
}

/** The order of lanes at a gate. Those of one unit and type go by their first jobs. */
function byPlace(a: Lane, b: Lane): number {
  return b.priority - a.priority || a.turn - b.turn || a.own.id - b.own.id || byDue(a.first!, b.first!);
}

function byFirstLane(a: Gate, b: Gate): number {
  const [one, other] = [a.lanes.first!, b.lanes.first!];
  return other.priority - one.priority || Number(b.front) - Number(a.front) || byPlace(one, other);
}

/** Not by subtraction: the difference of two infinities is no number. */
function byOpening(a: Gate, b: Gate): number {
  const [one, other] = [a.until, b.until];
  return one === other ? a.lanes.first!.id - b.lanes.first!.id : one < other ? -1 : 1;
}
