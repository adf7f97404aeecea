import type { Step } from "./step.ts";
import { findLimit, type LimitRow, recordNamed } from "./windows.ts";

/**
 * A token names one start: the name it is counted under, its number, and what was reserved, for that is forgotten once the
 * start has left every window.
 */
export const tokenOf = (limit: number, number: number, reserved: number): string => `${limit}.${number}.${reserved}`;

const FIND = "SELECT seq, at, n, spent FROM sluice_starts WHERE token = ?";
const CHANGE = "UPDATE sluice_starts SET at = ?, since = ?, n = ?, spent = ? WHERE seq = ?";
const ISSUED = "SELECT sequence FROM sluice_meta";

/** Charged for a start that was cancelled: more than anybody can ever settle for. */
const EVERYTHING = Number.MAX_VALUE;

interface Start {
  readonly seq: number;
  readonly at: number;
  readonly n: number;
  readonly spent: number;
}

/** As if the start had never been. */
export function cancelNamed(step: Step, name: string, token: string): void {
  const named = read(step, name, token);
  const start = named && (step.sql(FIND).get(named.number) as Start | undefined);
  if (start === undefined) return;
  step.sql(CHANGE).run(start.at, start.at, 0, EVERYTHING, start.seq);
  step.everybody = true;
}

/**
 * What the start really used, the last word holds. Inside the window its own entry changes; what becomes known after it has
 * expired is charged from now on, and what has expired is not given back.
 */
export function settleNamed(step: Step, name: string, token: string, used: number): void {
  const named = read(step, name, token);
  if (named === undefined) return;
  const { row, number, reserved } = named;
  const start = step.sql(FIND).get(number) as Start | undefined;
  const at = Math.max(step.now, row.newest ?? step.now);
  if (start === undefined) {
    if (used > reserved) recordNamed(step, row, used - reserved, number, reserved);
  } else if (step.now - start.at < row.longest) {
    step.sql(CHANGE).run(start.at, start.at, Math.max(0, used - start.spent), start.spent, start.seq);
  } else {
    // Of a start that has left the window only what it reserved is remembered, as if its row were gone already.
    const spent = start.spent === 0 ? reserved : start.spent + start.n;
    if (used > spent) step.sql(CHANGE).run(at, at, used - spent, spent, start.seq);
  }
  step.everybody = true;
}

/** What a token says, if it was given under this name since it was last cleared. */
function read(
  step: Step,
  name: string,
  token: string,
): { readonly row: LimitRow; readonly number: number; readonly reserved: number } | undefined {
  if (typeof token !== "string") return undefined;
  const [limit, number = Number.NaN, reserved = Number.NaN] = token.split(".").map(Number);
  const row = findLimit(step, name);
  if (row === undefined || row.id !== limit || !(number > 0) || !(reserved >= 0)) return undefined;
  const { sequence } = step.sql(ISSUED).get() as { readonly sequence: number };
  return number <= sequence ? { row, number, reserved } : undefined;
}
