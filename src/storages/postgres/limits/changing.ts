import { LimitNotFoundError } from "../../../core/errors.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import type { LimitChange, OnConflict } from "../../../storage/limit-storage.ts";
import { changeRule, declare, ruleInForce, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Caller } from "../database.ts";
import { stateGrpOf } from "./groups.ts";
import { readRules, type RuleBook } from "./rule-book.ts";

/** What becomes of one rule, as `write_rules` is told. */
interface RuleChange {
  readonly name: string;
  readonly stored?: object;
  readonly rule?: LimitRule;
  /** For how long from now; true: as before. */
  readonly held?: number | true;
  readonly blind?: number | true;
  readonly removed?: true;
  readonly adopts?: true;
  readonly resumed?: true;
  readonly reset?: string | null;
  readonly loosened?: true;
}

/**
 * Reads the rules, decides, and writes down what was decided, unless somebody else has changed them in between: then all of
 * it again. No lock is held in the meantime. Was there anything to write?
 */
async function decide(database: Caller, decision: (book: RuleBook) => readonly RuleChange[]): Promise<boolean> {
  for (;;) {
    const book = await readRules(database);
    const changes = decision(book);
    if (changes.length === 0) return false;
    const { again } = await database.call<{ again?: true }>("write_rules", book.number, JSON.stringify(changes));
    if (again === undefined) return true;
  }
}

export async function define(database: Caller, rules: readonly LimitRule[], onConflict: OnConflict): Promise<void> {
  await decide(database, ({ stored }) => {
    const after = new Map<string, StoredRule>();
    for (const rule of rules) {
      const before = after.get(rule.name) ?? timeless(stored.get(rule.name));
      const declared = declare(before, rule, onConflict, 0);
      if (declared !== undefined) after.set(rule.name, declared);
    }
    // Nobody has waited for one that is new.
    return Array.from(after, ([name, rule]) => ({
      ...written(name, rule),
      adopts: true,
      ...(stored.has(name) && { loosened: true }),
    }));
  });
}

/** Was there such a rule? */
export async function remove(database: Caller, name: string): Promise<boolean> {
  let found = false;
  await decide(database, ({ stored }) => {
    const isThere = stored.has(name);
    found ||= isThere;
    return isThere ? [{ name, removed: true, loosened: true }] : [];
  });
  return found;
}

export async function change(database: Caller, name: string, wanted: LimitChange): Promise<void> {
  if ("remaining" in wanted) await tell(database, name, wanted);
  else if ("holdMs" in wanted) await hold(database, name, wanted);
  else await decide(database, (book) => changed(book, name, wanted));
}

function changed({ stored }: RuleBook, name: string, wanted: LimitChange): RuleChange[] {
  const before = timeless(stored.get(name));
  if (before === undefined) throw new LimitNotFoundError(name);
  const after = changeRule(before, wanted, 0);
  const rule = after === undefined ? undefined : written(name, after);
  if ("quota" in wanted || "restore" in wanted) return [{ ...rule!, loosened: true, adopts: true }];
  if ("paused" in wanted && !wanted.paused) return [{ name, ...rule, resumed: true, loosened: true }];
  if ("reset" in wanted) return [{ name, ...rule, ...resetOf(before.declared, wanted.group) }];
  return rule === undefined ? [] : [rule];
}

/** What an answer says that is about one limit. */
interface Told {
  readonly missing?: true;
  readonly again?: true;
}

type Saying = Extract<LimitChange, { remaining: number }>;

async function tell(database: Caller, name: string, { group, remaining, resetMs }: Saying): Promise<void> {
  const { missing } = await database.call<Told>("tell_limit", name, group, remaining, resetMs);
  if (missing === true) throw new LimitNotFoundError(name);
}

/** What holds all groups of a limit is kept with its rule; what holds one group, or all that there is, with what is counted. */
async function hold(database: Caller, name: string, wanted: Extract<LimitChange, { holdMs: number }>): Promise<void> {
  let done = false;
  while (!done) {
    const { missing, again } = await database.call<Told>("hold_limit", name, wanted.group, wanted.holdMs);
    if (missing === true) throw new LimitNotFoundError(name);
    // By then it may not be by group any more.
    done = again === undefined || (await decide(database, (book) => changed(book, name, wanted)));
  }
}

function resetOf(declared: LimitRule, group: string | null): Partial<RuleChange> {
  if (!declared.byGroup || group === null) return { reset: null, loosened: true };
  return { reset: stateGrpOf(declared, group) };
}

/** Stands for an instant that there is, and that only the clock of the storage can compare with others. */
const AS_BEFORE = Number.NEGATIVE_INFINITY;

/**
 * A rule as it can be decided about without knowing the time: by a clock that stands at 0 every instant that is set anew is a
 * duration, and those of before come before all of them.
 */
function timeless(stored: StoredRule | undefined): StoredRule | undefined {
  if (stored === undefined) return undefined;
  return {
    ...stored,
    ...(stored.heldUntil !== undefined && { heldUntil: AS_BEFORE }),
    ...(stored.blindUntil !== undefined && { blindUntil: AS_BEFORE }),
  };
}

/** Writes down a rule that was decided about in this way. */
function written(name: string, after: StoredRule): RuleChange {
  const { heldUntil, blindUntil, ...stored } = after;
  return {
    name,
    stored,
    rule: ruleInForce(stored),
    ...(heldUntil !== undefined && { held: heldUntil === AS_BEFORE ? true : heldUntil }),
    ...(blindUntil !== undefined && { blind: blindUntil === AS_BEFORE ? true : blindUntil }),
  };
}
