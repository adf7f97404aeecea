import { countFailure, countSuccess, type SlotsInUse } from "../../../limits/key-state.ts";
import { concurrencyWait, type LimitRule, ONE, quotaOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import { type Availability, fittedBefore, wakesWaiters } from "../../../limits/wakes-waiters.ts";
import { decideFor } from "../../../storage/inspected-key.ts";
import type { Released, Step } from "../step.ts";
import { isAnyAwaited, openGates } from "./gates.ts";
import { groupOf } from "./groups.ts";
import { SqliteKeys } from "./keys.ts";
import { keyStateOf, type LimitRow, limitById, saveKeyState } from "./limit-row.ts";
import { type SlotsRow, slotsInUse } from "./slots.ts";

/*
 * What gives something of a limit back: slots of starts that ended, and more of a window. Of limit states that something waits for a step
 * notes how they were before (`step.released`), and decides when it ends whether it wakes up workers.
 */

const NAMES =
  "SELECT id, name, grp, awaited, starved_by FROM sluice_limits WHERE id IN (SELECT value FROM json_each(?))";
const FOR_ALL = "SELECT id FROM sluice_limits WHERE name = ? AND grp = '' AND awaited = 1";
const ANY = "SELECT 1 FROM sluice_slots LIMIT 1";
const END_ONE_UNSEEN = "DELETE FROM sluice_slots WHERE token = ?";
const END = `${END_ONE_UNSEEN} RETURNING limit_id, slots, at`;
const END_MANY_UNSEEN = "DELETE FROM sluice_slots WHERE token IN (SELECT value FROM json_each(?))";
const END_MANY = `${END_MANY_UNSEEN} RETURNING limit_id, slots, at`;
const WOKEN = "UPDATE sluice_limits SET awaited = 0, starved_by = NULL, starved_since = NULL WHERE id = ?";
const UNSTARVED =
  "UPDATE sluice_limits SET starved_by = NULL, starved_since = NULL WHERE id = ? AND starved_by IS NOT NULL";
const SETTLE = "UPDATE sluice_slots SET slots = ? WHERE limit_id = ? AND token = ?";

type Named = Pick<LimitRow, "id" | "name" | "grp" | "awaited" | "starved_by">;

/** How it went: well, not well (with these names of the error), or unknown. */
export type Ending = "well" | readonly string[] | undefined;

/** The leases of these tokens have ended: their slots are released, and breakers count how it went. */
export function endLeases(step: Step, tokens: readonly number[], ending: Ending): void {
  // Without rules there are no slots.
  if (tokens.length === 0 || step.rules.inForce.length === 0) return;
  if (step.sql(ANY).get() === undefined) return;
  // Measured: half the work, if no rule needs to know which slots were released.
  if (step.rules.slotsForAll && !isAnyAwaited(step)) {
    noteSlots(step);
    if (tokens.length === 1) step.sql(END_ONE_UNSEEN).run(tokens[0]!);
    else step.sql(END_MANY_UNSEEN).run(JSON.stringify(tokens));
    return;
  }
  const ended = (
    tokens.length === 1 ? step.sql(END).all(tokens[0]!) : step.sql(END_MANY).all(JSON.stringify(tokens))
  ) as SlotsRow[];
  if (ended.length === 0) return;
  release(step, ended);
  if (!step.rules.breaks || ending === undefined) return;
  for (const [id, own] of Map.groupBy(ended, ({ limit_id: limit }) => limit)) {
    const row = limitById(step, id);
    if (row !== undefined) countEnding(step, row, own, ending);
  }
}

/** The breaker of a limit counts how starts under it ended. */
function countEnding(step: Step, row: LimitRow, starts: readonly SlotsRow[], ending: "well" | readonly string[]): void {
  const breaker = step.rules.byName.get(row.name)?.breaker;
  if (breaker === undefined || breaker === null) return;
  const keyState = keyStateOf(row);
  let closed = false;
  for (const { at } of starts) {
    if (ending === "well") closed = countSuccess(keyState, at) || closed;
    else countFailure(keyState, breaker, ending, at, step.now);
  }
  if (keyState.failures === row.failures && keyState.openUntil === row.open_until) return;
  saveKeyState(step, row.id, keyState);
  if (closed) windowFreed(step, row);
}

/** Slots of limits for all, and of no others, are about to be released, and no lane stands at a gate of these. */
function noteSlots(step: Step): void {
  for (const name of step.rules.withSlots) {
    const id = (step.sql(FOR_ALL).get(name) as Pick<Named, "id"> | undefined)?.id;
    if (id === undefined || step.released.has(id)) continue;
    const inUse = slotsInUse(step, id, null);
    const rule = step.rules.byName.get(name)!;
    const wait = waitFor(step, rule, null, inUse, null);
    note(step, rule, id, { name, grp: "", marked: true, wait, available: 0, used: inUse.slots });
  }
}

function note(step: Step, rule: LimitRule, id: number, released: Released): void {
  step.released.set(id, released);
  if (released.marked && fittedBefore(rule, released)) step.sql(UNSTARVED).run(id);
}

/** How long one more waits for a slot. */
function waitFor(step: Step, rule: LimitRule, group: string | null, inUse: SlotsInUse, openUntil: number | null): Wait {
  const wait = concurrencyWait(quotaOf(rule, group).concurrency, inUse.slots, 1, inUse.expiresIn);
  const probing = rule.breaker !== null && openUntil !== null && openUntil <= step.now;
  return probing && inUse.probes >= rule.breaker.probes ? Math.max(wait, inUse.expiresIn) : wait;
}

/** These slots are released, of whatever limits. Lanes that waited for them may look again at once. */
export function release(step: Step, ended: readonly SlotsRow[]): void {
  // A row without slots only kept a group in mind, or was a probe.
  const counting = step.rules.breaks ? ended : ended.filter(({ slots }) => slots > 0);
  const own = Map.groupBy(counting, ({ limit_id: id }) => id);
  if (own.size === 0) return;
  for (const [name, states] of Map.groupBy(namesOf(step, own.keys()), (one) => one.name)) {
    const rule = step.rules.byName.get(name);
    if (rule === undefined) continue;
    for (const state of states) {
      const { id, grp, awaited, starved_by: starvedBy } = state;
      const waits = mayOpen(step, rule, grp) || awaited === 1 || starvedBy !== null;
      if (waits && !step.released.has(id)) note(step, rule, id, before(step, rule, state, own.get(id)!));
    }
  }
}

/** A start has so many slots from now on. */
export function settleSlots(step: Step, row: SlotsRow, token: number, used: number): void {
  if (row.slots === used) return;
  step.sql(SETTLE).run(used, row.limit_id, token);
  if (used < row.slots) release(step, [{ ...row, slots: row.slots - used }]);
}

/** Lanes that waited for this state of a limit may look again. Were there any? */
function mayOpen(step: Step, { name, byGroup, weight }: LimitRule, grp: string): boolean {
  return (byGroup || weight !== null) && openGates(step, name, grp);
}

function before(
  step: Step,
  rule: LimitRule,
  { id, grp, awaited, starved_by }: Named,
  ended: readonly SlotsRow[],
): Released {
  const openUntil = rule.breaker === null ? null : (limitById(step, id)?.open_until ?? null);
  const { expiresIn, ...inUse } = slotsInUse(step, id, openUntil);
  let { slots, probes } = inUse;
  for (const one of ended) {
    slots += one.slots;
    if (openUntil !== null && one.at >= openUntil) probes += 1;
  }
  const wait = waitFor(step, rule, groupOf(grp), { slots, probes, expiresIn }, openUntil);
  return { name: rule.name, grp, marked: awaited === 1 || starved_by !== null, wait, available: 0, used: slots };
}

/** More of a window is available, or a hold has ended. */
export function windowFreed(step: Step, { name, grp }: Pick<LimitRow, "name" | "grp">): void {
  const rule = step.rules.byName.get(name);
  if (rule !== undefined) mayOpen(step, rule, grp);
  step.wakesAll = true;
}

/** The step ends: does what it released wake up workers, and permits that wait? All of them ask again. */
export function wakeReleased(step: Step): void {
  for (const [id, released] of step.released) {
    const rule = step.rules.byName.get(released.name);
    if (rule === undefined || (step.wakesAll && !released.marked)) continue;
    if (wakesWaiters(rule, released, () => availabilityOf(step, rule, id, released))) {
      step.wakesAll = true;
      if (released.marked) step.sql(released.refused === true ? UNSTARVED : WOKEN).run(id);
    }
  }
}

/** Did the step release something of this state of a limit, for which others wait? */
export function hasReleased(step: Step, name: string, grp: string): boolean {
  for (const released of step.released.values())
    if (released.marked && released.name === name && released.grp === grp) return true;
  return false;
}

function availabilityOf(step: Step, rule: LimitRule, id: number, { grp, used }: Released): Availability {
  const group = groupOf(grp);
  const { concurrency } = quotaOf(rule, group);
  const { slots, expiresIn } = slotsInUse(step, id, null);
  // What a window weighs is not released here.
  const now = { available: 0, used: rule.quota.max === null ? slots : used };
  // Nothing ends the wait for a slot sooner.
  if (rule.breaker === null && concurrency !== null && slots >= concurrency) return { ...now, wait: expiresIn };
  return { ...now, wait: decideFor(new SqliteKeys(step).key(rule, group), ONE).wait };
}

function namesOf(step: Step, ids: Iterable<number>): Named[] {
  return step.sql(NAMES).all(JSON.stringify([...ids])) as Named[];
}
