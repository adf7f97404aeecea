import { type KeyState, newKeyState } from "../../../limits/key-state.ts";
import { type LimitRule, quotaOf } from "../../../limits/rule.ts";
import { type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { InspectedKey } from "../../../storage/inspected-key.ts";

/** What is kept of a limit, for one group or for all, as `seen_limit` tells it. */
export interface SeenLimit {
  /** By the clock of the storage; not before anything that is known of the limit. */
  readonly now: number;
  readonly row: LimitRow | null;
  /** How much of the window is in use; 0 without one. */
  readonly used: number;
  /** Starts that leave the window first, and what they count for: as many as are needed. */
  readonly leaving: readonly (readonly [at: number, n: number])[];
  readonly slots: number;
  readonly probes: number;
  readonly until: number | null;
}

/** A row of `limits`, as far as it matters here. */
interface LimitRow {
  readonly latest_at: number | null;
  /** The latest instant at which the latest start can have been called, and the number of the grant that may still lower it. */
  readonly called_at: number | null;
  readonly called_by: number | null;
  /** How long the latest call took that was confirmed. */
  readonly called_in: number;
  readonly pause_until: number | null;
  readonly remaining: number | null;
  readonly remaining_until: number | null;
  readonly failures: number;
  readonly open_until: number | null;
  readonly forgotten_at: number | null;
}

/** One key of a limit, as it was seen. */
export function seenKey(rule: LimitRule, group: string | null, seen: SeenLimit): InspectedKey {
  const { slots, probes, until, used, now } = seen;
  return {
    rule,
    group,
    quota: quotaOf(rule, group),
    keyState: stateOf(seen.row),
    slots: { slots, probes, expiresIn: until === null ? WHEN_RELEASED : until - now },
    used,
    now,
    windowWait: (max, windowMs, weight) => windowWait(seen, max, windowMs, weight),
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
    heldUntil: row.pause_until,
    remaining: row.remaining,
    remainingUntil: row.remaining_until,
    failures: row.failures,
    openUntil: row.open_until,
  };
}

/** The arithmetic of `limits/window.ts` on what was seen. */
function windowWait(seen: SeenLimit, max: number, windowMs: number, weight: number): Wait {
  const { row, used, now, leaving } = seen;
  const excess = used + weight - max;
  if (row === null) return excess <= 0 ? 0 : windowMs;
  const blind = row.forgotten_at === null ? 0 : Math.max(0, windowMs - (now - row.forgotten_at));
  if (excess <= 0) return blind;
  let left = excess;
  for (const [at, n] of leaving) {
    left -= n;
    if (left <= 0) return Math.max(blind, windowMs - (now - at));
  }
  return Math.max(blind, windowMs);
}
