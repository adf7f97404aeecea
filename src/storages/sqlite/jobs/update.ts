import type { JobUpdate, Updated } from "../../../storage/job-storage.ts";
import { readKeys, textOfKeys } from "../../../storage/kept.ts";
import { refuseImpossible } from "../../../storage/stored-rules.ts";
import type { Step } from "../step.ts";
import { instantOf } from "./add.ts";
import { isFirstDue, promoteDue } from "./due.ts";
import { LaneMoves } from "./lanes.ts";
import { type JobRow, textOfBackoff, weightsOf } from "./record.ts";

const FIND = "SELECT * FROM sluice_jobs WHERE id = ? AND queue = ?";
const WRITE = `UPDATE sluice_jobs SET state = ?, lane = ?, priority = ?, grp = ?, keys = ?, data = ?, weights = ?, max_attempts = ?,
    backoff = ?, timeout = ?, deadline = ?, deadline_wall = ?, keep_for = ?, due_at = ?, due_wall = ?, first_due_at = ?
  WHERE seq = ?`;
// It may be lighter now than it was when a claim looked at it.
const LOOK_AGAIN = "UPDATE sluice_lanes SET heavy = NULL WHERE id = ? AND heavy = ?";

type Row = JobRow & { readonly first_due_at: number | null };

/** Changes what was said of a job that has not started. */
export function update(step: Step, { queue, id, set }: JobUpdate): Updated {
  promoteDue(step, queue);
  const row = step.sql(FIND).get(id, queue) as Row | undefined;
  if (row === undefined) return { updated: false, state: null };
  if (row.state !== "waiting" && row.state !== "scheduled") return { updated: false, state: row.state };
  const { type, seq } = row;
  const priority = set.priority ?? row.priority;
  const group = set.group === undefined ? row.grp : set.group;
  const weights = set.weights === undefined ? weightsOf(row) : set.weights;
  const keys = set.keys === undefined ? row.keys : set.keys === null ? null : textOfKeys(set.keys);
  if (step.rules.weighing.length > 0) {
    const counted = { group, keys: keys === null ? undefined : readKeys(keys) };
    refuseImpossible(step.rules.inForce, [{ queue, type, ...counted, weights }]);
  }

  const due = dueOf(step, row, set.due);
  const waits = due.at <= step.now;
  const lanes = new LaneMoves(step);
  if (row.lane !== null && row.state === "waiting") {
    if (set.weights !== undefined) step.sql(LOOK_AGAIN).run(row.lane, seq);
    lanes.leave(row.lane);
  }
  const first = !waits && isFirstDue(step, queue, type, due.at);
  const lane = waits ? lanes.enter({ queue, type, priority, group, keys }, true) : null;
  const deadline =
    set.deadline === undefined ? { at: row.deadline, wall: row.deadline_wall } : givenOf(step, set.deadline);
  step
    .sql(WRITE)
    .run(
      waits ? "waiting" : "scheduled",
      lane,
      priority,
      group,
      keys,
      set.data ?? row.data,
      weights === null ? null : JSON.stringify(weights),
      set.maxAttempts ?? row.max_attempts,
      set.backoff === undefined ? row.backoff : textOfBackoff(set.backoff),
      set.timeout === undefined ? row.timeout : set.timeout,
      deadline.at,
      deadline.wall,
      set.keepFor === undefined ? row.keep_for : set.keepFor,
      due.at,
      due.wall,
      due.first,
      seq,
    );
  lanes.write();
  if (!waits) step.wake(queue, first);
  return { updated: true, state: waits ? "waiting" : "scheduled" };
}

/** When it is due by its new instant, or by what it had. */
function dueOf(step: Step, row: Row, due: JobUpdate["set"]["due"]) {
  if (due === undefined) {
    // One that has come due behind many others is brought in here, at the place from before its back-off.
    if (row.due_at <= step.now) return { at: row.first_due_at ?? row.due_at, wall: null, first: null };
    return { at: row.due_at, wall: row.due_wall, first: row.first_due_at };
  }
  const at = Math.max(step.now, instantOf(due, step));
  return { at, wall: at > step.now && "at" in due ? due.at : null, first: null };
}

function givenOf(step: Step, when: NonNullable<JobUpdate["set"]["deadline"]> | null) {
  if (when === null) return { at: null, wall: null };
  return { at: instantOf(when, step), wall: "at" in when ? when.at : null };
}
