import type pg from "pg";
import { systemClock } from "../../../src/core/clock.ts";
import { Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";

export const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));

/** Waits until it is so, and says how long that took. It fails if it takes too long. */
export async function until(holds: () => boolean | Promise<boolean>, withinMs: number, what: string): Promise<number> {
  const began = systemClock.now();
  while (!(await holds())) {
    if (systemClock.now() - began > withinMs) throw new Error(`expected within ${withinMs} ms: ${what}`);
    await after(5);
  }
  return systemClock.now() - began;
}

/** A queue and a worker that keeps count of what it ran, each with a storage of its own. */
export function office(
  producing: string,
  working: string | pg.Pool,
  { lease = 3_000, takesMs = 0, concurrency = 5 } = {},
) {
  const runs = new Map<string, number>();
  const errors: unknown[] = [];
  const storages = [new PostgresStorage(producing), new PostgresStorage(working)] as const;
  const queue = new Queue("q", { storage: storages[0] });
  const worker = new Worker(
    "q",
    async (job) => {
      runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
      if (takesMs > 0) await after(takesMs);
    },
    { storage: storages[1], lease, concurrency, onError: (error) => errors.push(error) },
  );
  const close = async () => {
    await worker.stop({ timeout: 2_000 });
    await Promise.all(storages.map((storage) => storage.close()));
  };
  return { queue, worker, runs, errors, storages, close };
}

export const completed = async (queue: Queue) => (await queue.storage.overview("q"))[0]?.counts.completed ?? 0;
