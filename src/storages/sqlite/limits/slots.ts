import type { SlotsInUse } from "../../../limits/key-state.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";

const IN_USE = `SELECT total(slots) AS slots, total(at >= ?) AS probes, min(until) AS until
  FROM sluice_slots WHERE limit_id = ? AND (until IS NULL OR until > ?)`;
const ANY = "SELECT 1 FROM sluice_slots WHERE limit_id = ? LIMIT 1";
const TAKE = "INSERT INTO sluice_slots (limit_id, token, slots, at, until) VALUES (?, ?, ?, ?, ?)";
// For a list of tokens. (OR FAIL: jobs/starting.ts.)
const TAKE_MANY = `INSERT OR FAIL INTO sluice_slots (limit_id, token, slots, at)
  SELECT ?, value, ?, ? FROM json_each(?)`;

/** Later than any start: nothing is a probe. */
const NO_PROBES = Number.MAX_VALUE;

/** Slots of one limit that one start has, or had. */
export interface SlotsRow {
  readonly limit_id: number;
  readonly slots: number;
  readonly at: number;
}

/** The slots of a limit that are in use. `openUntil`: since when starts are probes. */
export function slotsInUse(step: Step, limit: number, openUntil: number | null): SlotsInUse {
  const { slots, probes, until } = step.sql(IN_USE).get(openUntil ?? NO_PROBES, limit, step.now) as {
    readonly slots: number;
    readonly probes: number;
    readonly until: number | null;
  };
  return { slots, probes, expiresIn: until === null ? WHEN_RELEASED : until - step.now };
}

/** Does any start have slots of this limit, or keep its group in mind? */
export function hasSlots(step: Step, limit: number): boolean {
  return step.sql(ANY).get(limit) !== undefined;
}

/** A permit takes slots until an instant. */
export function takeSlots(step: Step, limit: number, token: number, slots: number, until: number): void {
  step.sql(TAKE).run(limit, token, slots, step.now, until);
}

/** Jobs with these tokens take so many slots each, until their lease ends. */
export function takeJobSlots(step: Step, limit: number, slots: number, tokens: readonly number[]): void {
  if (tokens.length === 1) step.sql(TAKE).run(limit, tokens[0]!, slots, step.now, null);
  else step.sql(TAKE_MANY).run(limit, slots, step.now, JSON.stringify(tokens));
}
