import { type LimitRule, quotaOf } from "../../../limits/rule.ts";
import { type LimitRow, limitById } from "../limit-row.ts";
import type { Step } from "../step.ts";
import { groupOf, unblockGroups } from "./blocked.ts";
import { type EndedHold, heldOf } from "./holds.ts";

const NAMES = "SELECT id, name, grp FROM sluice_limits WHERE id IN (SELECT value FROM json_each(?))";
const FOR_ALL = `SELECT id, name, grp FROM sluice_limits WHERE grp = '' AND name IN (SELECT value FROM json_each(?))`;

interface Named {
  readonly id: number;
  readonly name: string;
  readonly grp: string;
}

/**
 * Something of limits for all, and of no others, is about to be given back: what is held of them is noted. Whether there is
 * room then that was not there before is decided when the step ends.
 */
export function noteHeld(step: Step): void {
  for (const { id, name } of step.sql(FOR_ALL).all(JSON.stringify(step.rules.holding)) as Named[]) {
    if (step.given.has(id)) continue;
    const { slots } = heldOf(step, id, null);
    const rule = step.rules.byName.get(name)!;
    // Where there was room, more of it is no news.
    if (isWeighed(rule) || slots >= (rule.quota.concurrency ?? 0))
      step.given.set(id, { before: slots, awaited: false });
  }
}

/** Is somebody heavier than others, of what they hold? Such a one may have waited while there was room for others. */
const isWeighed = ({ weight, quota }: LimitRule): boolean => weight !== null && quota.max === null;

/** The same for whatever limits: these holds have ended. Lanes that a group kept back are ready at once. */
export function release(step: Step, ended: readonly EndedHold[]): void {
  const slots = new Map<number, number>();
  for (const { limit_id: id, slots: given } of ended) {
    if (given > 0) slots.set(id, (slots.get(id) ?? 0) + given);
  }
  if (slots.size === 0) return;
  const groups = new Map<string, Named[]>();
  for (const named of namesOf(step, slots.keys())) {
    const { id, name } = named;
    if (step.rules.byName.get(name)?.byGroup === true) groups.set(name, [...(groups.get(name) ?? []), named]);
    if (step.given.has(id)) continue;
    step.given.set(id, { before: heldOf(step, id, null).slots + slots.get(id)!, awaited: false });
  }
  for (const [name, own] of groups) {
    const awaited = unblockGroups(
      step,
      name,
      own.map(({ grp }) => grp),
    );
    if (awaited) for (const { id } of own) step.given.get(id)!.awaited = true;
  }
}

/** There is more room in a window, or no pause any more. */
export function windowFreed(step: Step, { name, grp }: Pick<LimitRow, "name" | "grp">): void {
  if (step.rules.byName.get(name)?.byGroup === true) unblockGroups(step, name, [grp]);
  step.everybody = true;
}

/** Is there room, after all of the step, that was not there before? */
export function concludeGiven(step: Step): void {
  if (step.everybody) return;
  for (const { id, name, grp } of namesOf(step, step.given.keys())) {
    const rule = step.rules.byName.get(name);
    const { before, awaited } = step.given.get(id)!;
    // Of a group it matters to those who waited for it, and have not been told by anything else.
    if (rule === undefined || (rule.byGroup && !awaited)) continue;
    if (isRoom(step, rule, id, groupOf(grp), before)) {
      step.everybody = true;
      return;
    }
  }
}

function isRoom(step: Step, rule: LimitRule, id: number, group: string | null, before: number): boolean {
  const { slots } = heldOf(step, id, null);
  if (slots >= before) return false;
  const openUntil = rule.breaker === null ? null : (limitById(step, id)?.open_until ?? null);
  // Half-open, a probe has ended; open, nothing starts all the same.
  if (openUntil !== null) return openUntil <= step.now;
  const { concurrency } = quotaOf(rule, group);
  if (concurrency === null) return false;
  if (isWeighed(rule)) return true;
  return slots < concurrency && before >= concurrency;
}

function namesOf(step: Step, ids: Iterable<number>): Named[] {
  return step.sql(NAMES).all(JSON.stringify([...ids])) as Named[];
}
