import type { Step } from "../step.ts";

/** A row of `sluice_lanes`, as a claim under limits reads it. */
export interface ClaimLaneRow {
  readonly id: number;
  readonly type: string;
  readonly priority: number;
  readonly grp: string;
  readonly turn: number;
  readonly waiting: number;
  readonly served: number;
  /** 1: its group is full. */
  readonly blocked: number;
  /** The job that was too heavy when a claim looked at it; for which limit; and since when it waits. */
  readonly heavy: number | null;
  readonly by: string | null;
  readonly since: number | null;
}

const COLUMNS = ["id", "type", "priority", "grp", "turn", "waiting", "served", "heavy"];
const LANES = `SELECT ${COLUMNS.join(", ")}, blocked_by AS by, heavy_since AS since, 0 AS blocked FROM sluice_lanes
  WHERE queue = ? AND type = ? AND waiting > 0 AND blocked_until IS NULL
  ORDER BY priority DESC, turn, id LIMIT +? OFFSET +?`;
// For a list of lanes, one of each unit. Each is looked up in turn, along the unique key.
const UNITS = `SELECT unit.key AS unit, ${COLUMNS.map((column) => `lane.${column}`).join(", ")},
    lane.blocked_by AS by, lane.heavy_since AS since, lane.blocked_until IS NOT NULL AS blocked
  FROM json_each(?) AS unit
  CROSS JOIN sluice_lanes AS one ON one.id = unit.value
  CROSS JOIN sluice_lanes AS lane ON lane.queue = one.queue AND lane.priority = one.priority AND lane.grp = one.grp`;
const ASKED = " AND lane.type IN (SELECT value FROM json_each(?))";

/** The ready lanes of a type in the order of their turns, so many from this place on. */
export function readyLanes(step: Step, queue: string, type: string, count: number, from: number): ClaimLaneRow[] {
  return step.sql(LANES).all(queue, type, count, from) as ClaimLaneRow[];
}

/** For each of the lanes, each of another unit: all lanes of its unit, of these types or of any. */
export function unitsOf(step: Step, lanes: readonly number[], types: readonly string[] | null): ClaimLaneRow[][] {
  const list = JSON.stringify(lanes);
  const rows = (
    types === null ? step.sql(UNITS).all(list) : step.sql(UNITS + ASKED).all(list, JSON.stringify(types))
  ) as (ClaimLaneRow & { readonly unit: number })[];
  const units = lanes.map((): ClaimLaneRow[] => []);
  for (const row of rows) units[row.unit]!.push(row);
  return units;
}
