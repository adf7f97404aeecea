import { type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";

/*
 * Lanes whose group is full are not ready, so no claim sees them: until an instant, or until something is given back.
 */

/** Stands for "until something is given back". */
const RELEASED = 1e18;

/** How many lanes come ready in one step. */
const STEP = 1_000;

const BLOCKED = "waiting > 0 AND blocked_until IS NOT NULL";
// A list of [lane, until when, by which limit].
const BLOCK = `UPDATE sluice_lanes SET blocked_until = blocked.value ->> 1, blocked_by = blocked.value ->> 2
  FROM json_each(?) AS blocked WHERE sluice_lanes.id = blocked.value ->> 0`;
const LONGEST = `SELECT max(blocked_until) AS until FROM sluice_lanes
  WHERE blocked_until IS NOT NULL AND blocked_by = ? AND grp = ? AND waiting > 0 AND priority >= ?`;
const RIPE = `SELECT id FROM sluice_lanes WHERE queue = ? AND type = ? AND ${BLOCKED} AND blocked_until <= ?
  ORDER BY blocked_until LIMIT +?`;
const READY = "UPDATE sluice_lanes SET blocked_until = NULL WHERE id IN (SELECT value FROM json_each(?))";
const ALL = "UPDATE sluice_lanes SET blocked_until = NULL WHERE blocked_until IS NOT NULL AND blocked_by = ?";
const GROUPS = `${ALL} AND grp IN (SELECT value FROM json_each(?))`;
const FIRST = `SELECT grp, blocked_until, blocked_by FROM sluice_lanes WHERE queue = ? AND type = ? AND ${BLOCKED}
  ORDER BY blocked_until LIMIT 1`;
const FIRST_TYPE = `SELECT type FROM sluice_lanes WHERE queue = ? AND ${BLOCKED} ORDER BY type LIMIT 1`;
const NEXT_TYPE = `SELECT type FROM sluice_lanes WHERE queue = ? AND type > ? AND ${BLOCKED} ORDER BY type LIMIT 1`;

/** A lane of which the group will have room first. */
export interface BlockedLane {
  readonly type: string;
  readonly group: string | null;
  /** The name of the limit that it waits for. */
  readonly by: string;
  readonly wait: Wait;
}

/** What is said of a group in the tables. */
export const groupOf = (grp: string): string | null => (grp === "" ? null : grp.slice(1));
export const grpOf = (group: string | null): string => (group === null ? "" : `:${group}`);

/** The types of a queue that have blocked lanes. */
export function blockedTypes(step: Step, queue: string): string[] {
  const types: string[] = [];
  let row = step.sql(FIRST_TYPE).get(queue) as { readonly type: string } | undefined;
  while (row !== undefined) {
    types.push(row.type);
    row = step.sql(NEXT_TYPE).get(queue, row.type) as { readonly type: string } | undefined;
  }
  return types;
}

/** The first of the blocked lanes of a type to have room; undefined: none is blocked. */
export function firstBlocked(step: Step, queue: string, type: string): BlockedLane | undefined {
  const row = step.sql(FIRST).get(queue, type) as First | undefined;
  if (row === undefined) return undefined;
  return { type, group: groupOf(row.grp), by: row.blocked_by ?? "", wait: waitUntil(step, row.blocked_until) };
}

interface First {
  readonly grp: string;
  readonly blocked_until: number;
  readonly blocked_by: string | null;
}

const waitUntil = (step: Step, until: number): Wait =>
  until >= RELEASED ? WHEN_RELEASED : Math.max(0, until - step.now);

/** How long lanes of a group that wait for this limit do so, of this priority or a higher one; 0: there are none. */
export function longestBlocked(step: Step, name: string, grp: string, priority: number): Wait {
  const { until } = step.sql(LONGEST).get(name, grp, priority) as { readonly until: number | null };
  return until === null ? 0 : waitUntil(step, until);
}

/** A lane that is not ready for so long, and the name of the limit that it waits for. */
export interface Blocking {
  readonly id: number;
  readonly wait: Wait;
  readonly by: string;
}

export function blockLanes(step: Step, lanes: readonly Blocking[]): void {
  const list = lanes.map(({ id, wait, by }) => [id, wait === WHEN_RELEASED ? RELEASED : step.now + wait, by]);
  step.sql(BLOCK).run(JSON.stringify(list));
}

/** Lanes of these types whose instant has come are ready again, as many as are moved in one step. */
export function unblockRipe(step: Step, queue: string, types: readonly string[]): void {
  let left = STEP;
  for (const type of types) {
    const ripe = step.sql(RIPE).all(queue, type, step.now, left) as { readonly id: number }[];
    if (ripe.length === 0) continue;
    step.sql(READY).run(JSON.stringify(ripe.map(({ id }) => id)));
    left -= ripe.length;
    if (left === 0) return;
  }
}

/** Something of a limit was given back for these groups: whatever waited for it may look again. Was anything waiting? */
export function unblockGroups(step: Step, name: string, grps: Iterable<string>): boolean {
  return Number(step.sql(GROUPS).run(name, JSON.stringify([...grps])).changes) > 0;
}

/** The limit itself has changed. */
export function unblockAll(step: Step, name: string): void {
  step.sql(ALL).run(name);
}
