import { valuesOf } from "../driver.ts";
import { deleteEmpty, openGates } from "../limits/gates.ts";
import { grpOf } from "../limits/groups.ts";
import { otherHeads } from "../limits/heavy-heads.ts";
import type { Step } from "../step.ts";
import { turnOfNew } from "./keyed.ts";
import { FEW_TYPES } from "./many-types.ts";

/** What decides which lane a job waits in. */
export interface OfLane {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  /** As text; null: none. */
  readonly keys: string | null;
}

/** A lane that jobs come into. */
interface EnteredLane {
  readonly of: OfLane;
  readonly found: Found;
  readonly move: Move;
}

/** How many more jobs a lane has, or fewer if it is negative; and the lane, if any came into it. */
interface Move {
  by: number;
  into: EnteredLane | undefined;
}

/** A lane as it was before anything came into it. */
interface Found {
  readonly id: number;
  readonly waiting: number;
  readonly empty_since: number | null;
  readonly gate: number | null;
  readonly first_at: number | null;
}

const FOUND = "id, waiting, empty_since, gate, first_at";
const FIND = `SELECT ${FOUND} FROM sluice_lanes WHERE queue = ? AND type = ? AND priority = ? AND grp = ? AND keys = ?`;
// Of a unit with lanes of many types the first say which turn it is. A lane beside many others says which job is its first, as they do.
const SOME = `FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ? AND keys = '' LIMIT ${FEW_TYPES}`;
const FIRST_OF_NEW = `(SELECT iif(count(*) = ${FEW_TYPES} OR count(first_at) > 0, 0, NULL) FROM (SELECT first_at ${SOME}))`;
const TURN_OF_NEW = `(SELECT coalesce(max(turn), 0) FROM (SELECT turn ${SOME}))`;
// Where no other lane differs from it only in its keys, it is the first of its own: its number is the next.
const OPEN = `INSERT INTO sluice_lanes (queue, type, priority, grp, keys, first_at, own, waiting, turn, empty_since)
  VALUES (?, ?, ?, ?, ?, iif(?, ${FIRST_OF_NEW}, NULL), coalesce(?, (SELECT coalesce(max(id), 0) + 1 FROM sluice_lanes)), 0, ?, ?)
  RETURNING ${FOUND}`;
// The same without keys, in a queue where no lane has any.
const OPEN_PLAIN = `INSERT INTO sluice_lanes (queue, type, priority, grp, first_at, own, waiting, turn, empty_since)
  VALUES (?, ?, ?, ?, ${FIRST_OF_NEW}, (SELECT coalesce(max(id), 0) + 1 FROM sluice_lanes), 0, ${TURN_OF_NEW}, ?)
  RETURNING ${FOUND}`;
const ENTER = "UPDATE sluice_lanes SET waiting = waiting + ? WHERE id = ?";
const ENTER_EMPTY = "UPDATE sluice_lanes SET waiting = waiting + ?, empty_since = NULL WHERE id = ?";
const CLOSED = "SELECT 1 FROM sluice_gates WHERE id = ? AND until > ?";
const RECOUNT = `UPDATE sluice_lanes SET (waiting, empty_since) = (SELECT count(*), iif(count(*) > 0, NULL, ?)
  FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting') WHERE id = ?`;
/** Since when a lane is empty after it gave so many jobs: a parameter, if it is empty now and was not before. */
export const emptyAfter = (gave: string): string =>
  `empty_since = iif(waiting > ${gave}, NULL, coalesce(empty_since, ?))`;
// Neither the turn nor an empty lane: no index has what is changed.
const COUNTED = "UPDATE sluice_lanes SET waiting = waiting - ? WHERE id = ?";
const SERVED = `UPDATE sluice_lanes SET turn = ?, waiting = waiting - ?, served = ?, ${emptyAfter("?")} WHERE id = ?`;
// The same for a list of [id, turn, how many it gave, how many were served].
const MANY_SERVED = `UPDATE OR FAIL sluice_lanes SET turn = served.value ->> 1, waiting = waiting - (served.value ->> 2),
  served = served.value ->> 3, ${emptyAfter("(served.value ->> 2)")}
  FROM json_each(?) AS served WHERE sluice_lanes.id = served.value ->> 0`;
const GATE = "SELECT gate FROM sluice_lanes WHERE id = ?";
const LEAVE = `UPDATE sluice_lanes SET waiting = waiting - ?, empty_since = iif(waiting > ?, NULL, ?), gate = iif(waiting > ?, gate, NULL)
  WHERE id = ?`;
