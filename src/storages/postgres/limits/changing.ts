import { LimitNotFoundError } from "../../../core/errors.ts";
import type { LimitChanged } from "../../../core/limit-change.ts";
import { isBySame, type LimitRule } from "../../../limits/rule.ts";
import { declareRules, ownersWithout } from "../../../storage/declarations.ts";
import { changeByHand, changeOf } from "../../../storage/limit-history.ts";
import type { DeclareOptions, LimitChange, LimitsDeclared } from "../../../storage/limit-storage.ts";
import { changeRule, ruleInForce, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Steps } from "../database.ts";
import { stateGrpOf } from "./groups.ts";
import { readRules, type RuleBook } from "./rule-book.ts";

/** What becomes of one rule, as `write_rules` reads it. */
interface RuleChange {
  readonly name: string;
  readonly stored?: object;
  readonly rule?: LimitRule;
  /** For how long from now; true: as before. */
  readonly held?: number | true;
  readonly blind?: number | true;
  readonly removed?: true;
  readonly forgets?: true;
  readonly adopts?: true;
  readonly resumed?: true;
  readonly reset?: string | null;
  readonly loosened?: true;
}

/** What becomes of rules, and what their history says. */
interface Decision {
  readonly changes: readonly RuleChange[];
  readonly history?: readonly LimitChanged[];
  /** The version that an owner has declared; null: it is forgotten. */
  readonly owners?: Readonly<Record<string, number | null>>;
}

/**
 * Reads the rules, decides, and writes down what was decided, unless another process has changed them in between: then all of
 * it again. No lock is held in the meantime. Was there anything to write?
 */
async function decide(database: Steps, decision: (book: RuleBook) => Decision): Promise<boolean> {
  for (;;) {
    const book = await readRules(database);
    const { changes, history = [], owners = {} } = decision(book);
    if (changes.length === 0 && Object.keys(owners).length === 0) return false;
    const parts = [changes, history, owners].map((part) => JSON.stringify(part));
    const { again } = await database.once<{ again?: true }>("write_rules", [book.number, ...parts]);
    if (again === undefined) return true;
  }
}

export async function define(
  database: Steps,
  rules: readonly LimitRule[],
  options: DeclareOptions,
): Promise<LimitsDeclared> {
  let declared: LimitsDeclared = { changes: [], kept: [] };
  await decide(database, ({ stored, owners: seen }) => {
    const before = { stored: new Map(Array.from(stored, ([name, rule]) => [name, timeless(rule)])), owners: seen };
    const { writes, removed, owner, changes, kept } = declareRules(before, rules, options, 0);
    declared = { changes, kept };
    const anew = new Set(changes.map(({ limit }) => limit));
    return {
      changes: [...writes.map((rule) => declaredChange(rule, anew, stored)), ...removed.map((name) => REMOVED(name))],
      history: changes,
      owners: owner === undefined ? {} : { [owner.name]: owner.version },
    };
  });
  return declared;
}

/** `anew`: the names of those of which something else is in force. */
function declaredChange(rule: StoredRule, anew: ReadonlySet<string>, before: RuleBook["stored"]): RuleChange {
  const { name } = rule.declared;
  if (!anew.has(name)) return written(name, rule);
  const was = before.get(name)?.declared;
  return {
    ...written(name, rule),
    // No job has waited for one that is new.
    ...(was !== undefined && { loosened: true }),
    ...(was?.byGroup === true && !isBySame(was, rule.declared) && { forgets: true }),
    adopts: true,
  };
}

/** Was there such a rule? */
export async function remove(database: Steps, name: string, by: string | null): Promise<boolean> {
  let found = false;
  await decide(database, (book) => {
    const before = book.stored.get(name);
    if (before === undefined) return { changes: [] };
    found = true;
    return {
      changes: [REMOVED(name)],
      history: [changeOf("removed", before, undefined, { by, owner: null, version: null })],
      owners: Object.fromEntries(ownersWithout(book, name).map((owner) => [owner, null])),
    };
  });
  return found;
}

const REMOVED = (name: string): RuleChange => ({ name, removed: true, loosened: true });

export async function change(database: Steps, name: string, wanted: LimitChange, by: string | null): Promise<void> {
  if ("remaining" in wanted) await setRemaining(database, name, wanted);
  else if ("holdMs" in wanted) await hold(database, name, wanted);
  else await decide(database, (book) => changed(book, name, wanted, by));
}

function changed({ stored }: RuleBook, name: string, wanted: LimitChange, by: string | null): Decision {
  const found = stored.get(name);
  if (found === undefined) throw new LimitNotFoundError(name);
  const before = timeless(found);
  const after = changeRule(before, wanted, 0);
  const entry = changeByHand(before, after, wanted, by);
  return { changes: ruleChanges(before, after, wanted), history: entry === undefined ? [] : [entry] };
}

function ruleChanges(before: StoredRule, after: StoredRule | undefined, wanted: LimitChange): RuleChange[] {
  const { name } = before.declared;
  const rule = after === undefined ? undefined : written(name, after);
  if ("quota" in wanted || "restore" in wanted) return [{ ...rule!, loosened: true, adopts: true }];
  if ("paused" in wanted && !wanted.paused) return [{ name, ...rule, resumed: true, loosened: true }];
  if ("reset" in wanted) return [{ name, ...rule, ...resetOf(before.declared, wanted.group) }];
  return rule === undefined ? [] : [rule];
}

/** What an answer says that is about one limit. */
interface AboutLimit {
  readonly missing?: true;
  readonly again?: true;
}

type Saying = Extract<LimitChange, { remaining: number }>;

async function setRemaining(database: Steps, name: string, { group, remaining, resetMs }: Saying): Promise<void> {
  const { missing } = await database.once<AboutLimit>("set_remaining", [name, group, remaining, resetMs]);
  if (missing === true) throw new LimitNotFoundError(name);
}

/** What holds all groups of a limit is kept with its rule; what holds one group, or all that there is, with what is counted. */
async function hold(database: Steps, name: string, wanted: Extract<LimitChange, { holdMs: number }>): Promise<void> {
  let done = false;
  while (!done) {
    const { missing, again } = await database.once<AboutLimit>("hold_limit", [name, wanted.group, wanted.holdMs]);
    if (missing === true) throw new LimitNotFoundError(name);
    // By then it may not be by group any more.
    done = again === undefined || (await decide(database, (book) => changed(book, name, wanted, null)));
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
function timeless(stored: StoredRule): StoredRule {
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
