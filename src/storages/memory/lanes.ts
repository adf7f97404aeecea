import { byTurn, type Lane as Turning } from "../../planner/turns.ts";
import { Heap, NOWHERE, type Slotted } from "./heap.ts";
import type { Tally } from "./limits/tally.ts";

/** What a job needs in order to wait. */
export interface Queued<Job extends Queued<Job>> extends Slotted {
  dueAt: number;
  /** Its place in the order of adding, over all queues. */
  readonly seq: number;
  /** The lane it waits in, and its neighbours there. Only the lane writes them. */
  lane: Lane<Job> | undefined;
  before: Job | undefined;
  after: Job | undefined;
}

/** Which of two starts first, in one unit? */
export const byDue = (a: Place, b: Place): number => a.dueAt - b.dueAt || a.seq - b.seq;

interface Place {
  readonly dueAt: number;
  readonly seq: number;
}

/** What takes turns: all lanes of one queue, priority and group, whatever their type. */
export interface LaneUnit<Job extends Queued<Job>> {
  readonly lanes: Lane<Job>[];
  /** How many jobs it has started in the turn that it has now. */
  given: number;
}

/** What keeps a lane back whose group is full, or whose head is too heavy. */
export interface Blockade {
  readonly by: Tally;
  /** By the clock of the ledgers; infinity: until something is given back. */
  readonly until: number;
}

/** Jobs of one type, priority and group that are due, as a list that any of them can leave at once. */
export class Lane<Job extends Queued<Job>> implements Turning, Slotted {
  readonly id: number;
  readonly line: Line<Job>;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  /** It is one of its lanes while it is open. */
  readonly unit: LaneUnit<Job>;
  /** Set while it is among the blocked lanes of its line. */
  blocked: Blockade | undefined = undefined;
  turn = 0;
  waiting = 0;
  slot = NOWHERE;
  /** Since when nobody has waited in it. */
  emptySince = 0;
  first: Job | undefined;
  #last: Job | undefined;
  /** The one that was put in between most recently, while it waits: the next such one mostly belongs right after it. */
  #finger: Job | undefined;

  constructor(id: number, line: Line<Job>, priority: number, group: string | null, unit: LaneUnit<Job>) {
    this.id = id;
    this.line = line;
    this.type = line.type;
    this.priority = priority;
    this.group = group;
    this.unit = unit;
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

/** All jobs of one type in a queue that have not started. */
export class Line<Job extends Queued<Job>> {
  readonly queue: string;
  readonly type: string;
  /** How many jobs wait in its lanes. */
  waiting = 0;
  /** Lanes where somebody waits and may start, in the order in which they have their turn. */
  readonly ready = new Heap<Lane<Job>>(byTurn);
  /** Lanes where somebody waits and whose group is full, the one in front that may be ready first. */
  readonly blocked: Heap<Lane<Job>> = new Heap(byBlockade);
  /** Jobs that are due later. */
  readonly scheduled = new Heap<Job>(byDue);
  readonly #lanes = new ByGroup<Lane<Job>>();

  constructor(queue: string, type: string) {
    this.queue = queue;
    this.type = type;
  }

  /** Has it neither jobs nor lanes? */
  get vacant(): boolean {
    return this.#lanes.size === 0 && this.scheduled.size === 0;
  }

  lane(priority: number, group: string | null): Lane<Job> | undefined {
    return this.#lanes.get(priority, group);
  }

  open(lane: Lane<Job>): void {
    this.#lanes.set(lane.priority, lane.group, lane);
  }

  /** Forgets an empty lane, and when it had its turn. */
  close(lane: Lane<Job>): void {
    this.#lanes.delete(lane.priority, lane.group);
  }
}

/** Not by subtraction: there is no telling two that wait for ever apart by that. */
function byBlockade<Job extends Queued<Job>>(a: Lane<Job>, b: Lane<Job>): number {
  const [first, second] = [a.blocked!.until, b.blocked!.until];
  return first === second ? a.id - b.id : first < second ? -1 : 1;
}

/** What there is for a priority and a group. */
export class ByGroup<T> {
  readonly #priorities = new Map<number, Map<string | null, T>>();

  /** How many priorities there is something for. */
  get size(): number {
    return this.#priorities.size;
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
