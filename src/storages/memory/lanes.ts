import type { JobKeys } from "../../core/job.ts";
import type { HeavyHead } from "../../planner/heavy-heads.ts";
import type { Lane as Turning } from "../../planner/turns.ts";
import { Heap, NOWHERE, type Slotted } from "./heap.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";
import { type Linked, Sequence } from "./sequence.ts";

/** What a job needs in order to wait. */
export interface Queued<Job extends Queued<Job>> extends Slotted {
  dueAt: number;
  /** Its place in the order of adding, over all queues. */
  readonly seq: number;
  /** The lane it waits in. Only the lane writes it. */
  lane: Lane<Job> | undefined;
  /** Its neighbours there, or among the active jobs. */
  before: Job | undefined;
  after: Job | undefined;
}

/** Which of two starts first, in one unit? */
export const byDue = (a: Place, b: Place): number => a.dueAt - b.dueAt || a.seq - b.seq;

interface Place {
  readonly dueAt: number;
  readonly seq: number;
}

/** What takes turns: all lanes of one queue, priority and group, whatever their type and keys. */
export interface LaneUnit<Job extends Queued<Job>> {
  readonly priority: number;
  readonly group: string | null;
  /** One for each type. */
  turns: Turn<Job>[];
  /** How many jobs it has started in the turn that it has now. */
  started: number;
}

/** When a unit had its turn, as far as jobs of one type are concerned. */
export interface Turn<Job extends Queued<Job>> {
  readonly id: number;
  readonly type: string;
  /** As a number that grows with every turn; 0: never. */
  at: number;
  /** More than one if its jobs have different keys. */
  lanes: Lane<Job>[];
}

/** Jobs of one type, priority, group and keys that are due, as a list that any of them can leave at once. */
export class Lane<Job extends Queued<Job>> implements Turning, Linked<Lane<Job>> {
  readonly id: number;
  readonly line: Line<Job>;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  readonly keys: JobKeys | undefined;
  readonly unit: LaneUnit<Job>;
  /** It is one of its lanes, at this index, until it is deleted. */
  readonly own: Turn<Job>;
  index: number;
  /** Where it stands while jobs wait in it. */
  gate: Gate<Job> | undefined = undefined;
  /** The turn that it stands by at its gate. Of many lanes with one turn it may be an older one: then it is too far in front. */
  turn: number;
  /** Its first job, if that is a heavy head. Only `HeavyHeads` writes it. */
  heavy: LaneHead<Job> | undefined = undefined;
  waiting = 0;
  slot = NOWHERE;
  before: Lane<Job> | undefined = undefined;
  after: Lane<Job> | undefined = undefined;
  /** Since when it has been empty; infinity before that, for the reason that `deleteAt` of a job gives. */
  emptySince = Number.POSITIVE_INFINITY;
  first: Job | undefined;
  #last: Job | undefined;
  /** The one that was put in between most recently, while it waits: the next such one mostly belongs right after it. */
  #finger: Job | undefined;

  constructor(id: number, line: Line<Job>, unit: LaneUnit<Job>, own: Turn<Job>, keys: JobKeys | undefined) {
    this.id = id;
    this.line = line;
    this.type = line.type;
    this.priority = unit.priority;
    this.group = unit.group;
    this.keys = keys;
    this.unit = unit;
    this.own = own;
    this.index = own.lanes.length;
    this.turn = own.at;
  }

