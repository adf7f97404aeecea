import type { Step } from "../step.ts";

/** What decides which lane a job waits in. */
export interface OfLane {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
}

const FIND = "SELECT id FROM sluice_lanes WHERE queue = ? AND type = ? AND priority = ? AND grp = ?";
// A new lane stands where its unit does: a group is not served twice because it has jobs of another type now.
const OPEN = `INSERT INTO sluice_lanes (queue, type, priority, grp, waiting, turn, used_at)
  VALUES (?, ?, ?, ?, 0, (SELECT coalesce(max(turn), 0) FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ?), ?)
  RETURNING id`;
const ENTER = "UPDATE sluice_lanes SET waiting = waiting + ? WHERE id = ?";
const LEAVE = "UPDATE sluice_lanes SET waiting = waiting - ?, used_at = ? WHERE id = ?";

/**
 * How many jobs come into lanes and leave them during a step. The lanes are looked up as jobs ask for them, and their
 * counts are written once, by `write`, however many jobs move.
 */
export class LaneMoves {
  readonly #step: Step;
  readonly #ids = new Map<string, number>();
  readonly #moves = new Map<number, number>();

  constructor(step: Step) {
    this.#step = step;
  }

  /** The lane of this job, which waits in it from now on. */
  enter(job: OfLane): number {
    const id = this.#find(job);
    this.move(id, 1);
    return id;
  }

  /** So many more in the lane; fewer, if it is negative. */
  move(lane: number, by: number): void {
    this.#moves.set(lane, (this.#moves.get(lane) ?? 0) + by);
  }

  write(): void {
    for (const [lane, by] of this.#moves) {
      if (by > 0) this.#step.sql(ENTER).run(by, lane);
      else if (by < 0) this.#step.sql(LEAVE).run(-by, this.#step.now, lane);
    }
    this.#moves.clear();
  }

  #find({ queue, type, priority, group }: OfLane): number {
    const name = group === null ? "" : `:${group}`;
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
