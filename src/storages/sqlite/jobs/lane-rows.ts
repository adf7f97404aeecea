import type { Lane } from "../../../planner/turns.ts";
import { valuesOf } from "../driver.ts";
import type { Step } from "../step.ts";
import type { Rank } from "./ready-lanes.ts";

/** A row of `sluice_lanes`. The group is as it is kept there: '' without one, ':' and its name with one. */
export interface LaneRow extends Lane {
  readonly type: string;
  readonly group: string;
  /** 1: its group has lanes of many types (many-types.ts). */
  readonly many: number;
}

/** A lane of a unit: one that a claim may take from, or one that only has its turn with the others. */
export type Sibling = Pick<LaneRow, "id" | "type" | "turn" | "waiting" | "many">;

/** A row of `sluice_lanes`, as a claim under limits reads it. */
export interface ClaimLaneRow {
  readonly id: number;
  readonly type: string;
  readonly priority: number;
  readonly grp: string;
  readonly keys: string;
  readonly own: number;
  readonly turn: number;
  readonly waiting: number;
  readonly served: number;
  readonly head_at: number;
  readonly head_seq: number;
  /** The job that was too heavy when a claim looked at it; and since when it waits. */
  readonly heavy: number | null;
  readonly heavy_since: number | null;
  /** 1: its group has lanes of many types (many-types.ts). */
  readonly many: number;
}

/** A row of `sluice_gates`. */
export interface GateRow {
  readonly gate: number;
  readonly name: string;
  readonly state: string;
  readonly front: number;
  readonly until: number | null;
}

/** A lane, and the gate where it stands, if it does. */
export type AtGate = ClaimLaneRow & (GateRow | { readonly gate: null });

/** An open gate with its first lane. */
export interface OpenGateRow {
  /** `id` is null if there is no lane. */
  readonly row: GateRow & ({ readonly id: null } | ClaimLaneRow);
  /** 1: there are other lanes. */
  readonly more: number | null;
  /** The rank that the gate is known by. */
  readonly rank: Rank;
}

const columns = (of: string) =>
  ["id", "type", "priority", "grp", "keys", "own", "turn", "waiting", "served", "head_at", "head_seq", "heavy"]
    .concat("heavy_since")
    .map((column) => `${of}.${column}`)
    .join(", ")
    .concat(`, ${of}.first_at IS NOT NULL AS many`);
const GATE = "gate.id AS gate, gate.name, gate.grp AS state, gate.front, gate.until";
const order = (of: string) =>
  ["priority DESC", "turn", "own", "head_at", "head_seq"].map((by) => `${of}.${by}`).join(", ");

const HOME = `SELECT ${columns("lane")} FROM sluice_lanes AS lane
  WHERE lane.queue = ? AND lane.type = ? AND lane.empty_since IS NULL AND lane.gate IS NULL ORDER BY ${order("lane")} LIMIT +? OFFSET +?`;
// In a priority without groups: lanes by their first jobs, where these are known (many-types.ts), or all lanes.
const UNGROUPED = `FROM sluice_lanes AS lane
  WHERE lane.queue = ? AND lane.priority = ? AND lane.empty_since IS NULL AND lane.gate IS NULL`;
const BY_FIRST = `SELECT ${columns("lane")}, lane.first_at, lane.first_seq ${UNGROUPED} AND lane.first_at IS NOT NULL
  AND (lane.first_at, lane.first_seq) > (?, ?) ORDER BY lane.first_at, lane.first_seq LIMIT +?`;
const ALL_UNGROUPED = `SELECT ${columns("lane")} ${UNGROUPED} AND lane.grp = '' AND lane.keys = ''`;
const AT_GATE = "FROM sluice_lanes AS other WHERE other.gate = gate.id AND other.waiting > 0";
const GATES = `SELECT ${columns("lane")}, ${GATE}, (SELECT 1 ${AT_GATE} LIMIT 1 OFFSET 1) AS more, gate.priority AS gatePriority,
    gate.turn AS gateTurn, gate.own AS gateOwn, gate.head_at AS gateAt, gate.head_seq AS gateSeq
  FROM sluice_gates AS gate LEFT JOIN sluice_lanes AS lane
    ON lane.id = (SELECT other.id ${AT_GATE} ORDER BY ${order("other")} LIMIT 1)
  WHERE gate.queue = ? AND gate.type = ? AND gate.until IS NULL ORDER BY ${order("gate")} LIMIT +? OFFSET +?`;
const OF_GATE = `SELECT ${columns("lane")} FROM sluice_lanes AS lane
  WHERE lane.gate = ? AND lane.waiting > 0 ORDER BY ${order("lane")} LIMIT +? OFFSET +?`;
const WITH_GATE = `${columns("lane")}, ${GATE}`;
const JOIN_GATE = "LEFT JOIN sluice_gates AS gate ON gate.id = lane.gate";
// For a list of lanes, one of each unit, in a queue where lanes have no keys. Each is looked up in turn, along the unique key.
const UNITS = `SELECT ${WITH_GATE}, unit.key AS unit
  FROM json_each(?) AS unit
  CROSS JOIN sluice_lanes AS one ON one.id = unit.value
  CROSS JOIN sluice_lanes AS lane ON lane.queue = one.queue AND lane.priority = one.priority AND lane.grp = one.grp
    AND lane.keys = ''
  ${JOIN_GATE}`;
