import type { SlotsInUse } from "../../../limits/key-state.ts";
import { concurrencyWait, type LimitRule, ONE, quotaOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import { type LimitRow, limitById } from "../limit-row.ts";
import type { Given, Step } from "../step.ts";
import { openGates } from "./gates.ts";
import { groupOf } from "./groups.ts";
import { type EndedHold, heldOf } from "./holds.ts";
import { SqliteKeys } from "./keys.ts";

const NAMES = "SELECT id, name, grp FROM sluice_limits WHERE id IN (SELECT value FROM json_each(?))";
const FOR_ALL = "SELECT id FROM sluice_limits WHERE name = ? AND grp = ''";

interface Named {
  readonly id: number;
  readonly name: string;
  readonly grp: string;
}

/**
 * Something of limits for all, and of no others, is about to be given back, and no lane waits for it: how long one more waits
 * is noted. Whether it waits less then is decided when the step ends.
 */
export function noteHeld(step: Step): void {
  for (const name of step.rules.holding) {
    const id = (step.sql(FOR_ALL).get(name) as Pick<Named, "id"> | undefined)?.id;
    if (id === undefined || step.given.has(id)) continue;
    const held = heldOf(step, id, null);
    const rule = step.rules.byName.get(name)!;
    const wait = waitFor(step, rule, null, held, null);
    // Where it was available, more of it matters only to jobs that need more than one.
    if (wait > 0 || rule.weight !== null)
      step.given.set(id, { name, grp: "", wait, slots: held.slots, awaited: false });
  }
}

/** How long one more waits for what is held. */
function waitFor(step: Step, rule: LimitRule, group: string | null, held: SlotsInUse, openUntil: number | null): Wait {
  const wait = concurrencyWait(quotaOf(rule, group).concurrency, held.slots, 1, held.expiresIn);
  const probing = rule.breaker !== null && openUntil !== null && openUntil <= step.now;
  return probing && held.probes >= rule.breaker.probes ? Math.max(wait, held.expiresIn) : wait;
}

/** The same for whatever limits: these holds have ended. Lanes that waited for them may look again at once. */
export function release(step: Step, ended: readonly EndedHold[]): void {
  // What held nothing only kept a group in mind, or was a probe.
  const counting = step.rules.breaks ? ended : ended.filter(({ slots }) => slots > 0);
  const own = Map.groupBy(counting, ({ limit_id: id }) => id);
  if (own.size === 0) return;
  for (const [name, states] of Map.groupBy(namesOf(step, own.keys()), (one) => one.name)) {
    const rule = step.rules.byName.get(name);
    if (rule === undefined) continue;
    for (const { id, grp } of states) {
      if (!step.given.has(id)) step.given.set(id, before(step, rule, id, grp, own.get(id)!));
    }
    for (const { id, grp } of states) if (mayOpen(step, rule, grp)) step.given.get(id)!.awaited = true;
  }
}

/** Lanes that waited for this state of a limit may look again. Were there any? */
function mayOpen(step: Step, { name, byGroup, weight }: LimitRule, grp: string): boolean {
  return (byGroup || weight !== null) && openGates(step, name, grp);
}

function before(step: Step, rule: LimitRule, id: number, grp: string, ended: readonly EndedHold[]): Given {
  const openUntil = rule.breaker === null ? null : (limitById(step, id)?.open_until ?? null);
  const { expiresIn, ...held } = heldOf(step, id, openUntil);
  let { slots, probes } = held;
  for (const one of ended) {
    slots += one.slots;
    if (openUntil !== null && one.at >= openUntil) probes += 1;
  }
  const wait = waitFor(step, rule, groupOf(grp), { slots, probes, expiresIn }, openUntil);
  return { name: rule.name, grp, wait, slots, awaited: false };
}

/** More of a window is available, or a hold has ended. */
export function windowFreed(step: Step, { name, grp }: Pick<LimitRow, "name" | "grp">): void {
  const rule = step.rules.byName.get(name);
  if (rule !== undefined) mayOpen(step, rule, grp);
  step.wakesAll = true;
}

/** Does one more wait less, after all of the step, than it did before? */
export function concludeGiven(step: Step): void {
  if (step.wakesAll) return;
  for (const [id, given] of step.given) {
    const rule = step.rules.byName.get(given.name);
    // Of a group it matters only if lanes waited for it.
    if (rule === undefined || (rule.byGroup && !given.awaited)) continue;
    if (isEarlier(step, rule, id, groupOf(given.grp), given)) {
      step.wakesAll = true;
      return;
    }
  }
}

function isEarlier(step: Step, rule: LimitRule, id: number, group: string | null, given: Given): boolean {
  // A heavy job waits for more than one, and has to be looked at after every change.
  if (rule.weight !== null && given.awaited) return true;
  if (rule.weight !== null && rule.quota.max === null && heldOf(step, id, null).slots < given.slots) return true;
  if (given.wait === 0) return false;
  const { concurrency } = quotaOf(rule, group);
  if (rule.breaker === null && concurrency !== null) {
    const { slots, expiresIn } = heldOf(step, id, null);
    if (slots >= concurrency) return expiresIn < given.wait;
  }
  return new SqliteKeys(step).key(rule, group).wait(ONE) < given.wait;
}

function namesOf(step: Step, ids: Iterable<number>): Named[] {
  return step.sql(NAMES).all(JSON.stringify([...ids])) as Named[];
}
