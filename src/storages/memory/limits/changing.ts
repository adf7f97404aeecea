import type { LimitChanged } from "../../../core/limit-change.ts";
import { holdKey, recordRemaining } from "../../../limits/key-state.ts";
import { applies, chargeOf, isBySame, type LimitRule, takesSlots, valueOf } from "../../../limits/rule.ts";
import { declareRules, ownersWithout } from "../../../storage/declarations.ts";
import { changeByHand, changeOf } from "../../../storage/limit-history.ts";
import type { DeclareOptions, LimitChange, LimitsDeclared } from "../../../storage/limit-storage.ts";
import { changeRule } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import type { MemoryLimitState } from "./limit-state.ts";

/** Declares all rules or none: everything that may be rejected is checked before the first is written. */
export function defineLimits(
  book: Book,
  rules: readonly LimitRule[],
  options: DeclareOptions,
  now: number,
): LimitsDeclared {
  const { limits } = book;
  const { writes, removed, owner, changes, kept } = declareRules(limits, rules, options, book.limitTime(now));
  const changed = new Set(changes.map(({ limit }) => limit));
  for (const stored of writes) {
    const { name } = stored.declared;
    const before = limits.rule(name);
    limits.write(stored);
    if (!changed.has(name)) continue;
    if (before !== undefined) {
      loosenAll(book, name);
      if (!isBySame(before, stored.declared)) limits.forgetGroups(name);
    }
    adopt(book, limits.rule(name)!);
  }
  for (const name of removed) erase(book, name);
  if (owner !== undefined) limits.owners.set(owner.name, owner.version);
  publish(book, changes, now);
  return { changes, kept };
}

export function removeLimit(book: Book, name: string, by: string | null, now: number): boolean {
  const { limits } = book;
  const before = limits.stored.get(name);
  if (before === undefined) return false;
  for (const owner of ownersWithout(limits, name)) limits.owners.delete(owner);
  erase(book, name);
  publish(book, [changeOf("removed", before, undefined, { by, owner: null, version: null })], now);
  return true;
}

function erase(book: Book, name: string): void {
  loosenAll(book, name);
  book.limits.erase(name);
}

/** Writes the changes to the history, and publishes them. */
function publish({ limits, subscribers }: Book, changes: readonly LimitChanged[], now: number): void {
  for (const change of changes) {
    limits.history.add({ ...change, at: now });
    subscribers.event({ event: "limit-changed", queue: null, ...change });
  }
}

/** A change by an operator, or a report of a service. */
export function changeLimit(book: Book, name: string, change: LimitChange, by: string | null, now: number): void {
  const { limits } = book;
  const time = book.limitTime(now);
  const { stored, rule } = limits.demand(name);
  const after = changeRule(stored, change, time);
  if (after !== undefined) limits.write(after);
  const changed = changeByHand(stored, after, change, by);
  if (changed !== undefined) publish(book, [changed], now);
  if ("quota" in change || "restore" in change) {
    loosenAll(book, name);
    adopt(book, limits.rule(name)!);
  } else if ("paused" in change) {
    if (!change.paused) resume(book, name);
  } else if ("reset" in change) {
    reset(book, rule, change.group);
  } else if (!("holdMs" in change && rule.byGroup && change.group === null)) {
    const limitState = limits.open(rule, rule.byGroup ? change.group : null);
    limitState.counted = true;
    if ("holdMs" in change) {
      holdKey(limitState.keyState, time + change.holdMs);
    } else {
      // If the window of the service was reset, more may remain than before.
      book.loosen(limitState, rule, time);
      recordRemaining(limitState.keyState, change.remaining, change.resetMs, time);
    }
    limits.rest(limitState, rule, time);
  }
}

/** Ends holds and open breakers, and forgets what services said remains. */
function resume(book: Book, name: string): void {
  for (const { keyState } of book.limits.limitStates(name)) {
    keyState.heldUntil = null;
    keyState.remaining = null;
    keyState.remainingUntil = null;
    keyState.failures = 0;
    keyState.openUntil = null;
  }
  loosenAll(book, name);
}

function reset(book: Book, rule: LimitRule, group: string | null): void {
  const { limits } = book;
  if (!rule.byGroup || group === null) {
    for (const limitState of limits.limitStates(rule.name)) limitState.reset();
    loosenAll(book, rule.name);
    return;
  }
  const limitState = limits.find(rule, group);
  if (limitState === undefined) return;
  limitState.reset();
  loosen(book, limitState);
  book.freed.noteRule();
}

/** Lets claims look again at all lanes that wait for this limit. */
function loosenAll(book: Book, name: string): void {
  for (const limitState of book.limits.limitStates(name)) loosen(book, limitState);
  book.freed.noteRule();
}

function loosen(book: Book, limitState: MemoryLimitState): void {
  book.heavy.clear(limitState);
  book.gates.clear(limitState);
  if (limitState.rate !== undefined) book.freed.noteRate(limitState.rate);
}

/** Running jobs take slots of a rule that is new or was changed, if it has slots and they have none of it yet. */
function adopt(book: Book, rule: LimitRule): void {
  const { limits } = book;
  if (!hasSlots(rule)) return;
  for (const job of book.leases) {
    const value = valueOf(rule, job);
    if (!applies(rule, job.queue, job.type) || !takesSlots(rule, value)) continue;
    const limitState = limits.open(rule, value);
    const before = job.charges.find((charged) => charged.limitState === limitState);
    if (before !== undefined && limitState.hasSlots(before)) continue;
    const adopted = limitState.adopt(before, rule, chargeOf(rule, job.weights), book.limitTime(job.startedAt!));
    job.charges = [...job.charges.filter((charged) => charged !== before), adopted];
  }
}

/** Does any start take slots of it? */
function hasSlots(rule: LimitRule): boolean {
  return [null, ...Object.keys(rule.groups)].some((group) => takesSlots(rule, group));
}
