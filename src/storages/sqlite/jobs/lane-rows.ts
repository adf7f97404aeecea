import type { Step } from "../step.ts";

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

/** An open gate with its first lane: `id` is null if it has none. */
export type OpenGateRow = GateRow &
  ({ readonly id: null } | ClaimLaneRow) & {
    /** 1: there are other lanes. */
    readonly more: number | null;
    /** The place that it is known by. */
    readonly gatePriority: number;
    readonly gateTurn: number;
    readonly gateOwn: number;
    readonly gateAt: number;
    readonly gateSeq: number;
  };

const columns = (of: string) =>
  ["id", "type", "priority", "grp", "keys", "own", "turn", "waiting", "served", "head_at", "head_seq", "heavy"]
    .concat("heavy_since")
    .map((column) => `${of}.${column}`)
    .join(", ");
const GATE = "gate.id AS gate, gate.name, gate.grp AS state, gate.front, gate.until";
const order = (of: string) =>
  ["priority DESC", "turn", "own", "head_at", "head_seq"].map((by) => `${of}.${by}`).join(", ");

const HOME = `SELECT ${columns("lane")} FROM sluice_lanes AS lane
  WHERE lane.queue = ? AND lane.type = ? AND lane.waiting > 0 AND lane.gate IS NULL ORDER BY ${order("lane")} LIMIT +? OFFSET +?`;
const AT_GATE = "FROM sluice_lanes AS other WHERE other.gate = gate.id AND other.waiting > 0";
const GATES = `SELECT ${GATE}, ${columns("lane")}, (SELECT 1 ${AT_GATE} LIMIT 1 OFFSET 1) AS more, gate.priority AS gatePriority,
    gate.turn AS gateTurn, gate.own AS gateOwn, gate.head_at AS gateAt, gate.head_seq AS gateSeq
  FROM sluice_gates AS gate LEFT JOIN sluice_lanes AS lane
    ON lane.id = (SELECT other.id ${AT_GATE} ORDER BY ${order("other")} LIMIT 1)
  WHERE gate.queue = ? AND gate.type = ? AND gate.until IS NULL ORDER BY ${order("gate")} LIMIT +? OFFSET +?`;
const OF_GATE = `SELECT ${columns("lane")} FROM sluice_lanes AS lane
  WHERE lane.gate = ? AND lane.waiting > 0 ORDER BY ${order("lane")} LIMIT +? OFFSET +?`;
const WITH_GATE = `${columns("lane")}, ${GATE}`;
const JOIN_GATE = "LEFT JOIN sluice_gates AS gate ON gate.id = lane.gate";
// For a list of lanes, one of each unit, in a queue where lanes have no keys. Each is looked up in turn, along the unique key.
const UNITS = `SELECT unit.key AS unit, ${WITH_GATE}
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

/** The lanes of a type at no gate in the order of their turns, so many from this place on. */
export function homeLanes(step: Step, queue: string, type: string, count: number, from: number): ClaimLaneRow[] {
  return step.sql(HOME).all(queue, type, count, from) as ClaimLaneRow[];
}

/** The open gates of a type in the order of the places that they are known by, so many from this one on. */
export function openGates(step: Step, queue: string, type: string, count: number, from: number): OpenGateRow[] {
  return step.sql(GATES).all(queue, type, count, from) as OpenGateRow[];
}

/** The lanes at a gate, in the same way. */
export function lanesAt(step: Step, gate: number, count: number, from: number): ClaimLaneRow[] {
  return step.sql(OF_GATE).all(gate, count, from) as ClaimLaneRow[];
}

/** For each of the lanes, each of another unit: all lanes of its unit, of these types or of any. */
export function unitsOf(step: Step, lanes: readonly number[], types: readonly string[] | null): AtGate[][] {
  const list = JSON.stringify(lanes);
  const rows = (
    types === null ? step.sql(UNITS).all(list) : step.sql(UNITS + ASKED).all(list, JSON.stringify(types))
  ) as (AtGate & { readonly unit: number })[];
  const units = lanes.map((): AtGate[] => []);
  for (const row of rows) units[row.unit]!.push(row);
  return units;
}

export function laneById(step: Step, id: number): AtGate | undefined {
  return step.sql(ONE).get(id) as AtGate | undefined;
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
    ...step.sql(PLAIN).all(queue, priority, grp, type),
    ...step.sql(KEYED).all(queue, priority, grp, type, count),
  ] as AtGate[];
}
