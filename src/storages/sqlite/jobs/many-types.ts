import type { Unit } from "../../../planner/turns.ts";
import type { Step } from "../step.ts";
import { hasGroups } from "./keyed.ts";
import type { AnyLane, LaneRow } from "./lane-rows.ts";

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
const PRIORITY = "SELECT priority FROM sluice_lanes WHERE queue = ? AND priority < ? ORDER BY priority DESC LIMIT 1";
const COLUMNS = `id, type, priority, grp AS "group", turn, waiting, gate IS NOT NULL AS gated, first_at IS NOT NULL AS many`;
const FEW = `SELECT ${COLUMNS} FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = '' AND keys = ''
  LIMIT ${FEW_TYPES + 1}`;
const MANY = `SELECT ${COLUMNS} FROM sluice_lanes WHERE queue = ? AND priority = ?
  AND ${READY} ORDER BY first_at, first_seq LIMIT +?`;

/** A unit, and the lanes that have their turn with it. */
export interface SeenUnit {
  readonly unit: Unit<LaneRow>;
  readonly lanes: readonly AnyLane[];
}

/** Lanes that are not asked for, and come before those that are, are passed over: so many. */
const PASSED_OVER = 100;

/**
 * The units that have the next `jobs` jobs of a queue, if there are so many, where the queue has no groups: each priority is a unit.
 * Undefined: it has groups, or no lanes of many types, or it would take too long to tell.
 */
export function unitsWithoutGroups(
  step: Step,
  queue: string,
  has: (type: string) => boolean,
  jobs: number,
): SeenUnit[] | undefined {
  if (step.sql(ANY).get(queue) === undefined) return undefined;
  const units: SeenUnit[] = [];
  let left = jobs;
  let above = Number.MAX_VALUE;
  for (let seen = 0; left > 0; seen++) {
    const level = step.sql(PRIORITY).get(queue, above) as { readonly priority: number } | undefined;
    if (level === undefined) return units;
    if (seen === MOST_PRIORITIES || hasGroups(step, queue, level.priority)) return undefined;
    const lanes = lanesOf(step, queue, level.priority, has, left);
    if (lanes === undefined) return undefined;
    const ready = lanes.filter(({ type, waiting, gated }) => waiting > 0 && gated === 0 && has(type));
    if (ready.length > 0) {
      const { id, priority, turn } = ready[0]!;
      let waiting = 0;
      for (const lane of ready) waiting += lane.waiting;
      units.push({ unit: { id, priority, turn, waiting, lanes: ready }, lanes });
      left -= waiting;
    }
    above = level.priority;
  }
  return units;
}

/** The lanes of a priority; where there are many, those that have the first jobs. */
function lanesOf(
  step: Step,
  queue: string,
  priority: number,
  has: (type: string) => boolean,
  count: number,
): readonly AnyLane[] | undefined {
  const few = step.sql(FEW).all(queue, priority) as AnyLane[];
  if (few.every(({ many }) => many === 0)) return few;
  const most = count + PASSED_OVER;
  const lanes = step.sql(MANY).all(queue, priority, most) as AnyLane[];
  const asked = lanes.filter(({ type }) => has(type)).slice(0, count);
  return asked.length < count && lanes.length === most ? undefined : asked;
}
