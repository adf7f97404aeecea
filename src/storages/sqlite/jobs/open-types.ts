import { type Unit, unitsOf } from "../../../planner/turns.ts";
import { valuesOf } from "../driver.ts";
import { gateTypes } from "../limits/gates.ts";
import type { Step } from "../step.ts";
import type { LaneRow, Sibling } from "./lane-rows.ts";
import { FirstLanes, PASSED_OVER } from "./many-types.ts";

/** A queue with no more lanes than this is looked at as a whole: one statement in place of four, half the time of a look. */
const FEW = 8;

const ALL = `SELECT id, type, priority, grp, turn, waiting, gate IS NOT NULL, first_at IS NOT NULL
  FROM sluice_lanes WHERE queue = ? LIMIT ${FEW + 1}`;

/** A row of it. A claim from a queue with many lanes reads it in vain: an array takes half the time of an object. */
function laneOf(row: unknown): LaneRow & { readonly gated: number } {
  const v = valuesOf(row) as never[];
  return {
    id: v[0]!,
    type: v[1]!,
    priority: v[2]!,
    group: v[3]!,
    turn: v[4]!,
    waiting: v[5]!,
    gated: v[6]!,
    many: v[7]!,
  };
}

const READY = "empty_since IS NULL AND gate IS NULL";
const NEXT_TYPE = `SELECT type FROM sluice_lanes WHERE queue = ? AND type > ? AND ${READY} ORDER BY type LIMIT 1`;
const LANES = `SELECT id, type, priority, grp AS "group", turn, waiting, first_at IS NOT NULL AS many FROM sluice_lanes
  WHERE queue = ? AND type = ? AND ${READY} ORDER BY priority DESC, turn, own LIMIT +?`;
const UNIT = `SELECT 0 AS unit, id, type, turn, waiting, first_at IS NOT NULL AS many FROM sluice_lanes AS lane
  WHERE lane.queue = ? AND lane.priority = ? AND lane.grp = ? AND lane.keys = ''`;
// The same for a list of lanes, one of each unit. Each is looked up in turn, along the unique key.
const UNITS = `SELECT unit.key AS unit, lane.id, lane.type, lane.turn, lane.waiting, lane.first_at IS NOT NULL AS many
  FROM json_each(?) AS unit
  CROSS JOIN sluice_lanes AS one ON one.id = unit.value
  CROSS JOIN sluice_lanes AS lane ON lane.queue = one.queue AND lane.priority = one.priority AND lane.grp = one.grp
    AND lane.keys = ''`;

/** The types of a queue of which jobs wait in lanes at no gate. */
export const readyTypes = (step: Step, queue: string): Iterable<string> => step.names(NEXT_TYPE, queue);

/** Which types of a queue a claim may take: those it asks for that are not paused. None: the whole queue is paused. */
export class OpenTypes {
  readonly #step: Step;
  readonly queue: string;
  /** Those it asks for, paused as they may be; null: any. */
  readonly asked: readonly string[] | null;
  readonly #types: ReadonlySet<string> | undefined;
  readonly #paused: ReadonlySet<string>;
  readonly paused: boolean;
  /** All lanes of the queue as they were when `units` looked, if they are few; else those of `#lanesOfFirst`. */
  #seen: readonly LaneRow[] | undefined;

  constructor(step: Step, queue: string, types: readonly string[] | null) {
    this.#step = step;
    this.queue = queue;
    this.asked = types;
    this.#types = types === null ? undefined : new Set(types);
    this.#paused = step.pausesOf(queue);
    this.paused = this.#paused.has("");
  }

  has(type: string): boolean {
    return !this.#paused.has(`:${type}`) && this.#types?.has(type) !== false;
  }

  /** Are there lanes with keys in the queue? */
  get keyed(): boolean {
    return this.#step.hasKeys(this.queue);
  }

