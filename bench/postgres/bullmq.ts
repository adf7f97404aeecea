import type { Data } from "../queue/bench.ts";
import type { Bench, Finished, PostgresContender } from "./bench.ts";
import { newPool, TableKeeper } from "./database.ts";
import { type BullMq, type BullMqConnection, load } from "./peers.ts";

type Tidy = Pick<Bench, "clear" | "analyze" | "close">;

interface Place {
  readonly classes: Pick<BullMq, "Queue" | "Worker">;
  readonly connection: BullMqConnection;
  readonly tidy: Tidy;
}

/** Everything but what the next run needs. */
const TABLES = { names: ["bullmq.job", "bullmq.event"], unsettled: "true" };

async function onPostgres(url: string): Promise<Place> {
  const { createPostgresBackend, withBackend } = await load("bullmq");
  const pool = newPool(url, 1);
  const tables = new TableKeeper(pool, TABLES);
  return {
    classes: withBackend(createPostgresBackend),
    connection: { connectionString: url, max: 10, migrate: true },
    tidy: { clear: () => tables.clear(), analyze: () => tables.analyze(), close: () => pool.end() },
  };
}

async function onRedis(url: string): Promise<Place> {
  const { Queue, Worker } = await load("bullmq");
  const { default: Redis } = await load("ioredis");
  const redis = new Redis(url);
  const tidy: Tidy = { clear: () => redis.flushall(), analyze: async () => {}, close: async () => redis.disconnect() };
  return { classes: { Queue, Worker }, connection: { host: "127.0.0.1", port: Number(new URL(url).port) }, tidy };
}

async function open({ classes, connection, tidy }: Place, concurrency: number, finished: Finished): Promise<Bench> {
  const defaultJobOptions = finished === "deleted" ? { removeOnComplete: true } : {};
  const queue = new classes.Queue("bench", { connection, defaultJobOptions });
  queue.on("error", () => {});
  await queue.waitUntilReady();
  return {
    add: (data) => queue.add("bench", data),
    addMany: (data) => queue.addBulk(data.map((one) => ({ name: "bench", data: one }))),
    async work(handle) {
      const options = { connection, concurrency };
      const worker = new classes.Worker("bench", async ({ data }) => handle(data as Data), options);
      worker.on("error", () => {});
      await worker.waitUntilReady();
      return () => worker.close();
    },
    async left() {
      const counts = await queue.getJobCounts("waiting", "prioritized", "active");
      return Object.values(counts).reduce((sum, n) => sum + n, 0);
    },
    clear: tidy.clear,
    analyze: tidy.analyze,
    async close() {
      await queue.close();
      await tidy.close();
    },
  };
}

export function bullMqOnPostgres(finished: Finished): PostgresContender {
  return {
    name: `BullMQ on Postgres${finished === "kept" ? "" : ", removed"}`,
    role: "peer",
    note: finished === "kept" ? "as it comes" : "`removeOnComplete: true`",
    finished,
    server: "postgres",
    atMost: 600,
    open: async (url, concurrency) => open(await onPostgres(url), concurrency, finished),
  };
}

export function bullMqOnRedis(finished: Finished): PostgresContender {
  return {
    name: `BullMQ on Redis${finished === "kept" ? "" : ", removed"}`,
    role: "aside",
    note: finished === "kept" ? "as it comes" : "`removeOnComplete: true`",
    finished,
    server: "redis",
    open: async (url, concurrency) => open(await onRedis(url), concurrency, finished),
  };
}
