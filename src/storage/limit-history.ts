import { canonicalJson } from "../core/json.ts";
import type { LimitAuthor, LimitChanged, LimitChangeKind, LimitKept, LimitRulePart } from "../core/limit-change.ts";
import type { LimitRule } from "../core/limit-rule.ts";
import type { LimitChange } from "./limit-storage.ts";
import { ruleInForce, type StoredRule } from "./stored-rules.ts";

/** A storage keeps so many changes of one limit, and so many of all limits together: the latest. */
export const KEPT_CHANGES = 100;
export const KEPT_CHANGES_OF_ALL = 10_000;

/** A change lists the numbers of so many groups: a rule may have thousands. */
const GROUPS = 100;

/** The change of a stored rule, for its history and for listeners. */
export function changeOf(
  kind: LimitChangeKind,
  before: StoredRule | undefined,
  after: StoredRule | undefined,
  author: LimitAuthor,
): LimitChanged {
  const [from = null, to = null] = partsOf(before && ruleInForce(before), after && ruleInForce(after));
  const limit = (after ?? before)!.declared.name;
  const { by, owner, version } = author;
  return { limit, kind, by, owner, version, from, to };
}

/** The same for a change by an operator; undefined: it does not change the rule. */
export function changeByHand(
  before: StoredRule,
  after: StoredRule | undefined,
  change: LimitChange,
  by: string | null,
): LimitChanged | undefined {
  if (after === undefined || after.revision === before.revision) return undefined;
  return changeOf(kindOf(change), before, after, { by, owner: null, version: null });
}

function kindOf(change: LimitChange): LimitChangeKind {
  if ("restore" in change) return "restored";
  if ("paused" in change) return change.paused ? "paused" : "resumed";
  return "changed";
}

/** A declaration that did not take effect. */
export function keptOf(before: StoredRule | undefined, rule: LimitRule, author: LimitAuthor): LimitKept {
  const [kept = null, declared] = partsOf(before?.declared, rule);
  const { by, owner, version } = author;
  return { limit: rule.name, by, owner, version, declared: declared!, kept, keptVersion: before?.version ?? null };
}

/** The parts in which two rules differ, of each. If there is only one, all of it. */
function partsOf(before: LimitRule | undefined, after: LimitRule | undefined): readonly (LimitRulePart | null)[] {
  return [before && partOf(before, after), after && partOf(after, before)].map((part) => part ?? null);
}

/** Fields that are not compared: they are reported elsewhere, or are instants. */
const APART: ReadonlySet<string> = new Set<keyof LimitRule>([
  "name",
  "quota",
  "paused",
  "groups",
  "heldUntil",
  "blindUntil",
]);

function partOf(rule: LimitRule, other: LimitRule | undefined): LimitRulePart {
  const { quota, paused, groups, ...rest } = rule;
  const differs = (key: string, value: unknown) => other === undefined || !same(value, other[key as keyof LimitRule]);
  const parts = Object.entries(rest).filter(([key, value]) => !APART.has(key) && differs(key, value));
  const own = Object.entries(groups).filter(([group, value]) => !same(value, ownOf(other?.groups, group)));
  return {
    quota,
    paused,
    ...Object.fromEntries(parts),
    ...(own.length > 0 && { groups: Object.fromEntries(own.slice(0, GROUPS)) }),
  };
}

/** The value under a name that may be `__proto__`. */
function ownOf<T>(record: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Are these the same data, whatever the order of their keys? */
export function same(one: unknown, other: unknown): boolean {
  return wordsOf(one) === wordsOf(other);
}

/** Data as text that does not depend on the order of keys. */
export function wordsOf(value: unknown): string {
  return canonicalJson(JSON.stringify(value ?? null));
}
