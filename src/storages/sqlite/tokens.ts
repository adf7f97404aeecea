import { findLimit, type LimitRow } from "./limit-row.ts";
import { windowFreed } from "./limits/freed.ts";
import type { Step } from "./step.ts";
import { shiftTotal } from "./totals.ts";
import { recordNamed } from "./windows.ts";

/**
 * A token names one start: the name it is counted under, its number, and what was reserved, for that is forgotten once the
 * start has left every window.
 */
export const tokenOf = (limit: number, number: number, reserved: number): string => `${limit}.${number}.${reserved}`;

const FIND = "SELECT seq, at, n, spent FROM sluice_starts WHERE token = ?";
const CHANGE = "UPDATE sluice_starts SET at = ?, since = ?, n = ?, spent = ? WHERE seq = ?";
const FORGET = "UPDATE sluice_starts SET token = NULL WHERE token = ?";
const ISSUED = "SELECT sequence FROM sluice_meta";

/** Charged for a start that was cancelled: more than anybody can ever settle for. */
const EVERYTHING = Number.MAX_VALUE;

interface Start {
  readonly seq: number;
  readonly at: number;
  readonly n: number;
  readonly spent: number;
}

/** A start as its token tells it. */
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

/** Was there a start to be cancelled? */
export function cancelStart(step: Step, row: LimitRow, number: number): boolean {
  const start = step.sql(FIND).get(number) as Start | undefined;
  if (start === undefined || start.spent === EVERYTHING) return false;
  change(step, row, start, { at: start.at, n: 0, spent: EVERYTHING });
  windowFreed(step, row);
  return true;
}

/** The start has ended: its token names nothing any more. It stays counted. */
export function forgetStart(step: Step, number: number): void {
  step.sql(FORGET).run(number);
}

/**
 * The last word holds. Inside the window its own entry changes; what becomes known after it has expired is charged from now
 * on, and what has expired is not given back.
 */
function settleStart(step: Step, row: LimitRow, { number, reserved }: NamedStart, used: number): void {
  const start = step.sql(FIND).get(number) as Start | undefined;
  if (start === undefined) {
    if (used > reserved) recordNamed(step, row, used - reserved, number, reserved);
    return;
  }
  if (step.now - start.at < row.longest) {
    change(step, row, start, { at: start.at, n: Math.max(0, used - start.spent), spent: start.spent });
  } else {
    // Of a start that has left the window only what it reserved is remembered, as if its row were gone already.
    charge(step, row, start, used, start.spent === 0 ? reserved : start.spent + start.n);
  }
  windowFreed(step, row);
}

/** The same for a start that is under way: all that was charged for it is remembered. Whatever is not named has ended. */
export function settleHeld(step: Step, row: LimitRow, number: number, used: number): void {
  const start = step.sql(FIND).get(number) as Start | undefined;
  if (start === undefined || start.spent === EVERYTHING) return;
  if (step.now - start.at < row.longest) {
    change(step, row, start, { at: start.at, n: Math.max(0, used - start.spent), spent: start.spent });
    if (used - start.spent < start.n) windowFreed(step, row);
  } else {
    charge(step, row, start, used, start.spent + start.n);
  }
}

/** So much was charged and has left every window: what is more counts from now on. */
function charge(step: Step, row: LimitRow, start: Start, used: number, spent: number): void {
  const at = Math.max(step.now, row.newest ?? step.now);
  if (used > spent) change(step, row, start, { at, n: used - spent, spent });
}

function change(step: Step, row: LimitRow, start: Start, to: Omit<Start, "seq">): void {
  step.sql(CHANGE).run(to.at, to.at, to.n, to.spent, start.seq);
  shiftTotal(step, row, start.at, -start.n);
  shiftTotal(step, row, to.at, to.n);
}

/** Was this number ever given? */
export function isIssued(step: Step, number: number): boolean {
  return number > 0 && number <= (step.sql(ISSUED).get() as { readonly sequence: number }).sequence;
}

/** What a token says, if it was given under this name since it was last cleared. */
function read(step: Step, name: string, token: string): ({ readonly row: LimitRow } & NamedStart) | undefined {
  if (typeof token !== "string") return undefined;
  const [limit, number = Number.NaN, reserved = Number.NaN] = token.split(".").map(Number);
  const row = findLimit(step, name);
  if (row === undefined || row.id !== limit || !(reserved >= 0) || !isIssued(step, number)) return undefined;
  return { row, number, reserved };
}
