import { type JobCounts, noJobs } from "../../../core/job.ts";
import type { QueueOverview } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";

/** What there is of a queue. Pauses: '' for the queue, ':' and the type for one. */
type Row = readonly [
  queue: string,
  counts: Partial<JobCounts> | null,
  pauses: readonly string[] | null,
  oldestWaitingMs: number | null,
];

/** Every queue that has jobs or is paused; one of them, if asked. */
export async function overview(database: Database, queue?: string): Promise<QueueOverview[]> {
  const rows = await database.call<readonly Row[]>("overview", queue ?? null);
  const views = rows.map(([name, counts, pauses, oldestWaitingMs]) => ({
    queue: name,
    counts: { ...noJobs(), ...counts },
    paused: pauses?.includes("") ?? false,
    pausedTypes: (pauses ?? []).filter((type) => type !== "").map((type) => type.slice(1)),
    oldestWaitingMs,
  }));
  return views.toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
}

export async function setPaused(
  database: Database,
  queue: string,
  type: string | null,
  paused: boolean,
): Promise<void> {
  await database.once("set_paused", [queue, type === null ? "" : `:${type}`, paused], { as: "fenced" });
}
