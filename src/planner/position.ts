import { type Before, MOST_COUNTED } from "../limits/behind.ts";
import { byTurn } from "./turns.ts";

interface Ranked {
  readonly turn: number;
  readonly id: number;
}

/** A lane of the job's own priority and group in which jobs wait. */
export interface OwnLane extends Ranked {
  /** How many of its jobs come before the job. */
  readonly before: number;
  /** It is the lane of the job. */
  readonly isOwn: boolean;
}

/** Another group of the job's priority in which jobs may start. `turn` and `id` are those of the ready lane that ranks first. */
export interface OtherGroup extends Ranked {
  /** How many jobs wait in ready lanes: those at no closed gate, of types that are not paused. */
  readonly waiting: number;
  /** Jobs of other types wait in it as well, in ready lanes or others, and may have the turns of the group. */
  readonly isMixed: boolean;
}

export interface Surroundings {
  /** How many jobs of higher priorities wait; and of these, how many of the job's type in ready lanes. */
  readonly higher: number;
  readonly higherOfType: number;
  readonly own: Iterable<OwnLane>;
  readonly others: Iterable<OtherGroup>;
}

/** How many waiting jobs start before one of them. */
export interface Position {
  /** If nothing refuses them: of higher priorities, of the job's group, of these in its lane, and of other groups by turns. */
  readonly ahead: { readonly higher: number; readonly group: number; readonly lane: number; readonly turns: number };
  /** Certainly: in its lane, and of its type, whatever types are claimed beside that. */
  readonly before: Before;
}

/** The position of a job that neither waits nor will. */
export const NO_POSITION: Position = {
  ahead: { higher: 0, group: 0, lane: 0, turns: 0 },
  before: { lane: 0, type: 0 },
};

/**
 * The position of a job among the jobs that wait, by the order in which `planClaim` starts them: by priority, then groups by turns. Each
 * other group has its turn as often as the job's own group before the job starts, and once more where it comes first.
 */
export function positionOf({ higher, higherOfType, own, others }: Surroundings): Position {
  let group = 0;
  let lane = 0;
  let first: Ranked | undefined;
  for (const one of own) {
    group += one.before;
    if (one.isOwn) lane = one.before;
    if (first === undefined || inTurn(one, first) < 0) first = one;
  }
  // A group without lanes is served after all that never were.
  first ??= { turn: 0, id: Number.POSITIVE_INFINITY };
  let turns = 0;
  let ofType = lane + higherOfType;
  for (const other of others) {
    const once = inTurn(other, first) < 0 ? 1 : 0;
    turns += Math.min(other.waiting, group + once);
    if (!other.isMixed) ofType += Math.min(other.waiting, lane + once);
  }
  const counted = (jobs: number) => Math.min(MOST_COUNTED, jobs);
  return {
    ahead: { higher: counted(higher), group: counted(group), lane: counted(lane), turns: counted(turns) },
    before: { lane: counted(lane), type: counted(ofType) },
  };
}

const inTurn = (a: Ranked, b: Ranked): number => byTurn({ ...a, priority: 0 }, { ...b, priority: 0 });
