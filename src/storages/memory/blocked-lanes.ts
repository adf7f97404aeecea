import type { Tally } from "./limits/tally.ts";
import type { JobLane, JobLine } from "./queues.ts";

/** So many lanes are made ready at once. Where more become so at the same time, no claim has to wait for all of them. */
const STEP = 1_000;

const NOBODY: readonly JobLane[] = [];

/**
 * Lanes whose group is full, or whose head is too heavy for what is left of a limit, stand apart from those that are ready, so that no claim sees them, however many there are:
 * until the instant at which there is room, or until something is given back.
 */
export class BlockedLanes {
  readonly #lanes = new Map<Tally, Set<JobLane>>();

  /** Does a lane wait for this? */
  has(tally: Tally): boolean {
    return this.#lanes.has(tally);
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

  /** Something was given back: whoever waits for it is worth a look. Answers who that is. */
  unblockAll(tally: Tally): readonly JobLane[] {
    const blocked = this.#lanes.get(tally);
    if (blocked === undefined) return NOBODY;
    const lanes = [...blocked];
    for (const lane of lanes) this.unblock(lane);
    return lanes;
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
