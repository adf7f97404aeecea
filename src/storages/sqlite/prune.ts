import type { Step } from "./step.ts";

/** How much is deleted in one step. */
const STEP = 500;
const LIMITS = 100;

/** A name that is not used is remembered for so long: nobody is likely to ask for a longer window then. */
const REMEMBERED_MS = 86_400_000;

const RIPE = `SELECT id, longest, pause_until FROM sluice_limits WHERE prune_at <= ? ORDER BY prune_at LIMIT ${LIMITS}`;
const ONE = "SELECT id, longest, pause_until FROM sluice_limits WHERE id = ?";
const OLD = "SELECT seq, at FROM sluice_starts WHERE limit_id = ? AND at <= ? ORDER BY at, seq LIMIT +?";
const DELETE = "DELETE FROM sluice_starts WHERE seq = ?";
const FORGET = `UPDATE sluice_limits SET prune_at = ?, forgotten_at = max(coalesce(forgotten_at, ?), ?) WHERE id = ?`;
const LATER = "UPDATE sluice_limits SET prune_at = ? WHERE id = ?";
const OLDEST = "SELECT min(at) AS at FROM sluice_starts WHERE limit_id = ?";
const UNUSED = "SELECT forgotten_at FROM sluice_limits WHERE id = ?";
const DROP = "DELETE FROM sluice_limits WHERE id = ?";

interface Ripe {
  readonly id: number;
  readonly longest: number;
  readonly pause_until: number | null;
}

/** Is there anything that `pruneLimits` would look at? */
export function isAnyRipe(step: Step): boolean {
  return step.sql(RIPE).get(step.now) !== undefined;
}

/** Deletes starts that no window can see, and names that nobody uses. Answers how many rows, and whether there are more. */
export function pruneLimits(step: Step): { readonly deleted: number; readonly more: boolean } {
  const ripe = step.sql(RIPE).all(step.now) as Ripe[];
  let deleted = 0;
  for (const limit of ripe) {
    if (deleted >= STEP) return { deleted, more: true };
    deleted += pruneLimit(step, limit);
  }
  return { deleted, more: ripe.length === LIMITS };
}

/** The same for one name, for whoever writes to it without anybody sweeping. */
export function pruneStarts(step: Step, id: number): void {
  pruneLimit(step, step.sql(ONE).get(id) as Ripe);
}

function pruneLimit(step: Step, { id, longest, pause_until: paused }: Ripe): number {
  const { now } = step;
  // A little more than the longest window: who comes to the very end of it finds it undisturbed.
  const old = step.sql(OLD).all(id, now - longest - 1, STEP) as { seq: number; at: number }[];
  for (const { seq } of old) step.sql(DELETE).run(seq);
  const newest = old.at(-1)?.at;
  const { at: oldest } = step.sql(OLDEST).get(id) as { at: number | null };
  if (newest !== undefined) {
    const again = old.length === STEP ? now : nextTime(now, oldest, longest);
    step.sql(FORGET).run(again, newest, newest, id);
    return old.length;
  }
  if (oldest !== null || (paused !== null && paused > now)) {
    step.sql(LATER).run(Math.max(nextTime(now, oldest, longest), paused ?? 0), id);
    return 0;
  }
  const { forgotten_at: forgotten } = step.sql(UNUSED).get(id) as { forgotten_at: number | null };
  const droppedAt = Math.max(forgotten ?? 0, paused ?? 0) + REMEMBERED_MS + longest;
  if (droppedAt > now) {
    step.sql(LATER).run(droppedAt, id);
    return 0;
  }
  step.sql(DROP).run(id);
  return 1;
}

/** Busy names are looked at now and then, not at every turn. */
function nextTime(now: number, oldest: number | null, longest: number): number {
  return Math.max(now + 1_000 + longest / 10, oldest === null ? 0 : oldest + longest + 1);
}
