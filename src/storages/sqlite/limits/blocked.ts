import { type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Step } from "../step.ts";
import { groupOf, laneGrpOf } from "./groups.ts";

/*
 * Lanes whose group is full, or whose first job is too heavy for what is left of a limit, are not ready, so no claim sees
 * them: until an instant, or until something is given back. Whoever is not before a heavy one waits with it.
 */

/** Stands for "until something is given back". */
const RELEASED = 1e18;

/** How many lanes come ready in one step. */
const STEP = 1_000;

/** When its instant has come a heavy one is still waited for, so long: whoever claims it is on the way. */
const ON_ITS_WAY_MS = 100;

const BLOCKED = "waiting > 0 AND blocked_until IS NOT NULL";
// A list of [lane, until when, by which limit, the job that is too heavy]. Whoever waited already keeps his place.
const BLOCK = `UPDATE sluice_lanes SET blocked_until = blocked.value ->> 1, blocked_by = blocked.value ->> 2,
  heavy = blocked.value ->> 3,
  heavy_since = iif(heavy IS blocked.value ->> 3 AND blocked_by IS blocked.value ->> 2, heavy_since, ?)
  FROM json_each(?) AS blocked WHERE sluice_lanes.id = blocked.value ->> 0`;
// One that is not there any more, or is paused, is waited for by nobody.
const HEAVY = `SELECT id, priority, blocked_until AS until, heavy_since AS since
  FROM sluice_lanes WHERE blocked_until IS NOT NULL AND blocked_by = ? AND heavy IS NOT NULL
    AND blocked_until > ? - ${ON_ITS_WAY_MS}
    AND EXISTS (SELECT 1 FROM sluice_jobs WHERE seq = heavy AND lane = sluice_lanes.id AND state = 'waiting')
    AND NOT EXISTS (SELECT 1 FROM sluice_pauses
      WHERE sluice_pauses.queue = sluice_lanes.queue AND sluice_pauses.type IN ('', ':' || sluice_lanes.type))`;
const HEAVY_OF_GROUP = `${HEAVY} AND grp = ?`;
const BEHIND = `UPDATE sluice_lanes SET blocked_until = NULL WHERE blocked_until IS NOT NULL AND blocked_by = ?
  AND heavy IS NULL`;
const BEHIND_ALL = `${BEHIND} RETURNING queue, type`;
const BEHIND_GROUP = `${BEHIND} AND grp = ? RETURNING queue, type`;
const AWAITED = `SELECT 1 FROM sluice_lanes WHERE blocked_until IS NOT NULL
  AND blocked_by IN (SELECT value FROM json_each(?)) LIMIT 1`;
const RIPE = `SELECT id FROM sluice_lanes WHERE queue = ? AND type = ? AND ${BLOCKED} AND blocked_until <= ?
  ORDER BY blocked_until LIMIT +?`;
const READY = "UPDATE sluice_lanes SET blocked_until = NULL WHERE id IN (SELECT value FROM json_each(?))";
const ALL = "UPDATE sluice_lanes SET blocked_until = NULL WHERE blocked_until IS NOT NULL AND blocked_by = ?";
// They are known to wait until a claim looks at them: what was given back may be taken by somebody else before.
const AGAIN = `UPDATE sluice_lanes SET blocked_until = min(blocked_until, ?)
  WHERE blocked_until IS NOT NULL AND blocked_by = ?`;
const GROUPS_AGAIN = `${AGAIN} AND grp IN (SELECT value FROM json_each(?))`;
const HEAD =
  "SELECT seq FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1";
// Lanes that have another job in front than the one that was too heavy.
const OTHER_HEAD = `UPDATE sluice_lanes SET blocked_until = NULL WHERE id IN (SELECT value FROM json_each(?))
  AND blocked_until IS NOT NULL AND blocked_by IN (SELECT value FROM json_each(?)) AND heavy IS NOT (${HEAD})
  RETURNING queue, grp, blocked_by`;
const FIRST = `SELECT grp, blocked_until, blocked_by FROM sluice_lanes WHERE queue = ? AND type = ? AND ${BLOCKED}
  ORDER BY blocked_until LIMIT 1`;
const FIRST_TYPE = `SELECT type FROM sluice_lanes WHERE queue = ? AND ${BLOCKED} ORDER BY type LIMIT 1`;
const NEXT_TYPE = `SELECT type FROM sluice_lanes WHERE queue = ? AND type > ? AND ${BLOCKED} ORDER BY type LIMIT 1`;

/** A lane of which the group will have room first. */
export interface BlockedLane {
  readonly type: string;
  readonly group: string | null;
  /** The name of the limit that it waits for. */
  readonly by: string;
  readonly wait: Wait;
}

