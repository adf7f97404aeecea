import { applies, type LimitRule, wallRule } from "../../../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { GroupState, LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf, ruleInForce } from "../../../storage/stored-rules.ts";
import type { Database } from "../database.ts";
import { groupOf } from "./groups.ts";
import { type SeenLimit, SeenKey } from "./seen-key.ts";
import { isStoredRule } from "./rule-book.ts";

/** Jobs that wait, of one queue and type. */
export interface Waiting {
  readonly queue: string;
  readonly type: string;
  readonly waiting: number;
}

/** What is kept of a limit: of how many groups, and of those that are shown. */
export interface SeenStates {
  readonly groups: number;
  readonly states: readonly (SeenLimit & { readonly grp: string })[];
}

interface Answer {
  /** How far the clock of the storage is ahead of the one that instants are shown by. */
  readonly skew: number;
  readonly waiting: readonly Waiting[];
  readonly limits: readonly (SeenStates & { readonly stored: unknown })[];
}

export async function readLimits(database: Database, { name, group }: LimitQuery): Promise<LimitState[]> {
  const { skew, waiting, limits } = await database.call<Answer>("read_limits", name, group);
  const states = limits.flatMap(({ stored, ...seen }) =>
    isStoredRule(stored) ? [stateOf(ruleInForce(stored), originOf(stored), seen, waiting, skew)] : [],
  );
  return states.toSorted(byName);
}

export const byName = (a: LimitState, b: LimitState): number => (a.rule.name < b.rule.name ? -1 : 1);

/** A limit as it is. */
export function stateOf(
  rule: LimitRule,
  origin: Origin,
  { groups, states }: SeenStates,
  waiting: readonly Waiting[],
  skew: number,
): LimitState {
  let waits = 0;
  for (const one of waiting) if (applies(rule, one.queue, one.type)) waits += one.waiting;
  return {
    rule: wallRule(rule, skew),
    ...origin,
    waiting: waits,
    groups,
    states: states.map((seen) => groupState(new SeenKey(rule, groupOf(seen.grp), seen))),
  };
}

function groupState(key: SeenKey): GroupState {
  const { rule, now } = key;
  const { heldUntil, openUntil } = key.state;
  const { wait, reason } = key.decide({ weight: 1, slots: 1 });
  return {
    group: key.group,
    used: key.used,
    held: key.held,
    free: key.free,
    nextInMs: instantOf(wait),
    reason,
    heldForMs: Math.max(0, (heldUntil ?? 0) - now, (rule.heldUntil ?? 0) - now),
    breaker: rule.breaker === null || openUntil === null ? "closed" : now < openUntil ? "open" : "half-open",
  };
}

/** null: no clock can tell. */
export const instantOf = (wait: Wait): number | null => (wait === NEVER || wait === WHEN_RELEASED ? null : wait);
