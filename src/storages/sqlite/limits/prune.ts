import { isKeyIdle } from "../../../limits/key-state.ts";
import { quotaOf } from "../../../limits/rule.ts";
import { keyStateOf, type LimitRow, limitById } from "./limit-row.ts";
import { groupOf } from "./groups.ts";
import type { Step } from "../step.ts";
import { hasSlots } from "./slots.ts";
import { settleTotal } from "./totals.ts";

/** How much is deleted in one step. */
const STEP = 500;
const LIMITS = 100;

/** A name that is not used is kept for so long: a longer window is unlikely to be asked for then. */
const REMEMBERED_MS = 86_400_000;

const RIPE = `SELECT id FROM sluice_limits WHERE prune_at <= ? ORDER BY prune_at LIMIT ${LIMITS}`;
// A start of a permit that has slots may still be corrected; of others `since` says until when (tokens.ts).
const OLD = `SELECT seq, at FROM sluice_starts WHERE limit_id = ? AND at <= ? AND (claim IS NULL OR at <= ?)
  AND (token IS NULL OR (since <= ?
    AND NOT EXISTS (SELECT 1 FROM sluice_slots WHERE sluice_slots.token = sluice_starts.token)))
  ORDER BY at, seq LIMIT +?`;
const DELETE = "DELETE FROM sluice_starts WHERE seq = ?";
const FORGET = `UPDATE sluice_limits SET prune_at = ?, forgotten_at = max(coalesce(forgotten_at, ?), ?) WHERE id = ?`;
const LATER = "UPDATE sluice_limits SET prune_at = ? WHERE id = ?";
const OLDEST = "SELECT min(at) AS at FROM sluice_starts WHERE limit_id = ?";
const NEWEST = "SELECT max(at) AS at FROM sluice_starts WHERE limit_id = ?";
const UNCONFIRMED = "SELECT 1 FROM sluice_starts WHERE limit_id = ? AND claim IS NOT NULL AND at > ? LIMIT 1";
const DROP = "DELETE FROM sluice_limits WHERE id = ?";
const FORGET_ALL = "DELETE FROM sluice_starts WHERE limit_id = ?";

/** A start that was not confirmed is known for so long: a call that was too late may still be confirmed. */
const CONFIRMED_MS = 3_600_000;

/** Is there anything that `pruneLimits` would look at? */
export function isAnyRipe(step: Step): boolean {
  return step.sql(RIPE).get(step.now) !== undefined;
}

/** Deletes starts that no window can see, and names that are not used. Answers how many rows, and whether there are more. */
export function pruneLimits(step: Step): { readonly deleted: number; readonly more: boolean } {
  const ripe = step.sql(RIPE).all(step.now) as { readonly id: number }[];
  let deleted = 0;
  for (const { id } of ripe) {
    if (deleted >= STEP) return { deleted, more: true };
    deleted += pruneStarts(step, id);
  }
  return { deleted, more: ripe.length === LIMITS };
}

/** The same for one name, at a write: there may be no worker that sweeps. */
export function pruneStarts(step: Step, id: number): number {
  const row = limitById(step, id);
  if (row === undefined) return 0;
  return row.grp === "" ? pruneLimit(step, row) : pruneGroup(step, row);
}

function pruneLimit(step: Step, row: LimitRow): number {
  const { now } = step;
  const { id, longest } = row;
  settleTotal(step, row);
  const old = oldStarts(step, row);
  for (const { seq } of old) step.sql(DELETE).run(seq);
  const newest = old.at(-1)?.at;
  const { at: oldest } = step.sql(OLDEST).get(id) as { at: number | null };
  if (newest !== undefined) {
    const again = old.length === STEP ? now : nextTime(now, oldest, longest);
    step.sql(FORGET).run(again, newest, newest, id);
    return old.length;
  }
  if (oldest !== null || !isIdle(step, row)) {
    step.sql(LATER).run(Math.max(nextTime(now, oldest, longest), row.held_until ?? 0), id);
    return 0;
  }
  const droppedAt = Math.max(row.forgotten_at ?? 0, row.held_until ?? 0, row.latest_at ?? 0) + REMEMBERED_MS + longest;
  if (droppedAt > now) {
    step.sql(LATER).run(droppedAt, id);
    return 0;
  }
  step.sql(DROP).run(id);
  return 1;
}

/** There may be very many groups: what does not count any more is dropped at once, and whole. */
function pruneGroup(step: Step, row: LimitRow): number {
  const { now } = step;
  const { id, longest } = row;
  const { at: newest } = step.sql(NEWEST).get(id) as { readonly at: number | null };
  const confirmed = step.sql(UNCONFIRMED).get(id, now - longest - CONFIRMED_MS) === undefined;
  if ((newest === null || now - newest >= longest) && confirmed && isIdle(step, row)) {
    const { changes } = step.sql(FORGET_ALL).run(id);
    step.sql(DROP).run(id);
    // A later step does not miss what was dropped: its time is not before this.
    step.rememberTime();
    return Number(changes) + 1;
  }
  settleTotal(step, row);
  const old = oldStarts(step, row);
  for (const { seq } of old) step.sql(DELETE).run(seq);
  const forgotten = old.at(-1)?.at;
  if (forgotten !== undefined) step.sql(FORGET).run(now, forgotten, forgotten, id);
  const again = old.length === STEP ? now : Math.max(nextTime(now, null, longest), (newest ?? 0) + longest);
  step.sql(LATER).run(Math.max(again, row.held_until ?? 0), id);
  return old.length;
}

/** Starts that no window can see. A little more than the longest one: a step at the very end of it finds it undisturbed. */
function oldStarts(step: Step, { id, longest }: LimitRow): readonly { readonly seq: number; readonly at: number }[] {
  const { now } = step;
  return step.sql(OLD).all(id, now - longest - 1, now - longest - CONFIRMED_MS, now, STEP) as {
    seq: number;
    at: number;
  }[];
}

/** Has it no slots in use, and nothing in its way? */
function isIdle(step: Step, row: LimitRow): boolean {
  const rule = step.rules.byName.get(row.name);
  const everyMs = rule === undefined ? null : quotaOf(rule, groupOf(row.grp)).everyMs;
  return isKeyIdle(keyStateOf(row), everyMs, step.now) && !hasSlots(step, row.id);
}

/** Busy names are looked at now and then, not at every turn. */
function nextTime(now: number, oldest: number | null, longest: number): number {
  return Math.max(now + 1_000 + longest / 10, oldest === null ? 0 : oldest + longest + 1);
}
