import type { LimitRule } from "../../../limits/rule.ts";
import { limitStateOf, type Waiting } from "../../../storage/inspected-key.ts";
import type { LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import type { MemoryQueue } from "../queues.ts";
import type { MemoryLimitState } from "./limit-state.ts";

/** So many groups are shown. */
const SHOWN = 100;

/** The state of limits, by name. */
export function readLimits(book: Book, { name, group }: LimitQuery, now: number): LimitState[] {
  const rules = name === null ? book.limits.inForce : [book.limits.rule(name)].filter((rule) => rule !== undefined);
  for (const queue of book.queues.values()) book.promoteAll(queue, now);
  return rules.map((rule) => keptState(book, rule, group, book.limitTime(now)));
}

/** The state of a rule that is kept. */
export function keptState(book: Book, rule: LimitRule, group: string | null, time: number): LimitState {
  return stateOf(book, rule, originOf(book.limits.stored.get(rule.name)!), group, book.queues.values(), time);
}

/** The state of a rule that is kept, or that a claim of one of the queues brought along. `group`: null shows the groups that were used last. */
export function stateOf(
  book: Book,
  rule: LimitRule,
  origin: Origin,
  group: string | null,
  queues: Iterable<MemoryQueue>,
  time: number,
): LimitState {
  const { limits } = book;
  const groups = rule.byGroup ? limits.groups(rule.name) : undefined;
  const shown = groups === undefined ? [null] : group === null ? latest(groups) : [group];
  const counted = groups === undefined ? Number(limits.general(rule.name).counted) : groups.size;
  const keys = shown.map((one) => limits.keyAt(rule, one, time));
  return limitStateOf(rule, origin, waitingIn(queues), counted, keys, book.limitSkew);
}

function* waitingIn(queues: Iterable<MemoryQueue>): Iterable<Waiting> {
  for (const { name, lines } of queues)
    for (const { type, waiting } of lines.values()) yield { queue: name, type, waiting };
}

/** The groups that were used last. */
function latest(groups: ReadonlyMap<string | null, MemoryLimitState>): (string | null)[] {
  const usedAt = ({ keyState }: MemoryLimitState) => keyState.latestAt ?? -1;
  return [...groups.values()]
    .toSorted((a, b) => usedAt(b) - usedAt(a))
    .slice(0, SHOWN)
    .map(({ group }) => group);
}
