import { type JobStorage, MemoryStorage, Queue, Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { counted } from "./counted.ts";
import { load } from "./peers.ts";
import { sleep, withFile } from "./temporary.ts";

/** What waiting costs. */
export interface Cost {
  readonly callsPerSecond: number;
  readonly cpuPercent: number;
}

const [name = "", state = "", workers = "", seconds = ""] = process.argv.slice(2);
const WORKERS = Number(workers);
const silent = { error() {}, warn() {}, info() {}, debug() {} };

await withFile(async (file) => {
  const calls = { count: 0 };
  await begin(file, calls);
  await sleep(1_000);
  calls.count = 0;
  const before = process.cpuUsage();
  const start = performance.now();
  await sleep(Number(seconds) * 1_000);
  const elapsed = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  const cost: Cost = {
    callsPerSecond: calls.count / WORKERS / (elapsed / 1_000),
    cpuPercent: (user + system) / 1_000 / elapsed / 0.01,
  };
  process.send!(cost);
});
process.exit();

async function begin(file: string, calls: { count: number }): Promise<void> {
  switch (name) {
    case "plainjob":
      return plainjob(file, calls);
    case "liteque":
      return liteque(file, calls);
    case "workglow in memory":
      return workglow(calls);
    default:
      return sluice(name.includes("SqliteStorage") ? new SqliteStorage(file) : new MemoryStorage(), calls);
  }
}

async function sluice(storage: JobStorage, calls: { count: number }): Promise<void> {
  const queue = new Queue("bench", { storage });
  const entries = Array.from({ length: 1_000 }, (_, n) => ({ type: "bench", data: { n } }));
  const blocked = state === "blocked";
  if (blocked) await queue.addBulk(entries);
  const limiter = blocked ? { max: 1, duration: "1m" as const } : undefined;
  for (let i = 0; i < WORKERS; i++) {
    await new Worker("bench", async () => {}, { storage: counted(storage, calls), concurrency: 10, limiter }).start();
  }
  if (name.endsWith("adds/s")) setInterval(() => void queue.add("bench", { n: 0 }), 50);
}

async function plainjob(file: string, calls: { count: number }): Promise<void> {
  const { default: Database } = await load("better-sqlite3");
  const { better, defineQueue, defineWorker } = await load("plainjob");
  const queue = counted(defineQueue({ connection: better(new Database(file)), logger: silent }), calls);
  for (let i = 0; i < WORKERS; i++) void defineWorker("bench", async () => {}, { queue, logger: silent }).start();
}

async function liteque(file: string, calls: { count: number }): Promise<void> {
  const { buildDBClient, Runner, SqliteQueue } = await load("liteque");
  const { allowAsyncTransactions } = await import("./sqlite-peers.ts");
  const client = buildDBClient(file, { runMigrations: true });
  allowAsyncTransactions(client.session.client);
  const queue = new SqliteQueue("bench", client, { defaultJobArgs: { numRetries: 2 }, keepFailedJobs: false });
  const options = { concurrency: 10, pollIntervalMs: 1_000, timeoutSecs: 60 };
  for (let i = 0; i < WORKERS; i++) void new Runner(counted(queue, calls), { run: async () => {} }, options).run();
}

async function workglow(calls: { count: number }): Promise<void> {
  const module = await load("@workglow/job-queue");
  const { InMemoryQueueStorage, InMemoryRateLimiterStorage, Job, JobQueueClient, JobQueueServer, RateLimiter } = module;
  class BenchJob extends Job {
    async execute(): Promise<object> {
      return {};
    }
  }
  const storage = new InMemoryQueueStorage("bench");
  const client = new JobQueueClient({ storage, queueName: "bench" });
  if (state === "blocked") await client.sendBatch(Array.from({ length: 1_000 }, (_, n) => ({ n })));
  const window = { maxExecutions: 1, windowSizeInSeconds: 60 };
  const limiter = new RateLimiter(counted(new InMemoryRateLimiterStorage(), calls), "bench", window);
  const server = new JobQueueServer(BenchJob, {
    storage: counted(storage, calls),
    queueName: "bench",
    workerCount: WORKERS,
    ...(state === "blocked" && { limiter }),
  });
  client.attach(server);
  await server.start();
}
