import { gaugeHold, gaugeTell } from "../../../limits/gauge.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import type { LimitChange, OnConflict } from "../../../storage/limit-storage.ts";
import { changeRule, declare, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import { adopt } from "./adopting.ts";
import type { Tally } from "./tally.ts";

/** All of them or none: whatever may be refused is decided before the first is written. */
export function defineLimits(book: Book, rules: readonly LimitRule[], onConflict: OnConflict, time: number): void {
  const { limits } = book;
  const declared = new Map<string, StoredRule>();
  for (const rule of rules) {
    const before = declared.get(rule.name) ?? limits.stored(rule.name);
    const after = declare(before, rule, onConflict, time);
    if (after !== undefined) declared.set(rule.name, after);
  }
  for (const [name, stored] of declared) {
    const isNew = limits.stored(name) === undefined;
    limits.write(stored);
    if (!isNew) loosenAll(book, name);
    adopt(book, limits.rule(name)!);
  }
}

export function removeLimit(book: Book, name: string): boolean {
  if (book.limits.stored(name) === undefined) return false;
  loosenAll(book, name);
  book.limits.erase(name);
  return true;
}

/** What people and services do to a limit. */
export function changeLimit(book: Book, name: string, change: LimitChange, time: number): void {
  const { limits } = book;
  const { stored, rule } = limits.demand(name);
  const after = changeRule(stored, change, time);
  if (after !== undefined) limits.write(after);
  if ("quota" in change || "restore" in change) {
    loosenAll(book, name);
    adopt(book, limits.rule(name)!);
  } else if ("paused" in change) {
    if (!change.paused) resume(book, name);
  } else if ("reset" in change) {
    reset(book, rule, change.group);
  } else if (!("holdMs" in change && rule.byGroup && change.group === null)) {
    const tally = limits.open(rule, rule.byGroup ? change.group : null);
    tally.counted = true;
    if ("holdMs" in change) {
      gaugeHold(tally.gauge, time + change.holdMs);
    } else {
      // A window that has begun anew may have room where the one before had none.
      book.loosen(tally, rule, time);
      gaugeTell(tally.gauge, change.remaining, change.resetMs, time);
    }
    limits.rest(tally, rule, time);
  }
}

/** It goes on, whatever was holding it. */
function resume(book: Book, name: string): void {
  for (const { gauge } of book.limits.tallies(name)) {
    gauge.pausedUntil = null;
    gauge.toldLeft = null;
    gauge.toldUntil = null;
    gauge.failures = 0;
    gauge.openUntil = null;
  }
  loosenAll(book, name);
}

function reset(book: Book, rule: LimitRule, group: string | null): void {
  const { limits } = book;
  if (!rule.byGroup || group === null) {
    for (const tally of limits.tallies(rule.name)) tally.reset();
    loosenAll(book, rule.name);
    return;
  }
  const tally = limits.find(rule, group);
  if (tally === undefined) return;
  tally.reset();
  loosen(book, tally);
  book.freed.noteRule();
}

/** Whoever waits for anything of this limit is worth a look. */
function loosenAll(book: Book, name: string): void {
  for (const tally of book.limits.tallies(name)) loosen(book, tally);
  book.freed.noteRule();
}

function loosen(book: Book, tally: Tally): void {
  book.heavy.clear(tally);
  book.blocked.unblockAll(tally);
  if (tally.ledger !== undefined) book.freed.noteLedger(tally.ledger);
}
