import { WHEN_RELEASED, type Wait } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";
import { waitUntil } from "./gates.ts";

/*
 * Jobs that are first in their lane and too heavy for what is left of a limit. Each lane stands at a gate of its own. Others of
 * the same or a lower priority wait with it.
 */

/** When its instant has come a heavy one is still waited for, so long: whoever claims it is on the way. */
const ON_ITS_WAY_MS = 100;

// One that is not there any more, or is paused, is waited for by nobody.
const HEAVY = `SELECT one.id, one.priority, min(gate.until, gate.heavy_until) AS until, one.heavy_since AS since
  FROM sluice_gates AS gate CROSS JOIN sluice_lanes AS one ON one.id = gate.front
  WHERE gate.name = ? AND gate.grp = ? AND gate.front > 0 AND min(gate.until, gate.heavy_until) > ? - ${ON_ITS_WAY_MS}
    AND EXISTS (SELECT 1 FROM sluice_jobs WHERE seq = one.heavy AND lane = one.id AND state = 'waiting')
    AND NOT EXISTS (SELECT 1 FROM sluice_pauses
      WHERE sluice_pauses.queue = one.queue AND sluice_pauses.type IN ('', ':' || one.type))`;
// Lanes that have another job in front than the one that was looked at, at the gate of a limit that weighs.
const HEAD =
  "SELECT seq FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1";
const OTHER_HEADS = `SELECT sluice_lanes.id, gate.id AS gate, gate.name, gate.grp, gate.queue, gate.front
  FROM json_each(?) AS changed CROSS JOIN sluice_lanes ON sluice_lanes.id = changed.value
  CROSS JOIN sluice_gates AS gate ON gate.id = sluice_lanes.gate
  WHERE gate.name IN (SELECT value FROM json_each(?)) 
    AND iif(gate.front = 0, gate.until IS NOT NULL, sluice_lanes.heavy IS NOT (${HEAD}))`;

/** A heavy one that waits for a limit. */
export interface HeavyHead {
  /** Its lane. */
  readonly id: number;
  readonly priority: number;
  readonly until: number;
  readonly since: number;
}

/** Who asks: of which lane, and since when it waits for the limit itself. */
export type Asking = Pick<HeavyHead, "id" | "since">;

/** Those that wait for this state of a limit. */
export function heavyHeads(step: Step, name: string, grp: string): readonly HeavyHead[] {
  return step.sql(HEAVY).all(name, grp, step.now) as HeavyHead[];
}

/**
 * How long somebody of this priority has to wait for them; 0: not at all. Of the same priority those come first who have
 * waited for longer. `promptly`: whoever claims them is there.
 */
export function waitForHeavy(
  step: Step,
  heads: readonly HeavyHead[],
  priority: number,
  asking: Asking | undefined,
  promptly = false,
): Wait {
  const { id: own, since } = asking ?? { id: 0, since: Number.POSITIVE_INFINITY };
  let longest: Wait = 0;
  for (const head of heads) {
    if (head.id === own || head.priority < priority) continue;
    if (head.priority === priority && (head.since > since || (head.since === since && head.id > own))) continue;
    const wait = waitUntil(step, head.until);
    const moment = promptly ? 0 : ON_ITS_WAY_MS;
    longest = Math.max(longest, wait === WHEN_RELEASED || wait > 0 ? wait : head.until + moment - step.now);
  }
  return longest;
}

/** A lane at the gate of a limit that weighs, with another job in front. */
export interface OtherHead {
  readonly id: number;
  readonly gate: number;
  readonly name: string;
  readonly grp: string;
  readonly queue: string;
  /** Not 0: the gate is for the lane alone. */
  readonly front: number;
}

/** Jobs have come into these lanes in front of others, or left them: those where another one is in front now. */
export function otherHeads(step: Step, lanes: Iterable<number>): readonly OtherHead[] {
  return step.sql(OTHER_HEADS).all(JSON.stringify([...lanes]), JSON.stringify(step.rules.weighing)) as OtherHead[];
}
