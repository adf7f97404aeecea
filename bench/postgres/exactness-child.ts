import pg from "pg";
import { Worker } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { sharedNow, sleep } from "../queue/temporary.ts";
import { GUARD, type Limited } from "./limited.ts";
import { type BullMq, type BullMqConnection, load } from "./peers.ts";

// One of several processes under one limit. It starts what it may for so long, and then says when that was.
const [kind = "", url = "", max = "", duration = "", seconds = ""] = process.argv.slice(2);
const window = { max: Number(max), duration: Number(duration) };
const concurrency = 2 * window.max;
const starts: number[] = [];
const port = Number(new URL(url).port);

/** What is called under the limit. */
async function start(): Promise<number> {
  const now = sharedNow();
  starts.push(now);
  return now;
}

/** Callers that ask again and again. */
function ask(allowed: () => Promise<unknown>): void {
  for (let i = 0; i < concurrency; i++) {
    void (async () => {
      for (;;) await allowed();
    })();
  }
}

/** Each gets everything ready, and answers with what begins. */
const kinds: Record<Limited, () => Promise<() => unknown>> = {
  sluice: () => sluice(0),
  "sluice, guarded": () => sluice(GUARD),
  async "rate-limiter-flexible"() {
    const { RateLimiterPostgres, RateLimiterQueue } = await load("rate-limiter-flexible");
    const storeClient = new pg.Pool({ connectionString: url, max: 10 });
    const options = { storeClient, tableName: "rates", points: window.max, duration: window.duration / 1_000 };
    const limiter = await new Promise<object>((resolve, reject) => {
      const made = new RateLimiterPostgres(options, (error) => (error === undefined ? resolve(made) : reject(error)));
    });
    const queue = new RateLimiterQueue(limiter);
    return () =>
      ask(async () => {
        await queue.removeTokens(1);
        await start();
      });
  },
  async "BullMQ on Postgres"() {
    const { createPostgresBackend, withBackend } = await load("bullmq");
    return bullMq(withBackend(createPostgresBackend), { connectionString: url, max: 10, migrate: true });
  },
  async "BullMQ on Redis"() {
    return bullMq(await load("bullmq"), { host: "127.0.0.1", port });
  },
  async "Bottleneck on Redis"() {
    const { default: Bottleneck } = await load("bottleneck");
    const limiter = new Bottleneck({
      id: "bench",
      datastore: "ioredis",
      clientOptions: { host: "127.0.0.1", port },
      // It looks at its reservoir this often: 5 s as it comes.
      heartbeatInterval: 100,
      reservoir: window.max,
      reservoirRefreshAmount: window.max,
      reservoirRefreshInterval: window.duration,
    });
    await limiter.ready();
    return () => ask(() => limiter.schedule(start));
  },
};

async function sluice(guard: number): Promise<() => unknown> {
  const storage = new PostgresStorage(url);
  await storage.setup();
  return () => new Worker("bench", start, { storage, concurrency, limiter: { ...window, guard } }).start();
}

async function bullMq(classes: Pick<BullMq, "Queue" | "Worker">, connection: BullMqConnection): Promise<() => unknown> {
  const queue = new classes.Queue("bench", { connection });
  queue.on("error", () => {});
  await queue.waitUntilReady();
  return () => {
    const worker = new classes.Worker("bench", start, { connection, concurrency, limiter: window });
    worker.on("error", () => {});
  };
}

const begin = await kinds[kind as Limited]();

async function run(): Promise<void> {
  await begin();
  await sleep(Number(seconds) * 1_000);
  process.send!({ starts }, () => process.exit());
}

process.once("message", () => void run());
process.on("disconnect", () => process.exit());
process.send!("ready");