const ASKED = " WHERE lane.type IN (SELECT value FROM json_each(?))";
const ONE = `SELECT ${WITH_GATE} FROM sluice_lanes AS lane ${JOIN_GATE} WHERE lane.id = ?`;
const OF_TURN = `SELECT ${WITH_GATE} FROM sluice_lanes AS lane ${JOIN_GATE}
  WHERE lane.queue = ? AND lane.priority = ? AND lane.grp = ? AND lane.type = ? AND lane.waiting > 0`;
const PLAIN = `${OF_TURN} AND lane.keys = ''`;
const KEYED = `${OF_TURN} AND lane.keys <> '' LIMIT +?`;

/** The lanes of a type at no gate in the order of their turns, so many from this one on. */
export function homeLanes(step: Step, queue: string, type: string, count: number, from: number): ClaimLaneRow[] {
  return step.arrays(HOME).all(queue, type, count, from).map(rowOf);
}

/** Where a lane stands among lanes of many types: by its first job. */
export interface ByFirst {
  readonly at: number;
  readonly seq: number;
}

/** Lanes of a priority without groups at no gate in the order of their first jobs, so many behind this one; and where the last is. */
export function lanesByFirst(
  step: Step,
  queue: string,
  priority: number,
  after: ByFirst,
  count: number,
): { readonly rows: ClaimLaneRow[]; readonly last: ByFirst } {
  const found = step.arrays(BY_FIRST).all(queue, priority, after.at, after.seq, count);
  if (found.length === 0) return { rows: [], last: after };
  const v = valuesOf(found.at(-1)) as never[];
  return { rows: found.map(rowOf), last: { at: v[FIRST]!, seq: v[FIRST + 1]! } };
}

/** All lanes of a priority without groups at no gate. */
export function ungroupedLanes(step: Step, queue: string, priority: number): ClaimLaneRow[] {
  return step.arrays(ALL_UNGROUPED).all(queue, priority).map(rowOf);
}

/** The open gates of a type in the order of the places that they are known by, so many from this one on. */
export function openGates(step: Step, queue: string, type: string, count: number, from: number): OpenGateRow[] {
  return step.arrays(GATES).all(queue, type, count, from).map(openGateOf);
}

/** The lanes at a gate, in the same way. */
export function lanesAt(step: Step, gate: number, count: number, from: number): ClaimLaneRow[] {
  return step.arrays(OF_GATE).all(gate, count, from).map(rowOf);
}

/** For each of the lanes, each of another unit: all lanes of its unit, of these types or of any. */
export function unitsOf(step: Step, lanes: readonly number[], types: readonly string[] | null): AtGate[][] {
  const list = JSON.stringify(lanes);
  const rows =
    types === null ? step.arrays(UNITS).all(list) : step.arrays(UNITS + ASKED).all(list, JSON.stringify(types));
  const units = lanes.map((): AtGate[] => []);
  for (const row of rows) units[valuesOf(row)[UNIT] as number]!.push(rowOf(row));
  return units;
}

export function laneById(step: Step, id: number): AtGate | undefined {
  const row = step.arrays(ONE).get(id);
  return row === undefined ? undefined : rowOf(row);
}

/** Lanes of a unit and type in which jobs wait: the one without keys, and so many of the others. */
export function lanesOfTurn(
  step: Step,
  queue: string,
  priority: number,
  grp: string,
  type: string,
  count: number,
): AtGate[] {
  return [
    ...step.arrays(PLAIN).all(queue, priority, grp, type),
    ...step.arrays(KEYED).all(queue, priority, grp, type, count),
  ].map(rowOf);
}

/** Where the first job is, behind the columns of a lane. */
const FIRST = 14;

/** Where the number of the unit is, behind the columns of a lane and of its gate. */
const UNIT = 19;

/** A lane in its columns, and those of its gate if they were asked for. */
function rowOf(row: unknown): AtGate {
  const v = valuesOf(row) as never[];
  return {
    id: v[0]!,
    type: v[1]!,
    priority: v[2]!,
    grp: v[3]!,
    keys: v[4]!,
    own: v[5]!,
    turn: v[6]!,
    waiting: v[7]!,
    served: v[8]!,
    head_at: v[9]!,
    head_seq: v[10]!,
    heavy: v[11]!,
    heavy_since: v[12]!,
    many: v[13]!,
    gate: v[14]!,
    name: v[15]!,
    state: v[16]!,
    front: v[17]!,
    until: v[18]!,
  };
}

function openGateOf(row: unknown): OpenGateRow {
  const v = valuesOf(row) as never[];
  const rank = { priority: v[20]!, turn: v[21]!, own: v[22]!, headAt: v[23]!, headSeq: v[24]! };
  return { row: rowOf(row) as OpenGateRow["row"], more: v[19]!, rank };
}
