import { labelOf } from "../../../limits/rule.ts";
import { type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";
import type { Unplanned } from "../../../planner/wake-up.ts";
import { groupOf } from "./groups.ts";

/*
 * Lanes that a key of a limit refuses stand at its gate. The gate is closed until an instant, or until something is given back,
 * and opens as a whole: one row is written, however many lanes stand there. A lane stands at a gate only while jobs wait in it.
 */

/** Stands for "until something is given back". */
const RELEASED = 1e18;

/** How many gates open by themselves in one step. */
const STEP = 1_000;

const CLOSED = "until IS NOT NULL";
// Of a heavy head that is the instant by which it is judged again (heavy-heads.ts), whether or not a claim has opened its gate.
const OPEN = `UPDATE sluice_gates SET until = iif(front = 0, NULL, min(ifnull(until, heavy_until), ?))
  WHERE name = ? AND grp = ? AND (${CLOSED} OR heavy_until > ?)`;
const ANY = "SELECT 1 FROM sluice_gates WHERE name = ? AND grp = ? LIMIT 1";
const OPEN_BEHIND = `UPDATE sluice_gates SET until = NULL WHERE name = ? AND grp = ? AND front = 0 AND ${CLOSED}
  RETURNING queue, type`;
const BEHIND = `SELECT 1 FROM sluice_gates AS gate WHERE name = ? AND grp = ? AND front = 0
  AND EXISTS (SELECT 1 FROM sluice_lanes WHERE sluice_lanes.gate = gate.id AND waiting > 0) LIMIT 1`;
const OPEN_ALL =
  "UPDATE sluice_gates SET until = NULL, heavy_until = NULL WHERE name = ? AND (until IS NOT NULL OR front > 0)";
const DUE = `SELECT id, name, grp, until < heavy_until AS given FROM sluice_gates WHERE queue = ? AND type = ? AND ${CLOSED} AND until <= ? ORDER BY until LIMIT +?`;
const OPEN_DUE = "UPDATE sluice_gates SET until = NULL WHERE id IN (SELECT value FROM json_each(?))";
const GO_HOME = `UPDATE sluice_lanes SET gate = NULL
  WHERE waiting > 0 AND gate IN (SELECT id FROM sluice_gates WHERE name = ?)`;
const DELETE_ALL = "DELETE FROM sluice_gates WHERE name = ?";
const DELETE_EMPTY = `DELETE FROM sluice_gates WHERE id = ?
  AND NOT EXISTS (SELECT 1 FROM sluice_lanes WHERE gate = sluice_gates.id AND waiting > 0)`;
const AWAITED = `SELECT 1 FROM sluice_gates WHERE name IN (SELECT value FROM json_each(?)) AND (${CLOSED} OR front > 0) LIMIT 1`;
const FIRST = `SELECT name, grp, until FROM sluice_gates WHERE queue = ? AND type = ? AND ${CLOSED} ORDER BY until LIMIT 1`;
const NEXT_CLOSED = `SELECT type FROM sluice_gates WHERE queue = ? AND type > ? AND ${CLOSED} ORDER BY type LIMIT 1`;
const NEXT_OPEN = "SELECT type FROM sluice_gates WHERE queue = ? AND type > ? AND until IS NULL ORDER BY type LIMIT 1";

interface Due {
  readonly id: number;
  readonly name: string;
  readonly grp: string;
  /** 1: it is of a heavy head, and something was given back before the head fits. */
  readonly given: number | null;
}

/** The instant in the tables. */
export const untilOf = (step: Step, wait: Wait): number => (wait === WHEN_RELEASED ? RELEASED : step.now + wait);

export const instantOfGate = (until: number): number => (until >= RELEASED ? Number.POSITIVE_INFINITY : until);

const waitUntil = (step: Step, until: number): Wait => Math.max(0, instantOfGate(until) - step.now);

/** The types of a queue that have lanes at closed gates, or at open ones. */
export function gateTypes(step: Step, queue: string, open: boolean): string[] {
  return [...step.names(open ? NEXT_OPEN : NEXT_CLOSED, queue)];
}

/** The first of the closed gates of a type to open; undefined: none is closed. */
export function firstClosed(step: Step, queue: string, type: string): Unplanned | undefined {
  const row = step.sql(FIRST).get(queue, type) as
    | { readonly name: string; readonly grp: string; readonly until: number }
    | undefined;
  return row && { type, wait: waitUntil(step, row.until), by: labelOf(row.name, groupOf(row.grp)) };
}

/**
 * Gates of these types whose instant has come are open, as many as open in one step. `judge`: something was given back for this state, by
 * which its heavy heads are judged again before their gates open.
 */
export function openDue(
  step: Step,
  queue: string,
  types: readonly string[],
  judge: (name: string, grp: string) => void,
): void {
  let left = STEP;
  for (const type of types) {
    const due = step.sql(DUE).all(queue, type, step.now, left) as Due[];
    for (const { name, grp, given } of due) if (given === 1) judge(name, grp);
    if (due.length > 0) step.sql(OPEN_DUE).run(JSON.stringify(due.map(({ id }) => id)));
    left -= due.length;
    if (left === 0) return;
  }
}

/**
 * Something of a limit was given back for this state: whatever waited for it may look again. Does anything wait? It does until a
 * claim has looked at it: what was given back before may have been taken by others.
 */
export function openGates(step: Step, name: string, grp: string): boolean {
  return (
    Number(step.sql(OPEN).run(step.now, name, grp, step.now).changes) > 0 || step.sql(ANY).get(name, grp) !== undefined
  );
}

/** A heavy head reserves nothing any more: lanes that waited only for it may look again. */
export function openBehind(step: Step, name: string, grp: string): readonly OfType[] {
  return step.sql(OPEN_BEHIND).all(name, grp) as OfType[];
}

/** Do lanes stand at a gate of this state? */
export const isAnyBehind = (step: Step, name: string, grp: string): boolean =>
  step.sql(BEHIND).get(name, grp) !== undefined;

/** Of which queue and type. */
export interface OfType {
  readonly queue: string;
  readonly type: string;
}

/** The numbers of the limit have changed: all that wait for it look again, and for none of them longer than before. */
export function openAll(step: Step, name: string): void {
  step.sql(OPEN_ALL).run(name);
}

/** The limit is another one, or gone: its lanes may be under it no more. */
export function clearGates(step: Step, name: string): void {
  step.sql(GO_HOME).run(name);
  step.sql(DELETE_ALL).run(name);
}

/** A lane has left the gate: without lanes there is none. */
export function deleteEmpty(step: Step, gate: number): void {
  step.sql(DELETE_EMPTY).run(gate);
}

/** Does a lane wait for one of the limits that weigh? */
export function isAnyAwaited(step: Step): boolean {
  const { weighing } = step.rules;
  return weighing.length > 0 && step.sql(AWAITED).get(JSON.stringify(weighing)) !== undefined;
}
