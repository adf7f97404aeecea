import { JOB_STATES, type JobCounts, type JobState, noJobs } from "../../../core/job.ts";
import type { QueueOverview } from "../../../storage/job-storage.ts";
import { openGates } from "../limits/gates.ts";
import { reservedBy } from "../limits/heavy-heads.ts";
import type { Step } from "../step.ts";
import type { JobRow } from "./record.ts";

/** How many jobs are looked at at once. */
const PAGE = 100;

const NEXT_QUEUE = "SELECT queue FROM sluice_jobs WHERE lease_until IS NULL AND queue > ? ORDER BY queue LIMIT 1";
const ACTIVE_QUEUES = "SELECT DISTINCT queue FROM sluice_jobs WHERE lease_until > 0";
const COUNTS = `SELECT state, count(*) AS count FROM sluice_jobs WHERE queue = ? AND lease_until IS NULL GROUP BY state`;
const ACTIVE = "SELECT count(*) AS count FROM sluice_jobs WHERE queue = ? AND lease_until > 0";
const OLDEST = `SELECT seq, created_at, due_at FROM sluice_jobs WHERE queue = ? AND state = 'waiting' AND lease_until IS NULL
  AND seq > ? ORDER BY seq LIMIT +?`;
const PAUSE = "INSERT INTO sluice_pauses (queue, type) VALUES (?, ?) ON CONFLICT DO NOTHING";
const RESUME = "DELETE FROM sluice_pauses WHERE queue = ? AND type = ?";

/** Every queue that has jobs or is paused; one of them, if asked. */
export function overview(step: Step, queue?: string): QueueOverview[] {
  const names = queue === undefined ? queueNames(step) : [queue];
  const views = names.map((name) => overviewOf(step, name));
  return queue === undefined ? views : views.filter(exists);
}

function exists({ counts, paused, pausedTypes }: QueueOverview): boolean {
  return paused || pausedTypes.length > 0 || JOB_STATES.some((state) => counts[state] > 0);
}

/** All queues that have jobs or are paused, sorted. */
export function queueNames(step: Step): string[] {
  const active = (step.sql(ACTIVE_QUEUES).all() as { queue: string }[]).map(({ queue }) => queue);
  const names = new Set([...step.settings.pauses.keys(), ...active, ...step.names(NEXT_QUEUE)]);
  return [...names].toSorted();
}

function overviewOf(step: Step, queue: string): QueueOverview {
  const counts: Record<JobState, number> = noJobs();
  for (const { state, count } of step.sql(COUNTS).all(queue) as { state: JobState; count: number }[]) {
    counts[state] = count;
  }
  counts.active = (step.sql(ACTIVE).get(queue) as { count: number }).count;
  const pauses = [...step.pausesOf(queue)].toSorted();
  return {
    queue,
    counts: counts satisfies JobCounts,
    paused: pauses.includes(""),
    pausedTypes: pauses.filter((type) => type !== "").map((type) => type.slice(1)),
    oldestWaitingMs: oldestWaiting(step, queue),
  };
}

/**
 * Jobs are due when they are added, or later: once one is found that was due before the next was even added, it is the
 * oldest. As a rule that is the first.
 */
function oldestWaiting(step: Step, queue: string): number | null {
  let oldest = Number.POSITIVE_INFINITY;
  for (let after = 0, count = 1; ; count = PAGE) {
    const rows = step.sql(OLDEST).all(queue, after, count) as Pick<JobRow, "seq" | "created_at" | "due_at">[];
    for (const { seq, created_at: createdAt, due_at: dueAt } of rows) {
      if (createdAt >= oldest) return Math.max(0, step.now - oldest);
      oldest = Math.min(oldest, dueAt);
      after = seq;
    }
    if (rows.length < count) return oldest === Number.POSITIVE_INFINITY ? null : Math.max(0, step.now - oldest);
  }
}

export function setPaused(step: Step, queue: string, type: string | null, paused: boolean): void {
  step.sql(paused ? PAUSE : RESUME).run(queue, type === null ? "" : `:${type}`);
  if (!paused) {
    step.wake(queue, true);
    return;
  }
  // Jobs that waited behind a heavy head which is paused now are free to start.
  for (const { name, grp } of reservedBy(step, queue, type)) {
    openGates(step, name, grp);
    step.wakesAll = true;
  }
}
