import { isChanged } from "../../limiter/shared/limit-info.ts";
import { quotaOf } from "../../limits/rule.ts";
import type { LimitState } from "../../storage/limit-storage.ts";
import { limitWords } from "./limit-state.ts";
import { allowanceText } from "./limit-words.ts";

/** A limit for machines; `asked`: of one by group, only this group. */
export function limitJson(limit: LimitState, now: number, asked?: string): Record<string, unknown> {
  const { rule, declared, revision, version, owners, waiting, groups, states } = limit;
  const changed = isChanged(limit);
  return {
    name: rule.name,
    allows: allowanceText(rule),
    state: limitWords(limit, now, asked).text,
    paused: rule.paused,
    waiting,
    groups,
    states: states.map(({ group, used, held, free, nextInMs, reason, heldForMs, breaker }) => {
      const { max, concurrency } = quotaOf(rule, group);
      return { group, used, max, held, concurrency, free, nextInMs, reason, heldForMs, breaker };
    }),
    changed,
    revision,
    version,
    owners,
    rule,
    declared: changed ? declared : undefined,
  };
}
