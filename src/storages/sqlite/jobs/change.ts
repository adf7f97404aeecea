import type { JobState } from "../../../core/job.ts";
import type { Change, ChangeAction } from "../../../storage/job-storage.ts";
import type { Step } from "../step.ts";
import { promoteDue } from "./due.ts";
import { KEPT_MS } from "./ended.ts";
import { LaneMoves } from "./lanes.ts";
import type { JobRow as WholeRow } from "./record.ts";
import { selectJobs } from "./select.ts";

/** What of a job has to be known. Not its data: it may be large, and there may be many. */
const KNOWN = ["seq", "id", "queue", "type", "state", "lane", "priority", "grp", "keys", "cancel_requested"] as const;
type JobRow = Pick<WholeRow, (typeof KNOWN)[number]>;

const FIND = `SELECT ${KNOWN.join(", ")} FROM sluice_jobs WHERE id = ? AND queue = ?`;
const ROW = `SELECT ${KNOWN.join(", ")} FROM sluice_jobs WHERE seq = ?`;
const ASK_TO_STOP = "UPDATE sluice_jobs SET cancel_requested = 1 WHERE seq = ?";
const CANCEL = `UPDATE sluice_jobs SET state = 'cancelled', finished_at = ?,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.cancelled}) WHERE seq = ?`;
// A deadline that has passed would end it again at once, so it is removed.
const RETRY = `UPDATE sluice_jobs SET state = 'waiting', lane = ?, due_at = ?, first_due_at = NULL, due_wall = NULL, attempt = 0,
  holds = 0, finished_at = NULL, delete_at = NULL, result = NULL, worker = NULL, cancel_requested = 0,
  deadline = CASE WHEN deadline > ? THEN deadline END,
  deadline_wall = CASE WHEN deadline > ? THEN deadline_wall END WHERE seq = ?`;
const PROMOTE = `UPDATE sluice_jobs SET state = 'waiting', lane = ?, due_at = coalesce(first_due_at, ?), first_due_at = NULL,
  due_wall = NULL WHERE seq = ?`;
const REMOVE = "DELETE FROM sluice_jobs WHERE seq = ?";

/** The states in which an action does anything. */
const APPLIES: Readonly<Record<ChangeAction, readonly JobState[]>> = {
  cancel: ["waiting", "scheduled", "awaiting", "active"],
  retry: ["completed", "dead", "cancelled"],
  promote: ["scheduled"],
  remove: ["waiting", "scheduled", "awaiting", "completed", "dead", "cancelled"],
};

/** Changes jobs, by id or by filter. Returns those that were changed. */
export function change(step: Step, request: Change): string[] {
  promoteDue(step, request.queue);
  const lanes = new LaneMoves(step);
  const changed: string[] = [];
  for (const row of rowsOf(step, request)) {
    if (!APPLIES[request.action].includes(row.state)) continue;
    if (apply(step, request.action, row, lanes)) changed.push(row.id);
  }
  lanes.write();
  return changed;
}

function* rowsOf(step: Step, request: Change): Iterable<JobRow> {
  if ("ids" in request) {
    for (const id of new Set(request.ids)) {
      const row = step.sql(FIND).get(id, request.queue) as JobRow | undefined;
      if (row !== undefined && request.states?.includes(row.state) !== false) yield row;
    }
    return;
  }
  const { states, type, group, endedForMs } = request.where;
  const seqs = selectJobs(step, {
    queue: request.queue,
    states: states.filter((state) => APPLIES[request.action].includes(state)),
    type,
    group,
    since: null,
    until: null,
    endedBefore: endedForMs === null ? null : step.now - endedForMs,
    unasked: request.action === "cancel",
    newestFirst: false,
    after: null,
    limit: request.limit,
  });
  for (const seq of seqs) yield step.sql(ROW).get(seq) as JobRow;
}

function apply(step: Step, action: ChangeAction, row: JobRow, lanes: LaneMoves): boolean {
  const { now } = step;
  const { seq, id, queue, type } = row;
  switch (action) {
    case "cancel":
      if (row.state === "active") return askToStop(step, row);
      if (row.state === "waiting") lanes.leave(row.lane!);
      step.sql(CANCEL).run(now, now, seq);
      step.event({ event: "cancelled", queue, id, type });
      return true;
    case "retry":
      step.sql(RETRY).run(lanes.enter({ ...row, group: row.grp }), now, now, now, seq);
      return true;
    case "promote":
      step.sql(PROMOTE).run(lanes.enter({ ...row, group: row.grp }, true), now, seq);
      return true;
    case "remove":
      break;
  }
  if (row.state === "waiting") lanes.leave(row.lane!);
  step.sql(REMOVE).run(seq);
  return true;
}

/** Its worker is notified again, if it was asked before; but nothing is changed then. */
function askToStop(step: Step, { seq, queue, id, cancel_requested: asked }: JobRow): boolean {
  step.stopping.push({ queue, id });
  if (asked === 1) return false;
  step.sql(ASK_TO_STOP).run(seq);
  return true;
}
