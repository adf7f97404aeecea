// One of the worker processes: a worker of the queue whose jobs are calls to the service. It ends on request, or
// when the process that started it does.
import { Queue, RetryableJobError, Worker } from "sluice";
import { SqliteStorage } from "sluice/sqlite";
import { ServiceClient } from "./client.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./messages.ts";
import { settingsOf } from "./processes.ts";
import { QUEUE_NAME } from "./plan.ts";
import { openStorage } from "./storage.ts";

const { plan, place, url } = settingsOf() as WorkerSettings;
/** How often each connection is used before it counts. */
const REHEARSALS = 6;
const send = (message: FromWorker) => process.send?.(message);

const service = new ServiceClient(url);
const storage = openStorage(place);
const worker = new Worker(
  QUEUE_NAME,
  async (job) => {
    send({ started: job.id });
    const { status, retryInMs } = await service.call(job.id);
    if (status === 429) {
      send({ refused: job.id });
      throw new RetryableJobError("the service is over its quota", new Date(Date.now() + retryInMs));
    }
    send({ done: job.id });
  },
  {
    storage,
    concurrency: plan.concurrency,
    lease: plan.leaseMs,
    autostart: false,
    limiter: plan.unlimited ? undefined : { max: plan.quota, duration: plan.windowMs, guard: plan.guardMs },
    onError: (error) => send({ failed: error instanceof Error ? error.message : String(error) }),
  },
);

/**
 * Opens the connections and lets both sides run what they will run, in a queue of its own and with calls that do not count:
 * the first call of a process that does it for the first time would be under way for longer than all others. A server has to
 * get to know its connections as well; of SQLite one in memory will do.
 */
async function rehearse(): Promise<void> {
  const stage = place.kind === "sqlite" ? new SqliteStorage(":memory:") : openStorage(place);
  const name = `rehearsal-${process.pid}`;
  const queue = new Queue(name, { storage: stage, defaults: { keepFor: 0 } });
  const entries = Array.from({ length: plan.concurrency * REHEARSALS }, () => ({ type: "call", data: null }));
  await queue.addBulk(entries);
  const actor = new Worker(name, () => service.warmUp(), { storage: stage, concurrency: plan.concurrency });
  await actor.onIdle();
  await actor.stop();
  await stage.close();
}

async function stop(): Promise<void> {
  await worker.stop({ timeout: "2s" });
  await storage.close();
  service.close();
  process.disconnect();
}

process.on("message", (message: ToWorker) => {
  if (message === "go") void worker.start();
  else void stop();
});
// Ctrl-C reaches every process of the terminal; when to stop is said by the one that started this.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.on("disconnect", () => process.exit());

await rehearse();
await storage.setup();
send({ ready: worker.id });