  /** Most come last. One that was given back belongs near the front. */
  put(job: Job): void {
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

  remove(job: Job): void {
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
export interface LaneHead<Job extends Queued<Job>> extends HeavyHead {
  readonly lane: Lane<Job>;
  readonly job: Job;
  /** The key that it reserves. */
  readonly by: MemoryLimitState;
  until: number;
  /** Something was returned since: it may fit earlier. */
  returnedAt: number | undefined;
}

/** The gate is open. */
export const OPEN = Number.NEGATIVE_INFINITY;

/**
 * Where lanes of one queue and type stand that wait for the same limit key. It opens and closes as a whole, and the lanes stay
 * where they are: a key that many lanes wait for costs as much as one with a single lane.
 */
export class Gate<Job extends Queued<Job>> implements Slotted {
  readonly line: Line<Job>;
  /** undefined: a home gate. */
  readonly key: MemoryLimitState | undefined;
  /** It is for one lane, whose first job did not fit into what was left of the key: that lane is before others of its priority. */
  readonly front: boolean;
  /** In the order in which they have their turn. */
  readonly lanes: Sequence<Lane<Job>> = new Sequence(byPlace);
  /** When it opens, by the clock of the limits; infinity: when something is returned; `OPEN`: it is open. */
  until = OPEN;
  slot = NOWHERE;

  constructor(line: Line<Job>, key: MemoryLimitState | undefined, front: boolean) {
    this.line = line;
    this.key = key;
    this.front = front;
  }

  get isOpen(): boolean {
    return this.until === OPEN;
  }

  enter(lane: Lane<Job>): void {
    lane.gate = this;
    lane.turn = lane.own.at;
    this.lanes.add(lane);
    if (this.lanes.size === 1) this.#heap.add(this);
    else this.#heap.moved(this);
  }

  leave(lane: Lane<Job>): void {
    // A gate without lanes is in no heap: those are ordered by the first lane.
    if (this.lanes.size === 1) this.#heap.remove(this);
    this.lanes.remove(lane);
    lane.gate = undefined;
    if (this.lanes.size > 0) this.#heap.moved(this);
    else this.until = OPEN;
  }

  /** The lane had its turn, or another job is its first. */
  moved(lane: Lane<Job>): void {
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

  get #heap(): Heap<Gate<Job>> {
    return this.isOpen ? this.line.open : this.line.closed;
  }
}

/**
 * All jobs of one type in a queue that have not started. A lane where jobs wait stands at one gate: that of a limit key that
 * refused it, or the home gate of its priority, which is always open. A claim looks at the first lanes of open gates only.
 */
export class Line<Job extends Queued<Job>> {
  readonly queue: string;
  readonly type: string;
  /** How many jobs wait in its lanes. */
  waiting = 0;
  /** Open gates where lanes stand, in the order in which these have their turn. */
  readonly open: Heap<Gate<Job>> = new Heap(byFirstLane);
  /** Closed gates where lanes stand, the one in front that opens first. */
  readonly closed: Heap<Gate<Job>> = new Heap(byOpening);
  /** Jobs that are due later. */
  readonly scheduled = new Heap<Job>(byDue);
  /** One for each priority that there are lanes of: the lanes at one differ by their turns alone, which suits a sequence. */
  readonly #homes = new Map<number, Gate<Job>>();
  readonly #gates = new Map<MemoryLimitState, Gate<Job>>();
  readonly #lanes = new ByGroup<Lane<Job>>();

  constructor(queue: string, type: string) {
    this.queue = queue;
    this.type = type;
  }

  /** Has it neither jobs nor lanes? */
  get vacant(): boolean {
    return this.#lanes.size === 0 && this.scheduled.size === 0;
  }

  /** The lane at an open gate whose turn it is. */
  get first(): Lane<Job> | undefined {
    for (let moves = 0; ; moves++) {
      const gate = this.open.first;
      const lane = gate?.lanes.first;
      if (lane === undefined || lane.turn === lane.own.at || moves === MOST_MOVES) return lane;
      gate!.moved(lane);
    }
  }

  lane(priority: number, group: string | null, keys: JobKeys | undefined): Lane<Job> | undefined {
    return this.#lanes.get(priority, laneName(group, keys));
  }

  add(lane: Lane<Job>): void {
    this.#lanes.set(lane.priority, laneName(lane.group, lane.keys), lane);
  }

  /** Forgets an empty lane. */
  delete(lane: Lane<Job>): void {
    this.#lanes.delete(lane.priority, laneName(lane.group, lane.keys));
    if (this.#lanes.count(lane.priority) === 0) this.#homes.delete(lane.priority);
  }

  /** Jobs wait in the lane from now on: it stands at the home gate. */
  enter(lane: Lane<Job>): void {
    this.#home(lane.priority).enter(lane);
  }

  /** No job waits in the lane any more. */
  leave(lane: Lane<Job>): void {
    const gate = lane.gate!;
    gate.leave(lane);
    if (gate.lanes.size === 0 && gate.key !== undefined && !gate.front) this.#gates.delete(gate.key);
  }

  /** The lane stands at the gate of this key from now on; `front`: at one of its own, before all others of its priority. */
  move(lane: Lane<Job>, key: MemoryLimitState | undefined, front: boolean): Gate<Job> {
    const found = key === undefined ? this.#home(lane.priority) : front ? undefined : this.#gates.get(key);
    if (found !== undefined && found === lane.gate) return found;
    const gate = found ?? new Gate<Job>(this, key, front);
    if (!front && key !== undefined) this.#gates.set(key, gate);
    this.leave(lane);
    gate.enter(lane);
    return gate;
  }

  #home(priority: number): Gate<Job> {
    let home = this.#homes.get(priority);
    if (home === undefined) this.#homes.set(priority, (home = new Gate<Job>(this, undefined, false)));
    return home;
  }

  *lanes(): Iterable<Lane<Job>> {
    for (const gate of this.open) yield* gate.lanes;
    for (const gate of this.closed) yield* gate.lanes;
  }
}

/** So many lanes of units that had their turn since are put where they belong before one is looked at that may not be first. */
const MOST_MOVES = 1_000;

/** What tells apart the lanes of a priority in a line. Names have no U+0000. */
function laneName(group: string | null, keys: JobKeys | undefined): string | null {
  if (keys === undefined) return group;
  const pairs = Object.entries(keys).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([group, pairs]) + "\0";
}

/** The order of lanes at a gate. Those of one unit and type go by their first jobs. */
function byPlace<Job extends Queued<Job>>(a: Lane<Job>, b: Lane<Job>): number {
  return b.priority - a.priority || a.turn - b.turn || a.own.id - b.own.id || byDue(a.first!, b.first!);
}

function byFirstLane<Job extends Queued<Job>>(a: Gate<Job>, b: Gate<Job>): number {
  const [one, other] = [a.lanes.first!, b.lanes.first!];
  return other.priority - one.priority || Number(b.front) - Number(a.front) || byPlace(one, other);
}

/** Not by subtraction: two that are closed until a release cannot be told apart by that. */
function byOpening<Job extends Queued<Job>>(a: Gate<Job>, b: Gate<Job>): number {
  const [one, other] = [a.until, b.until];
  return one === other ? a.lanes.first!.id - b.lanes.first!.id : one < other ? -1 : 1;
}

/** What there is for a priority and a group. */
export class ByGroup<T> {
  readonly #priorities = new Map<number, Map<string | null, T>>();

  /** How many priorities there is something for. */
  get size(): number {
    return this.#priorities.size;
  }

  /** How much there is for this priority. */
  count(priority: number): number {
    return this.#priorities.get(priority)?.size ?? 0;
  }

  /** All there is for this priority, in no order. */
  at(priority: number): Iterable<T> {
    return this.#priorities.get(priority)?.values() ?? [];
  }

  get(priority: number, group: string | null): T | undefined {
    return this.#priorities.get(priority)?.get(group);
  }

  /** All there is for priorities above this one, in no order. */
  *above(priority: number): Iterable<T> {
    for (const [other, groups] of this.#priorities) if (other > priority) yield* groups.values();
  }

  set(priority: number, group: string | null, value: T): void {
    let groups = this.#priorities.get(priority);
    if (groups === undefined) this.#priorities.set(priority, (groups = new Map()));
    groups.set(group, value);
  }

  delete(priority: number, group: string | null): void {
    const groups = this.#priorities.get(priority);
    groups?.delete(group);
    if (groups?.size === 0) this.#priorities.delete(priority);
  }
}
