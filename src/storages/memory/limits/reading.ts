import { applies, type LimitRule, quotaOf, wallRule } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { GroupState, LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import type { MemoryQueue } from "../queues.ts";
import { availableOf, nextOf, type MemoryLimitState } from "./limit-state.ts";

/** So many groups are shown. */
const SHOWN = 100;

/** What there is of limits, by name. */
export function readLimits(book: Book, { name, group }: LimitQuery, now: number): LimitState[] {
  const rules = name === null ? book.limits.inForce : [book.limits.rule(name)];
  for (const queue of book.queues.values()) book.promoteAll(queue, now);
  return rules.filter((rule) => rule !== undefined).map((rule) => keptState(book, rule, group, book.toLedgerTime(now)));
}

/** A rule that is kept, and what is counted under it. */
export function keptState(book: Book, rule: LimitRule, group: string | null, time: number): LimitState {
  const origin = originOf(book.limits.stored.get(rule.name)!);
  const queues = [...book.queues.values()];
  if (!rule.byGroup) return generalState(book, rule, origin, queues, time);
  const groups = book.limits.groups(rule.name);
  const shown: (readonly [string | null, MemoryLimitState | undefined])[] =
    group === null ? latest(groups) : [[group, groups.get(group)]];
  return {
    rule: toldRule(book, rule),
    ...origin,
    waiting: waiting(rule, queues),
    groups: groups.size,
    states: shown.map(([one, limitState]) => stateOf(limitState, rule, one, time)),
  };
}

/** A rule that is not by group: one that is kept, or that a claim of this queue brought along. */
export function generalState(
  book: Book,
  rule: LimitRule,
  origin: Origin,
  queues: readonly MemoryQueue[],
  time: number,
): LimitState {
  const limitState = book.limits.find(rule, null);
  return {
    rule: toldRule(book, rule),
    ...origin,
    waiting: waiting(rule, queues),
    groups: limitState?.counted === true ? 1 : 0,
    states: [stateOf(limitState, rule, null, time)],
  };
}

/** A rule as others see it: with instants by the wall clock. */
export function toldRule(book: Book, rule: LimitRule): LimitRule {
  return wallRule(rule, book.toLedgerTime(book.skew));
}

/** How long a start has to wait; null: until a release. */
export function toldWait(wait: Wait): number | null {
  return wait === NEVER || !Number.isFinite(wait) ? null : wait;
}

function stateOf(
  limitState: MemoryLimitState | undefined,
  rule: LimitRule,
  group: string | null,
  time: number,
): GroupState {
  const { wait, reason } = nextOf(limitState, rule, group, time);
  const free = availableOf(limitState, rule, group, time);
  const { heldUntil = null, openUntil = null } = limitState?.keyState ?? {};
  const isOpen = rule.breaker !== null && openUntil !== null;
  return {
    group,
    used: limitState?.used(quotaOf(rule, group), time) ?? 0,
    held: limitState?.held(time).slots ?? 0,
    free: Number.isFinite(free) ? free : null,
    nextInMs: toldWait(wait),
    reason,
    heldForMs: Math.max(0, (heldUntil ?? time) - time, (rule.heldUntil ?? time) - time),
    breaker: isOpen ? (time < openUntil ? "open" : "half-open") : "closed",
  };
}

/** How many jobs wait that a rule applies to. */
function waiting(rule: LimitRule, queues: readonly MemoryQueue[]): number {
  let sum = 0;
  for (const { name, lines } of queues) {
    for (const line of lines.values()) if (applies(rule, name, line.type)) sum += line.waiting;
  }
  return sum;
}

/** The groups that were used last. */
function latest(groups: ReadonlyMap<string | null, MemoryLimitState>): (readonly [string | null, MemoryLimitState])[] {
  let found: (readonly [string | null, MemoryLimitState])[] = [];
  for (const one of groups) {
    found.push(one);
    if (found.length === 10 * SHOWN) found = cut(found);
  }
  return cut(found);
}

function cut(
  found: readonly (readonly [string | null, MemoryLimitState])[],
): (readonly [string | null, MemoryLimitState])[] {
  return found.toSorted(([, a], [, b]) => usedAt(b) - usedAt(a)).slice(0, SHOWN);
}

const usedAt = ({ keyState }: MemoryLimitState): number => keyState.latestAt ?? -1;
