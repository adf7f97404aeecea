import { type SlotsInUse, NO_SLOTS } from "../../../limits/key-state.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";

const HELD = `SELECT total(slots) AS slots, total(at >= ?) AS probes, min(until) AS until
  FROM sluice_holds WHERE limit_id = ? AND (until IS NULL OR until > ?)`;
const ONE = "INSERT INTO sluice_holds (limit_id, token, slots, at, until) VALUES (?, ?, ?, ?, ?)";
// For a list of tokens. (OR FAIL: jobs/claim.ts.)
const MANY = `INSERT OR FAIL INTO sluice_holds (limit_id, token, slots, at)
  SELECT ?, value, ?, ? FROM json_each(?)`;

/** Later than any start: nothing is a probe. */
const NO_PROBES = Number.MAX_VALUE;

/** A hold that has ended. */
export interface EndedHold {
  readonly limit_id: number;
  readonly slots: number;
  readonly at: number;
}

/** What is held of a limit. `openUntil`: since when starts are probes. */
export function heldOf(step: Step, limit: number | undefined, openUntil: number | null): SlotsInUse {
  if (limit === undefined) return NO_SLOTS;
  const { slots, probes, until } = step.sql(HELD).get(openUntil ?? NO_PROBES, limit, step.now) as {
    readonly slots: number;
    readonly probes: number;
    readonly until: number | null;
  };
  return { slots, probes, expiresIn: until === null ? WHEN_RELEASED : until - step.now };
}

/** A permit holds so much, until an instant. */
export function hold(step: Step, limit: number, token: number, slots: number, until: number): void {
  step.sql(ONE).run(limit, token, slots, step.now, until);
}

/** Jobs with these tokens hold so much each, until their lease ends. */
export function holdMany(step: Step, limit: number, slots: number, tokens: readonly number[]): void {
  if (tokens.length === 1) step.sql(ONE).run(limit, tokens[0]!, slots, step.now, null);
  else step.sql(MANY).run(limit, slots, step.now, JSON.stringify(tokens));
}
