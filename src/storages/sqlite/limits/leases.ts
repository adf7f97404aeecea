import { countFailure, countSuccess } from "../../../limits/key-state.ts";
import { type LimitRow, limitById } from "../limit-row.ts";
import type { Step } from "../step.ts";
import { noteHeld, release, windowFreed } from "./freed.ts";
import { isAnyAwaited } from "./gates.ts";
import { keyStateOf, saveKeyState } from "./key-state.ts";
import type { EndedHold } from "./holds.ts";

const ANY = "SELECT 1 FROM sluice_holds LIMIT 1";
const END_ONE_PLAINLY = "DELETE FROM sluice_holds WHERE token = ?";
const END = `${END_ONE_PLAINLY} RETURNING limit_id, slots, at`;
const END_PLAINLY = "DELETE FROM sluice_holds WHERE token IN (SELECT value FROM json_each(?))";
const END_MANY = `${END_PLAINLY} RETURNING limit_id, slots, at`;

/** How it went: well, not well (with these names of the error), or unknown. */
export type Ending = "well" | readonly string[] | undefined;

/** The leases of these tokens have ended: what they held is given back, and breakers hear how it went. */
export function endLeases(step: Step, tokens: readonly number[], ending: Ending): void {
  // Without rules there is nothing to hold.
  if (tokens.length === 0 || step.rules.inForce.length === 0) return;
  if (step.sql(ANY).get() === undefined) return;
  // Measured: half the work, if no rule needs to know which slots were released.
  if (step.rules.holdsPlainly && !isAnyAwaited(step)) {
    noteHeld(step);
    if (tokens.length === 1) step.sql(END_ONE_PLAINLY).run(tokens[0]!);
    else step.sql(END_PLAINLY).run(JSON.stringify(tokens));
    return;
  }
  const ended = (
    tokens.length === 1 ? step.sql(END).all(tokens[0]!) : step.sql(END_MANY).all(JSON.stringify(tokens))
  ) as EndedHold[];
  if (ended.length === 0) return;
  release(step, ended);
  if (step.rules.breaks && ending !== undefined) tellBreakers(step, ended, ending);
}

function tellBreakers(step: Step, ended: readonly EndedHold[], ending: "well" | readonly string[]): void {
  const starts = new Map<number, number[]>();
  for (const { limit_id: id, at } of ended) {
    const own = starts.get(id);
    if (own === undefined) starts.set(id, [at]);
    else own.push(at);
  }
  for (const [id, at] of starts) {
    const row = limitById(step, id);
    if (row !== undefined) tellBreaker(step, row, at, ending);
  }
}

function tellBreaker(step: Step, row: LimitRow, starts: readonly number[], ending: "well" | readonly string[]): void {
  const breaker = step.rules.byName.get(row.name)?.breaker;
  if (breaker === undefined || breaker === null) return;
  const keyState = keyStateOf(row);
  let closed = false;
  for (const at of starts) {
    if (ending === "well") closed = countSuccess(keyState, at) || closed;
    else countFailure(keyState, breaker, ending, at, step.now);
  }
  if (keyState.failures === row.failures && keyState.openUntil === row.open_until) return;
  saveKeyState(step, row.id, keyState);
  if (closed) windowFreed(step, row);
}
