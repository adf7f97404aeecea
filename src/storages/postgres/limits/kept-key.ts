import { type KeyState, newKeyState } from "../../../limits/key-state.ts";
import { type LimitRule, quotaOf } from "../../../limits/rule.ts";
import { type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { InspectedKey } from "../../../storage/inspected-key.ts";

/** What is kept of a limit, for one group or for all, as `read_state` tells it. */
export interface KeptState {
  /** By the clock of the storage; not before anything that is known of the limit. */
  readonly now: number;
  readonly row: LimitRow | null;
  /** How much of the window is in use; 0 without one. */
  readonly used: number;
  /** Starts that leave the window first: when, and what they count for, as many as are needed. */
  readonly leaving: readonly (readonly [wait: number, n: number])[];
  readonly slots: number;
  readonly probes: number;
  /** When the first of the slots is released by itself; null: none is. */
  readonly expiresIn: number | null;
}

/** A row of `limits`, as far as it matters here. */
interface LimitRow {
  readonly latest_at: number | null;
  /** The latest instant at which the latest start can have been called, and the number of the grant that may still lower it. */
  readonly called_at: number | null;
  readonly called_by: number | null;
  /** How long the latest call took that was confirmed. */
  readonly called_in: number;
  readonly held_until: number | null;
  readonly remaining: number | null;
  readonly remaining_until: number | null;
  readonly failures: number;
  readonly open_until: number | null;
  readonly forgotten_at: number | null;
}

/** One key of a limit, as it is kept. */
export function keptKey(rule: LimitRule, group: string | null, kept: KeptState): InspectedKey {
  const { slots, probes, expiresIn, used, now } = kept;
  return {
    rule,
    group,
    quota: quotaOf(rule, group),
    keyState: stateOf(kept.row),
    slots: { slots, probes, expiresIn: expiresIn ?? WHEN_RELEASED },
    used,
    now,
    windowWait: (max, windowMs, weight) => windowWait(kept, max, windowMs, weight),
  };
}

/** The numbers beside the window. */
function stateOf(row: LimitRow | null): KeyState {
  if (row === null) return newKeyState();
  return {
    latestAt: row.latest_at,
    calledAt: row.called_at,
    calledBy: row.called_by,
    calledIn: row.called_in,
    heldUntil: row.held_until,
    remaining: row.remaining,
    remainingUntil: row.remaining_until,
    failures: row.failures,
    openUntil: row.open_until,
  };
}

/** The arithmetic of `limits/window.ts` on what is kept. */
function windowWait(kept: KeptState, max: number, windowMs: number, weight: number): Wait {
  const { row, used, now, leaving } = kept;
  const excess = used + weight - max;
  if (row === null) return excess <= 0 ? 0 : windowMs;
  const blind = row.forgotten_at === null ? 0 : Math.max(0, windowMs - (now - row.forgotten_at));
  if (excess <= 0) return blind;
  let left = excess;
  for (const [wait, n] of leaving) {
    left -= n;
    if (left <= 0) return Math.max(blind, wait);
  }
  return Math.max(blind, windowMs);
}
