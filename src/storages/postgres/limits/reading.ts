import type { LimitRule } from "../../../limits/rule.ts";
import { limitStateOf, type Waiting } from "../../../storage/inspected-key.ts";
import type { LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf, ruleInForce } from "../../../storage/stored-rules.ts";
import type { Database } from "../database.ts";
import { groupOf } from "./groups.ts";
import { type KeptState, keptKey } from "./kept-key.ts";
import { isStoredRule } from "./rule-book.ts";

/** What is kept of a limit: of how many groups, and of those that are shown. */
export interface KeptStates {
  readonly groups: number;
  readonly states: readonly (KeptState & { readonly grp: string })[];
}

interface Answer {
  /** How far the clock of the storage is ahead of the one that instants are shown by. */
  readonly skew: number;
  readonly waiting: readonly Waiting[];
  readonly limits: readonly (KeptStates & { readonly stored: unknown })[];
}

export async function readLimits(database: Database, { name, group }: LimitQuery): Promise<LimitState[]> {
  const { skew, waiting, limits } = await database.call<Answer>("read_limits", name, group);
  const states = limits.flatMap(({ stored, ...kept }) =>
    isStoredRule(stored) ? [stateOf(ruleInForce(stored), originOf(stored), kept, waiting, skew)] : [],
  );
  return states.toSorted(byName);
}

export const byName = (a: LimitState, b: LimitState): number => (a.rule.name < b.rule.name ? -1 : 1);

/** A limit as it is. */
export function stateOf(
  rule: LimitRule,
  origin: Origin,
  { groups, states }: KeptStates,
  waiting: readonly Waiting[],
  skew: number,
): LimitState {
  const keys = states.map((kept) => keptKey(rule, groupOf(kept.grp), kept));
  return limitStateOf(rule, origin, waiting, groups, keys, skew);
}
