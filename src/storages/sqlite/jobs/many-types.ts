import type { Step } from "../step.ts";
import { type ByFirst, type ClaimLaneRow, lanesByFirst, ungroupedLanes } from "./lane-rows.ts";

/*
 * Jobs of one priority and group start in due order, whatever their type. Where a group has lanes of a few types, a claim looks at
 * the first job of each. Where it has more, each of its lanes says which job is its first (`first_at`, `first_seq`), and an index has
 * the lanes in the order of these: the first n jobs are in the first n lanes, however many types wait. Either all lanes of a group
 * and priority say so or none does.
 */

/** A group with more lanes than this has its lanes in the order of their first jobs. The number is in schema-2.ts, too. */
export const FEW_TYPES = 8;

/** More priorities than this are not looked through one by one. */
const MOST_PRIORITIES = 16;

const READY = "first_at IS NOT NULL AND empty_since IS NULL AND gate IS NULL";
const ANY = `SELECT 1 FROM sluice_lanes WHERE queue = ? AND ${READY} LIMIT 1`;
// The last of its groups: if it has any, this is one.
const LEVEL = `SELECT priority, grp, first_at IS NOT NULL AS many FROM sluice_lanes WHERE queue = ? AND priority < ?
  ORDER BY priority DESC, grp DESC LIMIT 1`;

/** Lanes that are not asked for, and come before those that are, are passed over: so many. */
export const PASSED_OVER = 100;

/** A priority. */
interface Level {
  readonly priority: number;
  /** The last of its groups, as it is kept; '': it has none. */
  readonly grp: string;
  /** 1: its lanes say which job is their first. */
  readonly many: number;
}

const BEGINNING: ByFirst = { at: -Number.MAX_VALUE, seq: 0 };

/** The lanes of a queue without groups that stand at no gate, in the order of their first jobs, read as they are needed. */
export class FirstLanes {
  readonly #step: Step;
  readonly #queue: string;
  /** Those that were not read to the end. */
  readonly #levels: Level[];
  /** The latest that was read of the first level. */
  #after = BEGINNING;

  private constructor(step: Step, queue: string, levels: Level[]) {
    this.#step = step;
    this.#queue = queue;
    this.#levels = levels;
  }

  /** Undefined: the queue has groups or too many priorities, or no lanes of many types. */
  static of(step: Step, queue: string): FirstLanes | undefined {
    if (step.sql(ANY).get(queue) === undefined) return undefined;
    const levels: Level[] = [];
    for (let above = Number.MAX_VALUE; ; above = levels.at(-1)!.priority) {
      const level = step.sql(LEVEL).get(queue, above) as Level | undefined;
      if (level === undefined) return new FirstLanes(step, queue, levels);
      if (level.grp !== "" || levels.length === MOST_PRIORITIES) return undefined;
      levels.push(level);
    }
  }

  /** Was everything read? */
  get whole(): boolean {
    return this.#levels.length === 0;
  }

  /** About so many more lanes. */
  read(count: number): readonly ClaimLaneRow[] {
    const lanes: ClaimLaneRow[] = [];
    while (lanes.length < count && !this.whole) {
      const { priority, many } = this.#levels[0]!;
      const left = count - lanes.length;
      const { rows, last } =
        many === 1
          ? lanesByFirst(this.#step, this.#queue, priority, this.#after, left)
          : { rows: ungroupedLanes(this.#step, this.#queue, priority), last: BEGINNING };
      lanes.push(...rows);
      this.#after = last;
      if (many === 1 && rows.length === left) continue;
      this.#levels.shift();
      this.#after = BEGINNING;
    }
    return lanes;
  }

  /** Does this job come before all jobs of lanes that were not read? */
  isBefore(priority: number, { dueAt, seq }: { readonly dueAt: number; readonly seq: number }): boolean {
    const [level] = this.#levels;
    if (level === undefined || priority !== level.priority) return level === undefined || priority > level.priority;
    const { at, seq: last } = this.#after;
    return dueAt < at || (dueAt === at && seq <= last);
  }
}