  /** Does anything wait? */
  get anyWaits(): boolean {
    for (const type of this.candidates()) if (this.#lanes(type, 1).length > 0) return true;
    return false;
  }

  /**
   * At least the first `count` units in the order of their turns. Of a unit that is not among the first of a type the lane of that type
   * may be missing (`siblings`): then so many units come before it, or beside it in its priority, that it gives one job at the most.
   * Of lanes of many types without groups, those that have the next `jobs` jobs.
   */
  units(count: number, jobs: number): Unit<LaneRow>[] {
    const lanes = this.#step.arrays(ALL).all(this.queue);
    if (lanes.length <= FEW) {
      const few = lanes.map(laneOf);
      this.#seen = few;
      return unitsOf(few.filter(({ type, waiting, gated }) => waiting > 0 && gated === 0 && this.has(type)));
    }
    const ofFirst = this.asked?.length === 1 ? undefined : this.#lanesOfFirst(jobs);
    if (ofFirst !== undefined) return unitsOf((this.#seen = ofFirst));
    const byType = Array.from(this.candidates(), (type) => this.#lanes(type, count));
    if (byType.length !== 1) return unitsOf(byType.flat());
    // Of one type each lane is a unit, and they are in order.
    return byType[0]!.map((lane) => ({
      id: lane.id,
      priority: lane.priority,
      turn: lane.turn,
      waiting: lane.waiting,
      lanes: [lane],
    }));
  }

  /**
   * Where lanes of many types wait, and there are no groups: those that have the next `jobs` jobs, if there are so many. Undefined: there
   * are few types or groups, or too many lanes come first that are not asked for.
   */
  #lanesOfFirst(jobs: number): readonly LaneRow[] | undefined {
    const first = FirstLanes.of(this.#step, this.queue);
    if (first === undefined) return undefined;
    const lanes: LaneRow[] = [];
    let passedOver = 0;
    while (lanes.length < jobs && !first.whole) {
      for (const lane of first.read(jobs - lanes.length)) {
        const { id, type, priority, grp, turn, waiting, many } = lane;
        if (this.has(type)) lanes.push({ id, type, priority, group: grp, turn, waiting, many });
        else passedOver += 1;
      }
      if (passedOver > PASSED_OVER) return undefined;
    }
    return lanes;
  }

  /** For each of the units: all its lanes of the types asked for, empty or paused as they may be. */
  siblings(units: readonly Unit<LaneRow>[]): Sibling[][] {
    // Of one type there is one lane in a unit.
    if (this.asked?.length === 1) return units.map(({ lanes: [lane] }) => [lane!]);
    const seen = this.#seen;
    if (seen !== undefined) return units.map((unit) => seen.filter((lane) => this.#isOf(unit, lane)));
    const [first] = units;
    const types = this.asked ?? [];
    const asked = this.asked === null ? "" : ` AND lane.type IN (${types.map(() => "?").join()})`;
    const rows =
      units.length === 1
        ? this.#step.sql(UNIT + asked).all(this.queue, first!.priority, first!.lanes[0]!.group, ...types)
        : this.#step.sql(UNITS + asked).all(JSON.stringify(units.map(({ id }) => id)), ...types);
    const siblings = units.map((): Sibling[] => []);
    for (const row of rows as (Sibling & { readonly unit: number })[]) siblings[row.unit]!.push(row);
    return siblings;
  }

  /**
   * Are all lanes of its priority those of this unit? The turn of such a unit matters only once it has others beside it, and these
   * are before it then, for they were never served: so it need not be written again with every claim.
   */
  isAlone({ priority, lanes: [one] }: Unit<LaneRow>): boolean {
    return this.#seen?.every((lane) => lane.priority !== priority || lane.group === one!.group) === true;
  }

  #isOf({ priority, lanes: [one] }: Unit<LaneRow>, lane: LaneRow): boolean {
    return lane.priority === priority && lane.group === one!.group && this.#types?.has(lane.type) !== false;
  }

  #lanes(type: string, count: number): LaneRow[] {
    return this.#step.sql(LANES).all(this.queue, type, count) as unknown as LaneRow[];
  }

  /** The types it may take of which jobs may be ready, whether or not their lanes stand at gates. */
  get open(): readonly string[] {
    const types = [...this.candidates()];
    if (this.asked !== null || this.paused) return types;
    const atGates = gateTypes(this.#step, this.queue, true).filter((type) => this.has(type));
    return atGates.length === 0 ? types : [...new Set([...types, ...atGates])];
  }

  /** The types it may take of which jobs may be ready in lanes at no gate. */
  *candidates(): Iterable<string> {
    if (this.paused) return;
    if (this.asked !== null) {
      yield* new Set(this.asked.filter((type) => this.has(type)));
      return;
    }
    for (const type of readyTypes(this.#step, this.queue)) if (this.has(type)) yield type;
  }
}
