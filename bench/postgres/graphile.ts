import type { Data } from "../queue/bench.ts";
import type { Bench, PostgresContender } from "./bench.ts";
import { newPool, TableKeeper } from "./database.ts";
import { type GraphileOptions, load } from "./peers.ts";

const TABLES = {
  names: ["graphile_worker._private_jobs", "graphile_worker._private_job_queues"],
  // A job that is done is deleted.
  unsettled: "true",
};

async function open(url: string, concurrency: number, batching: GraphileOptions): Promise<Bench> {
  const { Logger, makeWorkerUtils, run } = await load("graphile-worker");
  const logger = new Logger(() => () => {});
  // As its documentation recommends.
  const pool = newPool(url, Math.max(10, concurrency + 2));
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  const tables = new TableKeeper(pool, TABLES);
  return {
    add: (data) => utils.addJob("bench", data),
    addMany: (data) => utils.addJobs(data.map((payload) => ({ identifier: "bench", payload }))),
    async work(handle) {
      const runner = await run({
        preset: { worker: { concurrentJobs: concurrency, ...batching } },
        pgPool: pool,
        logger,
        noHandleSignals: true,
        taskList: { bench: async (data) => handle(data as Data) },
      });
      return () => runner.stop();
    },
    left: () => tables.left(),
    clear: () => tables.clear(),
    analyze: () => tables.analyze(),
    async close() {
      await utils.release();
      await pool.end();
    },
  };
}

export const graphile: PostgresContender = {
  name: "graphile-worker",
  role: "peer",
  note: "as it comes",
  finished: "deleted",
  server: "postgres",
  atMost: 1_000,
  open: (url, concurrency) => open(url, concurrency, {}),
};

export const graphileBatched: PostgresContender = {
  name: "graphile-worker, batched",
  role: "peer",
  note:
    "as its page on performance says: `localQueue: { size: 500 }` (so many are taken ahead, whatever runs at a time), " +
    "`completeJobBatchDelay: 0`, `failJobBatchDelay: 0`",
  finished: "deleted",
  server: "postgres",
  open: (url, concurrency) =>
    open(url, concurrency, { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
};
