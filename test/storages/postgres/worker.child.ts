import { systemClock } from "../../../src/core/clock.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import type { Outcome } from "../../../src/storage/job-storage.ts";

// Claims a few jobs, works on them for some milliseconds, completes them: until it is killed, or none is left. Prints what it claimed.
const [url = "", worker = "", most = "3", workMs = "0", leaseMs = "60000"] = process.argv.slice(2);
const storage = new PostgresStorage(url);
const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));
const request = { queue: "q", worker, max: Number(most), types: null, leaseMs: Number(leaseMs), limits: [] };
let settle: Outcome[] = [];
for (;;) {
  await storage.sweep();
  const { jobs, stale, more, nextInMs } = await storage.claim({ ...request, settle });
  for (const { id, token, startedAt } of jobs) process.stdout.write(`${JSON.stringify({ id, token, startedAt })}\n`);
  if (stale.length > 0) process.stdout.write(`${JSON.stringify({ stale })}\n`);
  settle = jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null }));
  if (jobs.length > 0) {
    await after(Number(workMs));
    continue;
  }
  const [view] = await storage.overview("q");
  if (view === undefined || view.counts.waiting + view.counts.scheduled + view.counts.active === 0) break;
  if (!more) await after(Math.min(nextInMs ?? 50, 50));
}
await storage.close();
