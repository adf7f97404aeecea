import type { Wait } from "../../../limits/wait.ts";
import { type HeavyHead, isOver, untilGiven } from "../../../planner/heavy-heads.ts";
import { weightsOf } from "../jobs/record.ts";
import type { Step } from "../step.ts";
import { instantOfGate, type OfType, untilOf } from "./gates.ts";

/*
 * Heavy heads (`planner/heavy-heads.ts`). The lane of each stands at a gate of its own. Whether that is open decides who looks at the lane;
 * `heavy_until`, for how long the head reserves what it waits for.
 */

// Of those that are still there, and not paused.
const HEAVY = `SELECT one.id, one.queue, one.type, one.priority, one.heavy_since AS since, gate.id AS gate, gate.until AS opens,
    gate.heavy_until AS until, job.weights
  FROM sluice_gates AS gate CROSS JOIN sluice_lanes AS one ON one.id = gate.front
    CROSS JOIN sluice_jobs AS job ON job.seq = one.heavy AND job.lane = one.id AND job.state = 'waiting'
  WHERE gate.name = ? AND gate.grp = ? AND gate.front > 0 AND gate.heavy_until IS NOT NULL
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

const FITS_AT = "UPDATE sluice_gates SET until = ?, heavy_until = ? WHERE id = ?";

// Open gates and closed ones have an index each.
const OF_HEADS = "SELECT name, grp FROM sluice_gates WHERE queue = ? AND type = ifnull(?, type) AND front > 0";
const RESERVED = `${OF_HEADS} AND until IS NULL UNION ALL ${OF_HEADS} AND until IS NOT NULL`;

interface Reserved {
  readonly name: string;
  readonly grp: string;
}

/** A head as it is kept. */
export interface HeavyRow extends HeavyHead, OfType {
  readonly gate: number;
  until: number;
  /** When its gate opens: earlier than it fits, if something was given back then; null: it is open. */
  readonly opens: number | null;
  readonly weights: string | null;
}

/**
 * Those of this key. `fits`: how long a job with these weights waits for it. `writes`: the step may write when a head fits into what was
 * given back, so that its grace ends once for all.
 */
export function heavyHeads(
  step: Step,
  name: string,
  grp: string,
  fits: (weights: Readonly<Record<string, number>> | null) => Wait,
  writes: boolean,
): readonly HeavyRow[] {
  const heads = step.sql(HEAVY).all(name, grp) as HeavyRow[];
  for (const head of heads) {
    const { opens } = head;
    const isGiven = opens !== null && opens < head.until;
    head.until = instantOfGate(head.until);
    if (!isGiven) continue;
    head.until = untilGiven(head, opens, fits(weightsOf(head)), step.now);
    const until = untilOf(step, head.until - step.now);
    if (writes) step.sql(FITS_AT).run(until, until, head.gate);
  }
  return heads.filter((head) => !isOver(head, step.now));
}

/** The keys that heads of the queue, or of one type in it, have reserved. */
export function reservedBy(step: Step, queue: string, type: string | null): Iterable<Reserved> {
  const rows = step.sql(RESERVED).all(queue, type, queue, type) as Reserved[];
  return new Map(rows.map((key) => [`${key.name.length} ${key.name}${key.grp}`, key])).values();
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
