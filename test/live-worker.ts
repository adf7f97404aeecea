import type { JobStorage } from "../src/storage/job-storage.ts";
import type { WorkerEntry } from "../src/storage/workers.ts";

const DAY_MS = 86_400_000;

/** Registers a worker of the queue that is live for a day, for tests about other blockers of a job. */
export async function liveWorker(storage: JobStorage, queue: string, said: Partial<WorkerEntry> = {}): Promise<void> {
  const entry = {
    id: `live-${queue}`,
    queue,
    host: null,
    pid: null,
    types: null,
    moreTypes: 0,
    concurrency: 1,
    limits: [],
    moreLimits: 0,
    upMs: 0,
    ...said,
  };
  await storage.register([entry], DAY_MS, []);
}