/** The types of a queue that have blocked lanes. */
export function blockedTypes(step: Step, queue: string): string[] {
  const types: string[] = [];
  let row = step.sql(FIRST_TYPE).get(queue) as { readonly type: string } | undefined;
  while (row !== undefined) {
    types.push(row.type);
    row = step.sql(NEXT_TYPE).get(queue, row.type) as { readonly type: string } | undefined;
  }
  return types;
}

/** The first of the blocked lanes of a type to have room; undefined: none is blocked. */
export function firstBlocked(step: Step, queue: string, type: string): BlockedLane | undefined {
  const row = step.sql(FIRST).get(queue, type) as First | undefined;
  if (row === undefined) return undefined;
  return { type, group: groupOf(row.grp), by: row.blocked_by ?? "", wait: waitUntil(step, row.blocked_until) };
}

interface First {
  readonly grp: string;
  readonly blocked_until: number;
  readonly blocked_by: string | null;
}

const waitUntil = (step: Step, until: number): Wait =>
  until >= RELEASED ? WHEN_RELEASED : Math.max(0, until - step.now);

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

/** Those that wait for this limit. `grp`: of a group, as lanes say it; null: all. */
export function heavyHeads(step: Step, name: string, grp: string | null): readonly HeavyHead[] {
  return (
    grp === null ? step.sql(HEAVY).all(name, step.now) : step.sql(HEAVY_OF_GROUP).all(name, step.now, grp)
  ) as HeavyHead[];
}

/**
 * How long somebody of this priority has to wait for them; 0: not at all. Of the same priority those come first who have
 * waited for longer. `promptly`: whoever claims them is there.
 */
export function waitForHeavy(
  { now }: Step,
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
    const moment = promptly ? 0 : ON_ITS_WAY_MS;
    const until = head.until >= RELEASED ? WHEN_RELEASED : head.until > now ? head.until : head.until + moment;
    longest = Math.max(longest, until - now);
  }
  return longest;
}

/** A heavy one has started: those who waited only for it may look again. */
export function unblockBehind(step: Step, name: string, grp: string | null): readonly OfType[] {
  return (grp === null ? step.sql(BEHIND_ALL).all(name) : step.sql(BEHIND_GROUP).all(name, grp)) as OfType[];
}

/** What a lane is of. */
export interface OfType {
  readonly queue: string;
  readonly type: string;
}

/** A lane that is not ready for so long, the name of the limit that it waits for, and the job that is too heavy for it. */
export interface Blocking {
  readonly id: number;
  readonly wait: Wait;
  readonly by: string;
  readonly heavy: number | null;
}

export function blockLanes(step: Step, lanes: readonly Blocking[]): void {
  const list = lanes.map(({ id, wait, by, heavy }) => {
    const until = wait === WHEN_RELEASED ? RELEASED : step.now + wait;
    return [id, until, by, heavy];
  });
  step.sql(BLOCK).run(step.now, JSON.stringify(list));
}

/** Lanes of these types whose instant has come are ready again, as many as are moved in one step. */
export function unblockRipe(step: Step, queue: string, types: readonly string[]): void {
  let left = STEP;
  for (const type of types) {
    const ripe = step.sql(RIPE).all(queue, type, step.now, left) as { readonly id: number }[];
    if (ripe.length === 0) continue;
    step.sql(READY).run(JSON.stringify(ripe.map(({ id }) => id)));
    left -= ripe.length;
    if (left === 0) return;
  }
}

/** Something of a limit was given back for these groups: whatever waited for it may look again. Was anything waiting? */
export function unblockGroups(step: Step, name: string, grps: Iterable<string>): boolean {
  const lanes = JSON.stringify(Array.from(grps, laneGrpOf));
  return Number(step.sql(GROUPS_AGAIN).run(step.now, name, lanes).changes) > 0;
}

/** The same of a limit that is not by group: only heavy ones wait for it in this way. */
export function unblockHeavy(step: Step, name: string): boolean {
  return Number(step.sql(AGAIN).run(step.now, name).changes) > 0;
}

/** Does a lane wait for one of the limits that weigh? */
export function isAnyAwaited(step: Step): boolean {
  const { weighing } = step.rules;
  return weighing.length > 0 && step.sql(AWAITED).get(JSON.stringify(weighing)) !== undefined;
}

/** The limit itself has changed. */
export function unblockAll(step: Step, name: string): void {
  step.sql(ALL).run(name);
}

/** Jobs have come into these lanes in front of others, or left them: where another one is in front now, it is looked at. */
export function unblockOtherHeads(step: Step, lanes: Iterable<number>): readonly Unblocked[] {
  return step.sql(OTHER_HEAD).all(JSON.stringify([...lanes]), JSON.stringify(step.rules.weighing)) as Unblocked[];
}

/** A lane that was blocked, by this limit. */
export interface Unblocked {
  readonly queue: string;
  readonly grp: string;
  readonly blocked_by: string;
}
