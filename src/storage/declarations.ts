import { LimitConflictError } from "../core/errors.ts";
import type { LimitAuthor, LimitChanged, LimitKept } from "../core/limit-change.ts";
import type { GroupRule, LimitRule } from "../core/limit-rule.ts";
import { isBySame } from "../limits/rule.ts";
import { changeOf, keptOf, same, wordsOf } from "./limit-history.ts";
import type { DeclareOptions } from "./limit-storage.ts";
import { looking, type StoredRule } from "./stored-rules.ts";

/** What a storage keeps of declarations. */
export interface DeclaredBefore {
  readonly stored: ReadonlyMap<string, StoredRule>;
  /** The highest version that each owner has declared; owners that gave none are not in it. */
  readonly owners: ReadonlyMap<string, number>;
}

/** The effect of a declaration: what to write, in one step, and what to publish. */
export interface Declared {
  /** Rules to write. For those in `changes` other numbers are in force now; the others only have other owners. */
  readonly writes: readonly StoredRule[];
  /** Names of rules to remove, with all that is counted under them. */
  readonly removed: readonly string[];
  /** The version that the owner has declared, if it is to be stored. */
  readonly owner: { readonly name: string; readonly version: number } | undefined;
  readonly changes: readonly LimitChanged[];
  readonly kept: readonly LimitKept[];
}

/** Is there nothing to write? */
export function isUnchanged({ writes, removed, owner }: Declared): boolean {
  return writes.length === 0 && removed.length === 0 && owner === undefined;
}

/**
 * Decides what a declaration changes in the stored rules (docs/changing-limits.md has the table). Throws if a conflict is to be
 * rejected; then nothing is changed.
 */
export function declareRules(
  before: DeclaredBefore,
  rules: readonly LimitRule[],
  options: DeclareOptions,
  now: number,
): Declared {
  const { onConflict = "update", version = null, owner = null, by = null } = options;
  const author: LimitAuthor = { by, owner, version };
  const seen = owner === null ? undefined : before.owners.get(owner);
  // A process of an older deploy: a newer version of its owner has declared its limits, and the old one must neither restore nor remove any.
  const stale = seen !== undefined && isOlder(version, seen);
  const after = new Map<string, StoredRule>();
  const changed = new Set<string>();
  const kept: LimitKept[] = [];
  for (const rule of rules) {
    const was = after.get(rule.name) ?? before.stored.get(rule.name);
    const differs = differenceOf(was?.declared, rule);
    const older = stale || (was !== undefined && isOlder(version, was.version));
    if (differs !== undefined && onConflict === "reject" && (older || was?.version === version)) {
      throw new LimitConflictError(
        rule.name,
        differs,
        older ? { version, stored: was?.version ?? seen ?? null } : null,
      );
    }
    const holds = differs !== undefined && !older && (was === undefined || onConflict !== "keep");
    if (differs !== undefined && older && onConflict !== "keep") kept.push(keptOf(was, rule, author));
    const stored = holds ? declaredAs(was, rule, now) : was;
    if (stored === undefined) continue;
    const written =
      older || (differs !== undefined && !holds) ? stored : { ...stored, version: version ?? stored.version };
    const owned = owner === null || stale ? written : { ...written, owners: withOwner(written.owners, owner) };
    if (holds) changed.add(rule.name);
    if (holds || !same(owned, was)) after.set(rule.name, owned);
  }
  const ended = owner === null || stale ? [] : noLongerDeclared(before, rules, owner);
  const removed = ended.filter(({ owners }) => owners.length === 0).map(({ declared }) => declared.name);
  const left = ended.filter(({ owners }) => owners.length > 0);
  return {
    writes: [...after.values(), ...left],
    removed,
    owner: owner !== null && version !== null && !stale && seen !== version ? { name: owner, version } : undefined,
    changes: [
      ...Array.from(changed, (name) => changeOf("declared", before.stored.get(name), after.get(name), author)),
      ...removed.map((name) => changeOf("removed", before.stored.get(name), undefined, author)),
    ],
    kept,
  };
}

/** The owners that own no other rule: their stored versions are deleted when this rule is removed by an operator. */
export function ownersWithout({ stored }: Pick<DeclaredBefore, "stored">, name: string): readonly string[] {
  const others = [...stored.values()].filter(({ declared }) => declared.name !== name);
  return (stored.get(name)?.owners ?? []).filter((owner) => !others.some(({ owners }) => owners.includes(owner)));
}

/** A declaration without a version is older than any with one. */
function isOlder(version: number | null, stored: number | null): boolean {
  return stored !== null && (version === null || version < stored);
}

/**
 * A rule that is declared, possibly with other numbers than before. Counted starts stay counted, and a pause stays. Numbers that an
 * operator set stay too, unless the declaration changes the same numbers: then the declaration is newer.
 */
function declaredAs(before: StoredRule | undefined, rule: LimitRule, now: number): StoredRule {
  if (before === undefined) {
    return { declared: rule, quota: {}, groups: {}, paused: false, revision: 1, version: null, owners: [] };
  }
  const { declared } = before;
  // Numbers for another weight cannot be compared with the earlier ones.
  const anew = declared.weight !== rule.weight || declared.estimate !== rule.estimate;
  // Numbers for one value mean nothing if the limit is by something else now.
  const groups = Object.entries(before.groups).filter(
    ([group]) => !anew && isBySame(declared, rule) && same(numbersOf(declared, group), numbersOf(rule, group)),
  );
  const after = {
    ...before,
    declared: rule,
    quota: anew || !same(declared.quota, rule.quota) ? {} : before.quota,
    groups: Object.fromEntries(groups),
    revision: before.revision + 1,
  };
  return looking(before, after, now);
}

/** The overrides of a rule for one group. */
function numbersOf({ groups }: LimitRule, group: string): GroupRule | undefined {
  return Object.hasOwn(groups, group) ? groups[group] : undefined;
}

/** The rules of this owner that it no longer declares, with the owner removed. */
function noLongerDeclared({ stored }: DeclaredBefore, rules: readonly LimitRule[], owner: string): StoredRule[] {
  const names = new Set(rules.map(({ name }) => name));
  const without = (rule: StoredRule): StoredRule => ({ ...rule, owners: rule.owners.filter((one) => one !== owner) });
  return [...stored.values()]
    .filter(({ declared, owners }) => owners.includes(owner) && !names.has(declared.name))
    .map((rule) => without(rule));
}

function withOwner(owners: readonly string[], owner: string): readonly string[] {
  return owners.includes(owner) ? owners : [...owners, owner].toSorted();
}

/** The first thing in which two declarations differ, in words; undefined: nothing. */
function differenceOf(before: LimitRule | undefined, now: LimitRule): string | undefined {
  if (before === undefined) return "removed by a newer version of its owner";
  for (const key of Object.keys({ ...before, ...now }) as (keyof LimitRule)[]) {
    const [was, is] = [wordsOf(before[key]), wordsOf(now[key])];
    if (was !== is) return `${key}: ${was} before, ${is} now`;
  }
  return undefined;
}