const GO_HOME = "UPDATE sluice_lanes SET gate = NULL WHERE id = ?";
const FIRST_JOB = `FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1`;
/** The columns that say which job is first in a lane with keys. */
export const HEAD = `head_at = coalesce((SELECT due_at ${FIRST_JOB}), 0), head_seq = coalesce((SELECT seq ${FIRST_JOB}), 0)`;
const LOOK = `UPDATE sluice_lanes SET ${HEAD} WHERE id = ? AND keys <> '' AND waiting > 0 RETURNING gate`;
const FIRST = `first_at = coalesce((SELECT due_at ${FIRST_JOB}), 0), first_seq = coalesce((SELECT seq ${FIRST_JOB}), 0)`;
/** The first job of a lane beside lanes of many other types. */
export const LOOK_AT_FIRST = `UPDATE sluice_lanes SET ${FIRST} WHERE id = ? AND first_at IS NOT NULL AND waiting > 0`;
const UNIT = "queue = ? AND priority = ? AND grp = ? AND keys = ''";
const SAYS_FIRST = `SELECT first_at FROM sluice_lanes WHERE ${UNIT} AND id <> ? LIMIT 1`;
const ALL_SAY_FIRST = `UPDATE sluice_lanes SET ${FIRST} WHERE ${UNIT}`;
/** A gate is known by a place that may be too early, and is never too late: this lane stands there. */
export const EARLIER = `UPDATE sluice_gates SET (priority, turn, own, head_at, head_seq) =
    (one.priority, one.turn, one.own, one.head_at, one.head_seq)
  FROM sluice_lanes AS one WHERE one.id = ? AND sluice_gates.id = one.gate AND sluice_gates.front = 0
    AND (-one.priority, one.turn, one.own, one.head_at, one.head_seq) < (-sluice_gates.priority, sluice_gates.turn,
      sluice_gates.own, sluice_gates.head_at, sluice_gates.head_seq)`;

/**
 * How many jobs come into lanes and leave them during a step. The lanes are looked up as jobs ask for them, and their
 * counts are written once, by `write`, however many jobs move. Workers are woken up then: also those that a
 * limit blocks if no job waited in the lane before. While the gate of a lane is closed, there are no other wake-ups.
 */
export class LaneMoves {
  readonly #step: Step;
  readonly #found = new Map<string, EnteredLane>();
  /** The lane that was entered last: jobs that are added together often have it in common. */
  #latest: EnteredLane | undefined;
  readonly #moves = new Map<number, Move>();
  /** Lanes that have perhaps another job in front: how heavy it is decides whether a limit lets them. */
  readonly #changed = new Set<number>();
  /** Lanes that have keys, or lanes of many other types beside them, or may have: the first job of each is written down. */
  readonly #keyed = new Set<number>();
  /** Lanes that were found before may be among many now. */
  #madeMany = false;
  readonly #wakes: boolean;

  /** `wakes`: wakes up workers; false where the caller takes the jobs itself, or workers have their wake-up time. */
  constructor(step: Step, wakes = true) {
    this.#step = step;
    this.#wakes = wakes;
  }

