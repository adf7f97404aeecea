import type { JobRecord } from "../../src/core/job.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { groundOf } from "../grounds/index.ts";
import type { Final } from "../history/final.ts";

/** The contents of the storage: by its contract, and by its tables. */
export async function inspect(database: string): Promise<Final> {
  const ground = groundOf(database);
  const storage = ground.open({ database });
  try {
    const jobs: JobRecord[] = [];
    for (const { queue } of await storage.overview()) for (const job of await listAll(storage, queue)) jobs.push(job);
    // Counted right after the contract answered: a few jobs may come due in between.
    const overviews = await storage.overview();
    return {
      jobs,
      counts: new Map(overviews.map(({ queue, counts }) => [queue, counts])),
      limits: await storage.limits.read({ name: null, group: null }),
      ...(await ground.tables(database)),
    };
  } finally {
    await storage.close();
  }
}

async function listAll(storage: JobStorage, queue: string): Promise<JobRecord[]> {
  const jobs: JobRecord[] = [];
  let cursor: string | null = null;
  const all = { queue, states: null, type: null, group: null, since: null, until: null, limit: 1_000 };
  do {
    const page = await storage.list({ ...all, cursor });
    jobs.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== null);
  return jobs;
}
