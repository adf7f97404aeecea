import type { Wait } from "../../limits/wait.ts";
import type { Tally } from "./limits/tally.ts";
import type { JobLane, JobLine } from "./queues.ts";

/** So many lanes are made ready at once. Where more become so at the same time, no claim has to wait for all of them. */
const STEP = 1_000;

/**
 * Lanes whose group is full stand apart from those that are ready, so that no claim sees them, however many there are:
 * until the instant at which there is room, or until something is given back.
 */
export class BlockedLanes {
  readonly #lanes = new Map<Tally, Set<JobLane>>();

  /** Does a lane wait for this? */
  has(tally: Tally): boolean {
    return this.#lanes.has(tally);
  }

  /** How long the lanes wait that wait for this, of this priority or a higher one; 0: there are none. */
  longest(tally: Tally, priority: number, time: number): Wait {
    let longest = 0;
    for (const lane of this.#lanes.get(tally) ?? []) {
      if (lane.priority >= priority) longest = Math.max(longest, lane.blocked!.until - time);
    }
    return longest;
  }

  /** The lane was ready. */
  block(lane: JobLane, by: Tally, until: number): void {
    lane.line.ready.remove(lane);
    lane.blocked = { by, until };
    lane.line.blocked.add(lane);
    const lanes = this.#lanes.get(by);
    if (lanes === undefined) this.#lanes.set(by, new Set([lane]));
    else lanes.add(lane);
  }

  /** The lane is worth a look again. */
  unblock(lane: JobLane): void {
    const { by } = lane.blocked!;
    lane.line.blocked.remove(lane);
    lane.blocked = undefined;
    lane.line.ready.add(lane);
    const lanes = this.#lanes.get(by)!;
    lanes.delete(lane);
    if (lanes.size === 0) this.#lanes.delete(by);
  }

  /** Something was given back: whoever waits for it is worth a look. */
  unblockAll(tally: Tally): void {
    for (const lane of this.#lanes.get(tally) ?? []) this.unblock(lane);
  }

  /** Those of the line whose time has come are ready: a good many of them at a time, those first who waited longest. */
  unblockDue({ blocked }: JobLine, time: number): void {
    for (let done = 0; done < STEP; done++) {
      const lane = blocked.first;
      if (lane === undefined || lane.blocked!.until > time) return;
      this.unblock(lane);
    }
  }
}
