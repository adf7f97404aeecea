import type { Data } from "../queue/bench.ts";
import { sleep } from "../queue/temporary.ts";
import type { Bench, PostgresContender } from "./bench.ts";
import { newPool, TableKeeper } from "./database.ts";
import { load, type PgBoss } from "./peers.ts";

const TABLES = { names: ["pgboss.job"], unsettled: "state < 'completed'" };

type Work = (boss: PgBoss, handle: (data: Data) => void) => Promise<() => Promise<void>>;

async function open(url: string, work: Work): Promise<Bench> {
  const { PgBoss } = await load("pg-boss");
  const boss = new PgBoss({
    connectionString: url,
    max: 10,
    supervise: false,
    schedule: false,
    useListenNotify: true,
  });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue("bench", { notify: true });
  const pool = newPool(url, 1);
  const tables = new TableKeeper(pool, TABLES);
  return {
    add: (data) => boss.send("bench", data),
    addMany: (data) =>
      boss.insert(
        "bench",
        data.map((one) => ({ data: one })),
      ),
    work: (handle) => work(boss, handle),
    left: () => tables.left(),
    clear: () => tables.clear(),
    analyze: () => tables.analyze(),
    async close() {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

/** One loop: fetch, handle, complete. */
const byHand =
  (batchSize: number): Work =>
  async (boss, handle) => {
    const stop = new AbortController();
    const loop = async () => {
      while (!stop.signal.aborted) {
        const jobs = await boss.fetch("bench", { batchSize });
        await Promise.all(jobs.map(async ({ data }) => handle(data as Data)));
        if (jobs.length > 0)
          await boss.complete(
            "bench",
            jobs.map(({ id }) => id),
          );
        else await sleep(5);
      }
    };
    const ended = loop();
    return async () => {
      stop.abort();
      await ended;
    };
  };

/** A worker of its own, woken by NOTIFY. */
const byItself =
  (batchSize: number): Work =>
  async (boss, handle) => {
    await boss.work("bench", { batchSize, burstWhenBatchFull: batchSize > 1 }, async (jobs) => {
      for (const { data } of jobs) handle(data as Data);
    });
    return () => boss.offWork("bench", { wait: true });
  };

export const pgBossByHand: PostgresContender = {
  name: "pg-boss, fetch and complete",
  role: "peer",
  note: "batched by hand: `fetch` with as many as run at a time, `complete` for all of them",
  finished: "kept",
  server: "postgres",
  open: (url, concurrency) => open(url, byHand(concurrency)),
};

export const pgBoss: PostgresContender = {
  name: "pg-boss, work",
  role: "peer",
  note: "`batchSize` as many as run at a time, `burstWhenBatchFull`, LISTEN and NOTIFY",
  finished: "kept",
  server: "postgres",
  open: (url, concurrency) => open(url, byItself(concurrency)),
};
