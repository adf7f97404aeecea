import { LimitNotFoundError } from "../../../core/errors.ts";
import { recordRemaining } from "../../../limits/key-state.ts";
import { isBySame, type LimitRule } from "../../../limits/rule.ts";
import { type Declared, declareRules, ownersWithout } from "../../../storage/declarations.ts";
import { changeByHand, changeOf } from "../../../storage/limit-history.ts";
import type { DeclareOptions, LimitChange, LimitsDeclared } from "../../../storage/limit-storage.ts";
import { changeRule, ruleInForce, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Step } from "../step.ts";
import { adopt } from "./adopting.ts";
import { windowFreed } from "./release.ts";
import { clearGates, openAll } from "./gates.ts";
import { stateGrpOf } from "./groups.ts";
import { forgetOwner, ownersOf, recordChanges, rememberOwner } from "./history.ts";
import {
  changeKeyState,
  dropLimit,
  findLimit,
  holdLimit,
  type LimitRow,
  limitById,
  openLimit,
  resetLimit,
} from "./limit-row.ts";

const WRITE = `INSERT INTO sluice_rules (name, stored) VALUES (?, ?)
  ON CONFLICT (name) DO UPDATE SET stored = excluded.stored`;
const DELETE = "DELETE FROM sluice_rules WHERE name = ?";
const CHANGED = "UPDATE sluice_meta SET settings = settings + 1";
// Of a limit by group nothing but what is kept for groups: the bare name belongs to `rates`.
const IDS = "SELECT id FROM sluice_limits WHERE name = ? AND grp >= ?";
const GO_ON = `UPDATE sluice_limits SET held_until = NULL, remaining = NULL, remaining_until = NULL, failures = 0,
  open_until = NULL WHERE name = ? AND grp >= ?`;
const firstGrp = ({ byGroup }: LimitRule): string => (byGroup ? "-" : "");

/** What these declarations come to. Fails where a conflict is to be rejected. */
export function declared(step: Step, rules: readonly LimitRule[], options: DeclareOptions): Declared {
  return declareRules({ stored: step.rules.stored, owners: ownersOf(step) }, rules, options, step.now);
}

export function define(step: Step, rules: readonly LimitRule[], options: DeclareOptions): LimitsDeclared {
  const { writes, removed, owner, changes, kept } = declared(step, rules, options);
  const changed = new Set(changes.map(({ limit }) => limit));
  const inForce = writes.filter((stored) => changed.has(stored.declared.name));
  if (writes.length > 0) write(step, writes);
  for (const { declared: rule } of inForce) {
    const before = step.rules.byName.get(rule.name);
    // No job has waited for one that is new.
    if (before === undefined) continue;
    release(step, rule.name);
    // The values of groups mean something else now.
    if (before.byGroup && !isBySame(before, rule)) dropAll(step, before);
  }
  for (const stored of inForce) adopt(step, step.rules.byName.get(stored.declared.name), ruleInForce(stored));
  for (const name of removed) erase(step, step.rules.byName.get(name)!);
  if (owner !== undefined) rememberOwner(step, owner);
  recordChanges(step, changes);
  return { changes, kept };
}

/** Was there such a rule? */
export function remove(step: Step, name: string, by: string | null): boolean {
  const before = step.rules.stored.get(name);
  const rule = step.rules.byName.get(name);
  if (before === undefined || rule === undefined) return false;
  erase(step, rule);
  for (const owner of ownersWithout(step.rules, name)) forgetOwner(step, owner);
  recordChanges(step, [changeOf("removed", before, undefined, { by, owner: null, version: null })]);
  return true;
}

/** The rule, and all that was counted under it. */
function erase(step: Step, rule: LimitRule): void {
  const { name } = rule;
  step.sql(DELETE).run(name);
  dropAll(step, rule);
  step.sql(CHANGED).run();
  release(step, name);
}

/** All that was counted under a rule. */
function dropAll(step: Step, rule: LimitRule): void {
  for (const { id } of step.sql(IDS).all(rule.name, firstGrp(rule)) as { readonly id: number }[]) dropLimit(step, id);
}

export function change(step: Step, name: string, wanted: LimitChange, by: string | null): void {
  const before = step.rules.stored.get(name);
  const rule = step.rules.byName.get(name);
  if (before === undefined || rule === undefined) throw new LimitNotFoundError(name);
  const after = changeRule(before, wanted, step.now);
  if (after !== undefined) write(step, [after]);
  const changed = changeByHand(before, after, wanted, by);
  if (changed !== undefined) recordChanges(step, [changed]);
  if (after !== undefined && ("quota" in wanted || "restore" in wanted)) {
    loosen(step, name);
    adopt(step, rule, ruleInForce(after));
  }
  if ("paused" in wanted && !wanted.paused) {
    step.sql(GO_ON).run(name, firstGrp(rule));
    loosen(step, name);
  }
  // What holds all groups is kept with the rule.
  if ("holdMs" in wanted && after === undefined) {
    holdLimit(step, name, stateGrpOf(rule, wanted.group), step.now + wanted.holdMs);
  }
  if ("remaining" in wanted) setRemaining(step, rule, wanted);
  if ("reset" in wanted) reset(step, rule, wanted.group);
}

/** What the service says is left. */
function setRemaining(step: Step, rule: LimitRule, said: Extract<LimitChange, { remaining: number }>): void {
  const row = openLimit(step, rule.name, 0, stateGrpOf(rule, said.group));
  changeKeyState(step, row, (keyState) => {
    recordRemaining(keyState, said.remaining, said.resetMs, step.now);
    // More is left than it said before.
    if (row.remaining !== null && keyState.remaining! > row.remaining) windowFreed(step, row);
  });
}

function reset(step: Step, rule: LimitRule, group: string | null): void {
  const { name } = rule;
  const all = !rule.byGroup || group === null;
  const rows = all
    ? (step.sql(IDS).all(name, firstGrp(rule)) as { readonly id: number }[]).map(({ id }) => limitById(step, id))
    : [findLimit(step, name, stateGrpOf(rule, group))];
  for (const row of rows.filter((one): one is LimitRow => one !== undefined)) resetLimit(step, row);
  if (all) loosen(step, name);
  else windowFreed(step, { name, grp: stateGrpOf(rule, group) });
}

/** All processes read the rules again. */
function write(step: Step, rules: readonly StoredRule[]): void {
  for (const stored of rules) step.sql(WRITE).run(stored.declared.name, JSON.stringify(stored));
  step.sql(CHANGED).run();
}

/** What waited for it looks again. */
function loosen(step: Step, name: string): void {
  openAll(step, name);
  step.wakesAll = true;
}

/** What waited for it may be under it no more. */
function release(step: Step, name: string): void {
  clearGates(step, name);
  step.wakesAll = true;
}