  /** The lane of this job, which waits in it from now on: behind the others, unless it was due before. */
  enter(job: OfLane, inFront = false): number {
    const lane = (this.#latest = this.#find(job));
    const { id } = lane.found;
    lane.move.by += 1;
    if (job.keys !== null) this.#keyed.add(id);
    if (inFront && this.#weighs) this.#changed.add(id);
    return id;
  }

  /** A job that waited does not any more, and has not started. */
  leave(lane: number): void {
    this.move(lane, -1);
    this.#keyed.add(lane);
    if (!this.#weighs) return;
    this.#changed.add(lane);
    this.#step.wakesAll = true;
  }

  /** So many more in the lane; fewer, if it is negative. */
  move(lane: number, by: number): void {
    this.#moveOf(lane).by += by;
  }

  #moveOf(lane: number): Move {
    let move = this.#moves.get(lane);
    if (move === undefined) this.#moves.set(lane, (move = { by: 0, into: undefined }));
    return move;
  }

  write(): void {
    const step = this.#step;
    if (this.#changed.size > 0) this.#lookAgain();
    for (const [lane, { by, into }] of this.#moves) {
      if (by > 0) this.#enter(into!, by);
      else if (by < 0) this.#left(lane, -by);
    }
    for (const lane of this.#keyed) {
      const row = step.sql(LOOK).get(lane) as InGate | undefined;
      if (row === undefined) step.sql(LOOK_AT_FIRST).run(lane);
      else if (row.gate !== null) step.sql(EARLIER).run(lane);
    }
    this.#keyed.clear();
    this.#found.clear();
    this.#latest = undefined;
    this.#moves.clear();
    this.#changed.clear();
  }

  get #weighs(): boolean {
    return this.#step.rules.weighing.length > 0;
  }

  /** Others may fit where the one that was in front did not. */
  #lookAgain(): void {
    const step = this.#step;
    for (const { id, gate, name, grp, queue, front } of otherHeads(step, this.#changed)) {
      if (front !== 0) {
        step.sql(GO_HOME).run(id);
        deleteEmpty(step, gate);
        step.wakesAll = true;
      }
      openGates(step, name, grp);
      if (this.#wakes) step.wake(queue, true);
    }
  }

  #enter({ of: { queue }, found }: EnteredLane, by: number): void {
    const step = this.#step;
    const { id, waiting, empty_since: emptySince, gate, first_at: many } = found;
    step.sql(emptySince === null ? ENTER : ENTER_EMPTY).run(by, id);
    if (many !== null || this.#madeMany) this.#keyed.add(id);
    if (!this.#wakes) return;
    const isFirst = waiting === 0;
    // No claim has answered with a wake-up time for an empty lane.
    if (isFirst || gate === null || step.sql(CLOSED).get(gate, step.now) === undefined) step.wake(queue, isFirst);
  }

  #left(lane: number, by: number): void {
    const step = this.#step;
    const row = step.sql(GATE).get(lane) as InGate | undefined;
    step.sql(LEAVE).run(by, by, step.now, by, lane);
    if (row !== undefined && row.gate !== null) deleteEmpty(step, row.gate);
  }

  #find(of: OfLane): EnteredLane {
    const { queue, type, priority, group, keys } = of;
    if (this.#latest !== undefined && isSameLane(this.#latest.of, of)) return this.#latest;
    const name = grpOf(group);
    const own = keys ?? "";
    const key = `${queue.length} ${queue} ${type.length} ${type} ${priority} ${own.length} ${own} ${name}`;
    let lane = this.#found.get(key);
    if (lane === undefined) {
      const row = this.#step.arrays(FIND).get(queue, type, priority, name, own);
      const found = row === undefined ? this.#open(queue, type, priority, name, own) : foundOf(row);
      lane = { of, found, move: this.#moveOf(found.id) };
      lane.move.into = lane;
      this.#found.set(key, lane);
    }
    return lane;
  }

  /** A new lane stands where its unit does: a group is not served twice because it has jobs of another type now. */
  #open(queue: string, type: string, priority: number, grp: string, keys: string): Found {
    const step = this.#step;
    const unit = [queue, priority, grp] as const;
    let lane: unknown;
    if (keys === "" && !step.hasKeys(queue)) {
      lane = step.sql(OPEN_PLAIN).get(queue, type, priority, grp, ...unit, ...unit, step.now);
    } else {
      const { own, turn } = turnOfNew(step, { queue, type, priority, grp });
      if (keys !== "") step.keyed.add(queue);
      const isPlain = keys === "" ? 1 : 0;
      lane = step.sql(OPEN).get(queue, type, priority, grp, keys, isPlain, ...unit, own, turn, step.now);
    }
    this.#sayFirst(lane as Found, unit);
    return lane as Found;
  }

  /** From the lane on that makes them many, all say which job is their first. */
  #sayFirst({ id, first_at: many }: Found, unit: readonly [queue: string, priority: number, grp: string]): void {
    if (many === null) return;
    const other = this.#step.sql(SAYS_FIRST).get(...unit, id) as Pick<Found, "first_at">;
    if (other.first_at !== null) return;
    this.#step.sql(ALL_SAY_FIRST).run(...unit);
    this.#madeMany = true;
  }
}

const isSameLane = (a: OfLane, b: OfLane): boolean =>
  a.type === b.type && a.queue === b.queue && a.priority === b.priority && a.group === b.group && a.keys === b.keys;

function foundOf(row: unknown): Found {
  const v = valuesOf(row) as never[];
  return { id: v[0]!, waiting: v[1]!, empty_since: v[2]!, gate: v[3]!, first_at: v[4]! };
}

/** The lane counts what waits in it, and is looked at again. */
export function recount(step: Step, lane: number): void {
  step.sql(RECOUNT).run(step.now, lane);
  step.sql(LOOK_AT_FIRST).run(lane);
}

interface InGate {
  readonly gate: number | null;
}

/** From so many on it is less work to write jobs, or lanes, together: of a hundred a fifth less, of one twice as much. */
export const MANY = 5;

/** A lane that had its turn: the number of this, how many jobs it gave, and how many were started since it is its turn. */
export type Served = readonly [id: number, turn: number, gave: number, served: number];

export function writeServed(step: Step, lanes: readonly Served[]): void {
  if (lanes.length >= MANY) step.sql(MANY_SERVED).run(step.now, JSON.stringify(lanes));
  else for (const [id, turn, gave, served] of lanes) step.sql(SERVED).run(turn, gave, served, gave, step.now, id);
}

/** A lane gave jobs, has some left, and keeps its turn. */
export function writeGave(step: Step, id: number, gave: number): void {
  step.sql(COUNTED).run(gave, id);
}
