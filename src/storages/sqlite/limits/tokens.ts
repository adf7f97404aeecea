import { chargeMore, findLimit, type LimitRow } from "./limit-row.ts";
import { windowFreed } from "./release.ts";
import { confirmCalls } from "./grants.ts";
import type { Step } from "../step.ts";
import { shiftTotal } from "./totals.ts";
import { recordNamed } from "./windows.ts";

/**
 * A token names one start: the name it is counted under, its number, and what was reserved, for that is forgotten once the
 * start has left every window.
 */
export const tokenOf = (limit: number, number: number, reserved: number): string => `${limit}.${number}.${reserved}`;

const FIND = "SELECT seq, at, since, n, token, spent FROM sluice_starts WHERE token = ?";
// What counts from another instant, or for nothing, is not confirmed any more.
const CHANGE = `UPDATE sluice_starts SET claim = iif(at = ? AND ? > 0, claim, NULL), at = ?, since = ?, n = ?, spent = ?
  WHERE seq = ?`;
// A start that has ended has a number below zero.
const END = "UPDATE sluice_starts SET token = -token, since = max(since, ?) WHERE token = ?";
const ENDED = "INSERT INTO sluice_starts (limit_id, at, since, n, token, spent) VALUES (?, ?, ?, 0, ?, 0)";

/** Charged for a start that was cancelled: more than any start can settle. */
const EVERYTHING = Number.MAX_VALUE;

interface Start {
  readonly seq: number;
  readonly at: number;
  /** Until when it is to be kept for its token, though no window sees it; any time before: it is not. */
  readonly since: number;
  readonly n: number;
  readonly token: number;
  readonly spent: number;
}

/** A start, as its token says. */
export interface NamedStart {
  readonly number: number;
  readonly reserved: number;
}

/** As if the start had never been. */
export function cancelNamed(step: Step, name: string, token: string): void {
  const named = read(step, name, token);
  if (named !== undefined) cancelStart(step, named.row, named.number);
}

/** What the start really used. */
export function settleNamed(step: Step, name: string, token: string, used: number): void {
  const named = read(step, name, token);
  if (named !== undefined) settleStart(step, named.row, named, used);
}

/** When the start was called. */
export function confirmNamed(step: Step, name: string, token: string, calledInMs: number): void {
  const named = read(step, name, token);
  if (named !== undefined) confirmCalls(step, named.number, calledInMs, named.row.id);
}

/** Was there a start to be cancelled? */
export function cancelStart(step: Step, row: LimitRow, number: number): boolean {
  const start = step.sql(FIND).get(number) as Start | undefined;
  if (start === undefined || start.spent === EVERYTHING) return false;
  change(step, row, start, { n: 0, spent: EVERYTHING });
  windowFreed(step, row);
  return true;
}

/** The start of a permit, as its token says. */
export interface PermitStart extends NamedStart {
  /** When it was. */
  readonly at: number;
  /** Until when it may be corrected, though it may have left every window; 0: for as long as something is held. */
  readonly until: number;
}

/** Has it ended? */
export function isEnded(step: Step, number: number): boolean {
  return step.sql(FIND).get(-number) !== undefined;
}

/** It has ended. It stays counted, and may be corrected while a window sees it. */
export function endStart(step: Step, row: LimitRow, { number, at, until }: PermitStart): void {
  if (step.sql(END).run(until, number).changes !== 0 || until <= step.now) return;
  // Its row is gone already, and it would pass for one that goes on.
  step.sql(ENDED).run(row.id, at, until, -number);
}

/**
 * The last word holds. Inside the window its own entry changes; what becomes known after it has expired is charged from now
 * on, and what has expired is not given back. `until`: until when the row of a permit is kept, with all that was charged for it.
 */
export function settleStart(
  step: Step,
  row: LimitRow,
  { number, reserved }: NamedStart,
  used: number,
  until?: number,
): void {
  const start = (step.sql(FIND).get(number) ?? step.sql(FIND).get(-number)) as Start | undefined;
  if (start === undefined) {
    if (used <= reserved) return;
    recordNamed(step, row, used - reserved, number, reserved, until);
    chargeMore(step, row, used - reserved);
  } else if (start.spent === EVERYTHING) {
    return;
  } else if (step.now - start.at < row.longest) {
    const n = Math.max(0, used - start.spent);
    change(step, row, start, { n, since: Math.max(start.since, until ?? 0) });
    if (n < start.n) windowFreed(step, row);
    else chargeMore(step, row, n - start.n);
  } else if (start.token > 0) {
    // Of a start without a permit only what it reserved is remembered, as if its row were gone already.
    const spent = until === undefined && start.spent === 0 ? reserved : start.spent + start.n;
    if (used <= spent) return;
    change(step, row, start, { at: step.now, n: used - spent, spent, since: Math.max(step.now, until ?? 0) });
    chargeMore(step, row, used - spent);
  }
}

function change(step: Step, row: LimitRow, start: Start, to: Partial<Start>): void {
  const { at, since, n, spent } = { ...start, ...to };
  step.sql(CHANGE).run(at, n, at, since, n, spent, start.seq);
  shiftTotal(step, row, start.at, -start.n);
  shiftTotal(step, row, at, n);
}

/** Was this number ever given? */
export function isIssued(step: Step, number: number): boolean {
  return number > 0 && number <= step.sequence;
}

/** What a token says, if it was given under this name since it was last cleared. */
function read(step: Step, name: string, token: string): ({ readonly row: LimitRow } & NamedStart) | undefined {
  if (typeof token !== "string") return undefined;
  const [limit, number = Number.NaN, reserved = Number.NaN] = token.split(".").map(Number);
  const row = findLimit(step, name);
  if (row === undefined || row.id !== limit || !(reserved >= 0) || !isIssued(step, number)) return undefined;
  return { row, number, reserved };
}
