import { unblockGroups, unblockHeavy, unblockOtherHeads } from "../limits/blocked.ts";
import { grpOf } from "../limits/groups.ts";
import type { Step } from "../step.ts";

/** What decides which lane a job waits in. */
export interface OfLane {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
}

interface Entered {
  readonly queue: string;
  readonly waiting: number;
  readonly blocked: number;
}

const FIND = "SELECT id FROM sluice_lanes WHERE queue = ? AND type = ? AND priority = ? AND grp = ?";
// A new lane stands where its unit does: a group is not served twice because it has jobs of another type now.
const OPEN = `INSERT INTO sluice_lanes (queue, type, priority, grp, waiting, turn, used_at)
  VALUES (?, ?, ?, ?, 0, (SELECT coalesce(max(turn), 0) FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ?), ?)
  RETURNING id`;
const ENTER = `UPDATE sluice_lanes SET waiting = waiting + ? WHERE id = ?
  RETURNING queue, waiting, blocked_until IS NOT NULL AND blocked_until > ? AS blocked`;
const LEAVE = "UPDATE sluice_lanes SET waiting = waiting - ?, used_at = ? WHERE id = ?";

/**
 * How many jobs come into lanes and leave them during a step. The lanes are looked up as jobs ask for them, and their
 * counts are written once, by `write`, however many jobs move. Whoever waits for jobs of a lane is told then, and that it
 * is news if nobody waited in the lane before. While a lane is blocked, there is nothing else to tell.
 */
export class LaneMoves {
  readonly #step: Step;
  readonly #ids = new Map<string, number>();
  readonly #moves = new Map<number, number>();
  /** Lanes that have perhaps another job in front: how heavy it is decides whether they are blocked. */
  readonly #changed = new Set<number>();
  readonly #tells: boolean;

  /** `tells`: the jobs are there for somebody to take; else whoever calls takes them, or they were expected. */
  constructor(step: Step, tells = true) {
    this.#step = step;
    this.#tells = tells;
  }

  /** The lane of this job, which waits in it from now on: behind the others, unless it was due before. */
  enter(job: OfLane, inFront = false): number {
    const id = this.#find(job);
    this.move(id, 1);
    if (inFront && this.#weighs) this.#changed.add(id);
    return id;
  }

  /** A job that waited does not any more, and has not started. */
  leave(lane: number): void {
    this.move(lane, -1);
    if (!this.#weighs) return;
    this.#changed.add(lane);
    this.#step.everybody = true;
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
      else if (by < 0) step.sql(LEAVE).run(-by, step.now, lane);
    }
    this.#moves.clear();
    this.#changed.clear();
  }

  get #weighs(): boolean {
    return this.#step.rules.weighing.length > 0;
  }

  /** Others may fit where the one that was in front did not. */
  #lookAgain(): void {
    const step = this.#step;
    for (const { queue, grp, blocked_by: name } of unblockOtherHeads(step, this.#changed)) {
      if (step.rules.byName.get(name)?.byGroup === true) unblockGroups(step, name, [grp]);
      else unblockHeavy(step, name);
      if (this.#tells) step.wake(queue, true);
    }
  }

  #entered(lane: Entered | undefined, by: number): void {
    if (!this.#tells || lane === undefined) return;
    const isFirst = lane.waiting === by;
    // Of a lane where nobody waits no claim has said when it has room.
    if (isFirst || lane.blocked === 0) this.#step.wake(lane.queue, isFirst);
  }

  #find({ queue, type, priority, group }: OfLane): number {
    const name = grpOf(group);
    const key = `${queue.length} ${queue} ${type.length} ${type} ${priority} ${name}`;
    let id = this.#ids.get(key);
    if (id === undefined) {
      const row =
        this.#step.sql(FIND).get(queue, type, priority, name) ??
        this.#step.sql(OPEN).get(queue, type, priority, name, queue, priority, name, this.#step.now);
      id = (row as { readonly id: number }).id;
      this.#ids.set(key, id);
    }
    return id;
  }
}
