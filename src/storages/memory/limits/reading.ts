import { NO_SLOTS } from "../../../limits/key-state.ts";
import { type LimitRule, quotaOf } from "../../../limits/rule.ts";
import { viewOf, windowWait } from "../../../limits/window.ts";
import { type InspectedKey, limitStateOf, type Waiting } from "../../../storage/inspected-key.ts";
import type { LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import type { MemoryQueue } from "../queues.ts";
import { type MemoryLimitState, UNTOUCHED } from "./limit-state.ts";

/** So many groups are shown. */
const SHOWN = 100;

/** What there is of limits, by name. */
export function readLimits(book: Book, { name, group }: LimitQuery, now: number): LimitState[] {
  const rules = name === null ? book.limits.inForce : [book.limits.rule(name)];
  for (const queue of book.queues.values()) book.promoteAll(queue, now);
  return rules.filter((rule) => rule !== undefined).map((rule) => keptState(book, rule, group, book.limitTime(now)));
}

/** A rule that is kept, and what is counted under it. */
export function keptState(book: Book, rule: LimitRule, group: string | null, time: number): LimitState {
  const origin = originOf(book.limits.stored.get(rule.name)!);
  const queues = book.queues.values();
  if (!rule.byGroup) return generalState(book, rule, origin, queues, time);
  const groups = book.limits.groups(rule.name);
  const shown = group === null ? latest(groups) : [group];
  const keys = shown.map((one) => inspect(groups.get(one), rule, one, time));
  return limitStateOf(rule, origin, waitingIn(queues), groups.size, keys, limitSkew(book));
}

/** A rule that is not by group: one that is kept, or that a claim of this queue brought along. */
export function generalState(
  book: Book,
  rule: LimitRule,
  origin: Origin,
  queues: Iterable<MemoryQueue>,
  time: number,
): LimitState {
  const limitState = book.limits.find(rule, null);
  const groups = limitState?.counted === true ? 1 : 0;
  const keys = [inspect(limitState, rule, null, time)];
  return limitStateOf(rule, origin, waitingIn(queues), groups, keys, limitSkew(book));
}

/** How far the clock of limit states is ahead of the wall clock. */
export const limitSkew = (book: Book): number => book.limitTime(book.skew);

/** One key of a limit. `undefined`: nothing was ever counted for the group. */
export function inspect(
  limitState: MemoryLimitState | undefined,
  rule: LimitRule,
  group: string | null,
  time: number,
): InspectedKey {
  const quota = quotaOf(rule, group);
  const log = limitState?.log;
  return {
    rule,
    group,
    quota,
    keyState: limitState?.keyState ?? UNTOUCHED,
    slots: limitState?.slotsInUse(time) ?? NO_SLOTS,
    used: limitState?.used(quota, time) ?? 0,
    now: time,
    windowWait: (max, windowMs, weight) =>
      log === undefined ? 0 : windowWait(log, viewOf(log, windowMs), max, time, weight),
  };
}

function* waitingIn(queues: Iterable<MemoryQueue>): Iterable<Waiting> {
  for (const { name, lines } of queues)
    for (const { type, waiting } of lines.values()) yield { queue: name, type, waiting };
}

/** The groups that were used last. */
function latest(groups: ReadonlyMap<string | null, MemoryLimitState>): (string | null)[] {
  let found: [string | null, MemoryLimitState][] = [];
  for (const one of groups) {
    found.push(one);
    if (found.length === 10 * SHOWN) found = cut(found);
  }
  return cut(found).map(([group]) => group);
}

function cut(found: readonly [string | null, MemoryLimitState][]): [string | null, MemoryLimitState][] {
  return found.toSorted(([, a], [, b]) => usedAt(b) - usedAt(a)).slice(0, SHOWN);
}

const usedAt = ({ keyState }: MemoryLimitState): number => keyState.latestAt ?? -1;
