import { DuplicateJobError } from "../../../core/errors.ts";
import type { Added, Idempotency, NewJob, When } from "../../../storage/job-storage.ts";
import { textOfKeys } from "../../../storage/kept.ts";
import { refuseImpossible } from "../../../storage/stored-rules.ts";
import type { Step } from "../step.ts";
import { isFirstDue } from "./due.ts";
import { LaneMoves } from "./lanes.ts";
import { type JobRow, textOfBackoff } from "./record.ts";

const INSERT = `INSERT INTO sluice_jobs (id, queue, type, state, lane, priority, grp, keys, data, weights, max_attempts, backoff,
    timeout, deadline, deadline_wall, keep_for, created_at, due_at, due_wall, idempotency_key)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`;
const EXISTS = "SELECT 1 FROM sluice_jobs WHERE id = ?";
const HOLDER = "SELECT fingerprint, job FROM sluice_keys WHERE queue = ? AND key = ? AND expires_at > ?";
const STATE = "SELECT seq, state, lane FROM sluice_jobs WHERE id = ?";
const DELETE = "DELETE FROM sluice_jobs WHERE seq = ?";
const KEEP_KEY = `INSERT INTO sluice_keys (queue, key, fingerprint, job, expires_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (queue, key) DO UPDATE SET fingerprint = excluded.fingerprint, job = excluded.job,
    expires_at = excluded.expires_at`;

interface Holder {
  readonly fingerprint: string;
  readonly job: string;
}

type Other = Pick<JobRow, "seq" | "state" | "lane">;

/** Adds jobs. If it throws, the caller rolls back the transaction. */
export function add(step: Step, jobs: readonly NewJob[]): Added[] {
  const lanes = new LaneMoves(step);
  const texts = new Map<object, string>();
  const added = jobs.map((job) => addOne(step, job, lanes, texts));
  // One that is there already is answered with as it is, whatever it weighs.
  if (step.rules.weighing.length > 0) {
    refuseImpossible(
      step.rules.inForce,
      jobs.filter((_, i) => added[i]!.created),
    );
  }
  lanes.write();
  return added;
}

function addOne(step: Step, job: NewJob, lanes: LaneMoves, texts: Map<object, string>): Added {
  const { id, queue, type } = job;
  if (job.idempotency !== null) {
    const earlier = takeKey(step, job, job.idempotency, lanes);
    if (earlier !== undefined) return { id: earlier, created: false };
  }
  const dueAt = Math.max(step.now, instantOf(job.due, step));
  const waits = dueAt <= step.now;
  const first = !waits && isFirstDue(step, queue, type, dueAt);
  const keys = job.keys === undefined ? null : textOf(job.keys, texts, textOfKeys);
  const lane = waits ? lanes.enter({ queue, type, priority: job.priority, group: job.group, keys }) : null;
  const { changes } = step
    .sql(INSERT)
    .run(
      id,
      queue,
      type,
      waits ? "waiting" : "scheduled",
      lane,
      job.priority,
      job.group,
      keys,
      job.data,
      job.weights === null ? null : textOf(job.weights, texts),
      job.maxAttempts,
      textOf(job.backoff, texts, textOfBackoff),
      job.timeout,
      job.deadline === null ? null : instantOf(job.deadline, step),
      givenInstant(job.deadline),
      job.keepFor,
      step.now,
      dueAt,
      waits ? null : givenInstant(job.due),
      job.idempotency?.key ?? null,
    );
  if (changes === 0) {
    if (lane !== null) lanes.move(lane, -1);
    return { id, created: false };
  }
  if (!waits) step.wake(queue, first);
  if (step.eventsWanted) step.event({ event: "added", queue, id, type });
  return { id, created: true };
}

/** The job that has the key already, if the new one is not to be added. Else the key is the new one's. */
function takeKey(step: Step, job: NewJob, idempotency: Idempotency, lanes: LaneMoves): string | undefined {
  if (step.sql(EXISTS).get(job.id) !== undefined) return job.id;
  const { key, fingerprint, ttlMs } = idempotency;
  const holder = step.sql(HOLDER).get(job.queue, key, step.now) as Holder | undefined;
  if (holder !== undefined) {
    if (holder.job === job.id) return job.id;
    const other = step.sql(STATE).get(holder.job) as Other | undefined;
    switch (idempotency.onDuplicate) {
      case "return":
        if (holder.fingerprint === fingerprint) return holder.job;
        throw new DuplicateJobError(key, holder.job, "its payload is another one");
      case "reject":
        throw new DuplicateJobError(key, holder.job, "duplicates are to be rejected");
      case "replace":
        if (other?.state === "active") {
          throw new DuplicateJobError(key, holder.job, "it is active, and cannot be replaced");
        }
        if (other !== undefined) giveWay(step, other, lanes);
        break;
    }
  }
  step.sql(KEEP_KEY).run(job.queue, key, fingerprint, job.id, step.now + ttlMs);
  return undefined;
}

/** A job that has not started is removed. One that has ended stays. */
function giveWay(step: Step, { seq, state, lane }: Other, lanes: LaneMoves): void {
  if (state !== "waiting" && state !== "scheduled" && state !== "awaiting") return;
  step.sql(DELETE).run(seq);
  if (state === "waiting") lanes.leave(lane!);
}

/** By the clock of the storage. */
export function instantOf(when: When, step: Step): number {
  return "at" in when ? when.at + step.skew : step.now + when.inMs;
}

/** By the wall clock, if that is what it was given by. */
const givenInstant = (when: When | null): number | null => (when !== null && "at" in when ? when.at : null);

/** Jobs that are added together often share their plan: it is written as text once. */
function textOf<T extends object>(
  value: T,
  texts: Map<object, string>,
  write: (value: T) => string = JSON.stringify,
): string {
  let text = texts.get(value);
  if (text === undefined) texts.set(value, (text = write(value)));
  return text;
}
