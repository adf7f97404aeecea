import pg from "pg";
import { type JobStorage, MemoryStorage, Worker, type WorkerOptions } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { countedStorage } from "../limits/counted-storage.ts";
import { type BullMq, type BullMqConnection, load } from "../postgres/peers.ts";
import { load as loadQueue } from "../queue/peers.ts";
import type { Calls } from "./calls.ts";
import { fill } from "./fill.ts";
import type { Kind, Order } from "./order.ts";

/** Gets everything ready, and answers with what begins. */
type Starter = (order: Order, calls: Calls) => Promise<() => unknown>;

/** `{ max, duration }`, for the queue. */
const ofQueue = ({ max, windowMs }: Order) => ({ limiter: { max, duration: windowMs } });
/** The same as a limit by name. */
const shared = ({ max, windowMs }: Order) => ({ limits: { bench: { max, per: windowMs, types: ["bench"] } } });

export const STARTERS: Readonly<Record<Kind, Starter>> = {
  async memory(order, calls) {
    const storage = new MemoryStorage();
    await fill(storage, order.jobs);
    return sluice(storage, order, calls, ofQueue(order));
  },
  sqlite: (order, calls) => sluice(new SqliteStorage(order.url), order, calls, ofQueue(order)),
  "sqlite-shared": (order, calls) => sluice(new SqliteStorage(order.url), order, calls, shared(order)),
  postgres: (order, calls) => sluice(new PostgresStorage(order.url), order, calls, ofQueue(order)),
  "postgres-shared": (order, calls) => sluice(new PostgresStorage(order.url), order, calls, shared(order)),

  async workglow({ max, windowMs, concurrency, jobs }, { call }) {
    const module = await loadQueue("@workglow/job-queue");
    const { InMemoryQueueStorage, InMemoryRateLimiterStorage, Job, JobQueueClient, JobQueueServer, RateLimiter } =
      module;
    class BenchJob extends Job {
      async execute(): Promise<object> {
        await call();
        return {};
      }
    }
    const storage = new InMemoryQueueStorage("bench");
    const client = new JobQueueClient({ storage, queueName: "bench" });
    await client.sendBatch(Array.from({ length: jobs }, (_, n) => ({ n })));
    const window = { maxExecutions: max, windowSizeInSeconds: windowMs / 1_000 };
    const limiter = new RateLimiter(new InMemoryRateLimiterStorage(), "bench", window);
    const server = new JobQueueServer(BenchJob, { storage, queueName: "bench", workerCount: concurrency, limiter });
    client.attach(server);
    return () => server.start();
  },

  async "rate-limiter-flexible"({ url, max, windowMs, concurrency }, calls) {
    const { RateLimiterPostgres, RateLimiterQueue } = await load("rate-limiter-flexible");
    calls.countQueries();
    const storeClient = new pg.Pool({ connectionString: url, max: 10 });
    const options = { storeClient, tableName: "rates", points: max, duration: windowMs / 1_000 };
    const limiter = await new Promise<object>((resolve, reject) => {
      const made = new RateLimiterPostgres(options, (error) => (error === undefined ? resolve(made) : reject(error)));
    });
    const queue = new RateLimiterQueue(limiter);
    return () =>
      ask(concurrency, async () => {
        await queue.removeTokens(1);
        await calls.call();
      });
  },

  async "bullmq-postgres"(order, calls) {
    const { createPostgresBackend, withBackend } = await load("bullmq");
    calls.countQueries();
    const connection = { connectionString: order.url, max: 10, migrate: true };
    return bullMq(withBackend(createPostgresBackend), connection, order, calls);
  },

  async "bullmq-redis"(order, calls) {
    const classes = await load("bullmq");
    await calls.countCommands();
    return bullMq(classes, { host: "127.0.0.1", port: Number(new URL(order.url).port) }, order, calls);
  },

  async bottleneck({ url, max, windowMs, concurrency }, calls) {
    const { default: Bottleneck } = await load("bottleneck");
    await calls.countCommands();
    const limiter = new Bottleneck({
      id: "bench",
      datastore: "ioredis",
      clientOptions: { host: "127.0.0.1", port: Number(new URL(url).port) },
      // It looks at its reservoir this often: 5 s as it comes.
      heartbeatInterval: 100,
      reservoir: max,
      reservoirRefreshAmount: max,
      reservoirRefreshInterval: windowMs,
    });
    await limiter.ready();
    return () => ask(concurrency, () => limiter.schedule(calls.call));
  },
};

async function sluice(
  storage: JobStorage,
  { concurrency }: Order,
  { call, asked }: Calls,
  limit: Pick<WorkerOptions, "limiter" | "limits">,
): Promise<() => unknown> {
  await storage.setup();
  const options = { ...limit, storage: countedStorage(storage, asked), concurrency, autostart: false };
  const worker = new Worker("bench", call, options);
  return () => worker.start();
}

async function bullMq(
  classes: Pick<BullMq, "Queue" | "Worker">,
  connection: BullMqConnection,
  { max, windowMs, concurrency }: Order,
  { call }: Calls,
): Promise<() => unknown> {
  const queue = new classes.Queue("bench", { connection });
  queue.on("error", () => {});
  await queue.waitUntilReady();
  return () => {
    const worker = new classes.Worker("bench", call, { connection, concurrency, limiter: { max, duration: windowMs } });
    worker.on("error", () => {});
  };
}

/** Callers that ask again and again. */
function ask(callers: number, allowed: () => Promise<unknown>): void {
  for (let i = 0; i < callers; i++) {
    void (async () => {
      for (;;) await allowed();
    })();
  }
}
