import type { Sweep } from "../../../storage/job-storage.ts";
import { stalledError } from "../../../storage/stalled.ts";
import { endLeases } from "../limits/release.ts";
import { isAnyRipe, pruneLimits } from "../limits/prune.ts";
import type { Step } from "../step.ts";
import { recordFailure } from "./attempts.ts";
import { endLate, isAnyLate, isFull } from "./due.ts";
import { LaneMoves } from "./lanes.ts";
import type { JobRow } from "./record.ts";
import { comeBack, end, type HeldRow, kindsOf } from "./settle.ts";

/** How much of each kind is done in one step. */
const STEP = 500;

/** A lane remembers its turn for so long after the last job has left it. */
const LANE_KEPT_MS = 3_600_000;
/** The limits of a claim are written down again now and then, as long as there are claims. */
const CLAIM_KEPT_MS = 30 * 86_400_000;
/** Events are for processes that listen now. */
const EVENT_KEPT_MS = 60_000;
const EVENTS_KEPT = 10_000;

const STALLED = `SELECT seq, id, queue, type, priority, grp, keys, attempt, max_attempts, started_at, worker, cancel_requested,
    due_at, token
  FROM sluice_jobs WHERE lease_until IS NOT NULL AND lease_until <= ? ORDER BY lease_until LIMIT ${STEP}`;

/** What is deleted when its time has come: where, by which key, and when. Each has an index that begins with the time. */
const EXPIRED = [
  deletion("sluice_jobs", "seq", "delete_at IS NOT NULL AND delete_at <= ?", "delete_at", 0),
  deletion("sluice_keys", "queue, key", "expires_at <= ?", "expires_at", 0),
  deletion("sluice_lanes", "id", "empty_since <= ?", "empty_since", LANE_KEPT_MS),
  deletion("sluice_slots", "limit_id, token", "until IS NOT NULL AND until <= ?", "until", 0),
  deletion("sluice_claims", "queue", "at <= ?", "at", CLAIM_KEPT_MS),
  deletion("sluice_workers", "id", "until <= ?", "until", 0),
  deletion("sluice_processes", "origin", "until <= ?", "until", 0),
  // Events are numbered as they happen, so the oldest come first.
  deletion("sluice_events", "seq", "at <= ?", "seq", EVENT_KEPT_MS),
] as const;
const OLDEST_EVENT = "SELECT seq, at FROM sluice_events ORDER BY seq LIMIT 1";
const NEWEST_EVENT = "SELECT max(seq) AS seq FROM sluice_events";
const SURPLUS = "DELETE FROM sluice_events WHERE seq <= (SELECT max(seq) FROM sluice_events) - ?";

function deletion(table: string, key: string, where: string, order: string, keptMs: number) {
  const rows = `FROM ${table} WHERE ${where} ORDER BY ${order} LIMIT`;
  return {
    look: `SELECT 1 ${rows} 1`,
    sql: `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} ${rows} ${STEP})`,
    keptMs,
    events: table === "sluice_events",
  };
}

type StalledRow = HeldRow & Pick<JobRow, "max_attempts">;

/** Is there anything to do? Looked at without a lock. */
export function isSweepable(step: Step): boolean {
  return (
    step.sql(STALLED).get(step.now) !== undefined ||
    isAnyLate(step) ||
    isAnyRipe(step) ||
    EXPIRED.some(({ look, keptMs, events }) =>
      events ? isOldEvent(step) : step.sql(look).get(step.now - keptMs) !== undefined,
    )
  );
}

/** The oldest event decides for all of them. */
function isOldEvent(step: Step): boolean {
  const oldest = step.sql(OLDEST_EVENT).get() as { readonly seq: number; readonly at: number } | undefined;
  if (oldest === undefined) return false;
  const { seq: newest } = step.sql(NEWEST_EVENT).get() as { readonly seq: number };
  return oldest.at <= step.now - EVENT_KEPT_MS || newest - oldest.seq >= EVENTS_KEPT;
}

export function sweep(step: Step): Sweep {
  const stalled = recover(step);
  const late = endLate(step);
  const limits = pruneLimits(step);
  let { deleted } = limits;
  let more = limits.more || stalled === STEP || isFull(late);
  for (const { sql, keptMs, events } of EXPIRED) {
    if (events && !isOldEvent(step)) continue;
    const count = Number(step.sql(sql).run(step.now - keptMs).changes);
    deleted += count;
    more ||= count === STEP;
  }
  deleted += Number(step.sql(SURPLUS).run(EVENTS_KEPT).changes);
  return { stalled, deleted, more };
}

/** Jobs whose lease has run out go back into the queue, unless that was their last attempt or they are not wanted. */
function recover(step: Step): number {
  const rows = step.sql(STALLED).all(step.now) as StalledRow[];
  const lanes = new LaneMoves(step);
  for (const row of rows) {
    const { id, queue, type, attempt } = row;
    const worker = row.worker ?? "";
    const error = stalledError(worker);
    const kept = { attempt, holds: 0, error };
    recordFailure(step, row, error);
    endLeases(step, [row.token], kindsOf(error));
    step.event({ event: "stalled", queue, id, type, attempt, worker });
    if (row.cancel_requested === 1) end(step, row, "cancelled", kept);
    else if (attempt >= row.max_attempts) end(step, row, "dead", kept);
    // It takes its old place: what was not its fault is not to cost it an hour of backlog.
    else comeBack(step, row, row.due_at, kept, lanes);
  }
  lanes.write();
  return rows.length;
}
