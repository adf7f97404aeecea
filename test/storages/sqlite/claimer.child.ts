import { systemClock } from "../../../src/core/clock.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import type { ClaimLimit, Outcome } from "../../../src/storage/job-storage.ts";

// Claims and completes until nothing is left, and prints what it claimed and when the storage says each job started.
const [path = "", worker = "", most = "10", limitsText = "[]"] = process.argv.slice(2);
const limits = JSON.parse(limitsText) as ClaimLimit[];
const storage = new SqliteStorage(path);
let settle: Outcome[] = [];
let claims = 0;
for (;;) {
  const claim = await storage.claim({
    queue: "q",
    worker,
    max: Number(most),
    types: null,
    leaseMs: 60_000,
    limits,
    settle,
  });
  claims += 1;
  for (const { id, startedAt, token } of claim.jobs)
    process.stdout.write(`${JSON.stringify({ id, startedAt, token })}\n`);
  if (claim.stale.length > 0) process.stdout.write(`${JSON.stringify({ stale: claim.stale })}\n`);
  settle = claim.jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null }));
  if (claim.jobs.length > 0 || claim.more) continue;
  if (claim.nextInMs === null) break;
  const { nextInMs } = claim;
  await new Promise<void>((resolve) => {
    systemClock.after(nextInMs, resolve);
  });
}
process.stdout.write(`${JSON.stringify({ claims })}\n`);
await storage.close();
