import { deleteEmpty, openGates } from "../limits/gates.ts";
import { grpOf } from "../limits/groups.ts";
import { otherHeads } from "../limits/heavy-heads.ts";
import type { Step } from "../step.ts";
import { turnOfNew } from "./keyed.ts";

/** What decides which lane a job waits in. */
export interface OfLane {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  /** As text; null: none. */
  readonly keys: string | null;
}

interface Entered {
  readonly queue: string;
  readonly waiting: number;
  readonly closed: number;
}

const FIND = "SELECT id FROM sluice_lanes WHERE queue = ? AND type = ? AND priority = ? AND grp = ? AND keys = ?";
// Where no other lane differs from it only in its keys, it is the first of its own: its number is the next.
const OPEN = `INSERT INTO sluice_lanes (queue, type, priority, grp, keys, own, waiting, turn, used_at)
  VALUES (?, ?, ?, ?, ?, coalesce(?, (SELECT coalesce(max(id), 0) + 1 FROM sluice_lanes)), 0, ?, ?) RETURNING id`;
// The same without keys, in a queue where no lane has any.
const OPEN_PLAIN = `INSERT INTO sluice_lanes (queue, type, priority, grp, own, waiting, turn, used_at)
  VALUES (?, ?, ?, ?, (SELECT coalesce(max(id), 0) + 1 FROM sluice_lanes), 0, (SELECT coalesce(max(turn), 0) FROM sluice_lanes
    WHERE queue = ? AND priority = ? AND grp = ? AND keys = ''), ?) RETURNING id`;
const ENTER = `UPDATE sluice_lanes SET waiting = waiting + ? WHERE id = ? RETURNING queue, waiting,
  gate IS NOT NULL AND EXISTS (SELECT 1 FROM sluice_gates WHERE sluice_gates.id = gate AND until > ?) AS closed`;
const GATE = "SELECT gate FROM sluice_lanes WHERE id = ?";
const LEAVE = `UPDATE sluice_lanes SET waiting = waiting - ?, used_at = ?, gate = iif(waiting > ?, gate, NULL)
  WHERE id = ?`;
const GO_HOME = "UPDATE sluice_lanes SET gate = NULL WHERE id = ?";
const FIRST_JOB = `FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1`;
/** The columns that say who is first in a lane with keys. */
export const HEAD = `head_at = coalesce((SELECT due_at ${FIRST_JOB}), 0), head_seq = coalesce((SELECT seq ${FIRST_JOB}), 0)`;
const LOOK = `UPDATE sluice_lanes SET ${HEAD} WHERE id = ? AND keys <> '' AND waiting > 0 RETURNING gate`;
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
  readonly #ids = new Map<string, number>();
  readonly #moves = new Map<number, number>();
  /** Lanes that have perhaps another job in front: how heavy it is decides whether a limit lets them. */
  readonly #changed = new Set<number>();
  /** Lanes that have keys, or may have: the first job of each is written down. */
  readonly #keyed = new Set<number>();
  readonly #tells: boolean;

  /** `tells`: wakes up workers; false where the caller takes the jobs itself, or workers have their wake-up time. */
  constructor(step: Step, tells = true) {
    this.#step = step;
    this.#tells = tells;
  }

  /** The lane of this job, which waits in it from now on: behind the others, unless it was due before. */
  enter(job: OfLane, inFront = false): number {
    const id = this.#find(job);
    this.move(id, 1);
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
    this.#moves.set(lane, (this.#moves.get(lane) ?? 0) + by);
  }

  write(): void {
    const step = this.#step;
    if (this.#changed.size > 0) this.#lookAgain();
    for (const [lane, by] of this.#moves) {
      if (by > 0) this.#entered(step.sql(ENTER).get(by, lane, step.now) as Entered | undefined, by);
      else if (by < 0) this.#left(lane, -by);
    }
    for (const lane of this.#keyed) {
      const row = step.sql(LOOK).get(lane) as InGate | undefined;
      if (row !== undefined && row.gate !== null) step.sql(EARLIER).run(lane);
    }
    this.#keyed.clear();
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
      }
      openGates(step, name, grp);
      if (this.#tells) step.wake(queue, true);
    }
  }

  #entered(lane: Entered | undefined, by: number): void {
    if (!this.#tells || lane === undefined) return;
    const isFirst = lane.waiting === by;
    // No claim has answered with a wake-up time for an empty lane.
    if (isFirst || lane.closed === 0) this.#step.wake(lane.queue, isFirst);
  }

  #left(lane: number, by: number): void {
    const step = this.#step;
    const row = step.sql(GATE).get(lane) as InGate | undefined;
    step.sql(LEAVE).run(by, step.now, by, lane);
    if (row !== undefined && row.gate !== null) deleteEmpty(step, row.gate);
  }

  #find({ queue, type, priority, group, keys }: OfLane): number {
    const name = grpOf(group);
    const own = keys ?? "";
    const key = `${queue.length} ${queue} ${type.length} ${type} ${priority} ${own.length} ${own} ${name}`;
    let id = this.#ids.get(key);
    if (id === undefined) {
      const row =
        this.#step.sql(FIND).get(queue, type, priority, name, own) ?? this.#open(queue, type, priority, name, own);
      id = (row as { readonly id: number }).id;
      this.#ids.set(key, id);
    }
    return id;
  }

  /** A new lane stands where its unit does: a group is not served twice because it has jobs of another type now. */
  #open(queue: string, type: string, priority: number, grp: string, keys: string): unknown {
    const step = this.#step;
    if (keys === "" && !step.hasKeys(queue)) {
      return step.sql(OPEN_PLAIN).get(queue, type, priority, grp, queue, priority, grp, step.now);
    }
    const { own, turn } = turnOfNew(step, { queue, type, priority, grp });
    if (keys !== "") step.keyed.add(queue);
    return step.sql(OPEN).get(queue, type, priority, grp, keys, own, turn, step.now);
  }
}

interface InGate {
  readonly gate: number | null;
}
