import type { Bench, Data, QueueContender } from "./bench.ts";
import { type BetterDatabase, load } from "./peers.ts";
import type { Skipped } from "../harness.ts";

const silent = { error() {}, warn() {}, info() {}, debug() {} };

export const plainjob: QueueContender = {
  name: "plainjob",
  role: "peer",
  note: "on better-sqlite3; as many of its workers as run at the same time, without a logger",
  polls: true,
  async create(file, concurrency) {
    const { default: Database } = await load("better-sqlite3");
    const { better, defineQueue, defineWorker } = await load("plainjob");
    const queue = defineQueue({ connection: better(new Database(file)), logger: silent });
    const workers: ReturnType<typeof defineWorker>[] = [];
    const start = (handle: (data: Data) => void, onCompleted: () => void) => {
      const process = async ({ data }: { readonly data: string }) => handle(JSON.parse(data) as Data);
      const worker = defineWorker("bench", process, { queue, logger: silent, onCompleted });
      workers.push(worker);
      void worker.start();
    };
    return {
      add: async (data) => queue.add("bench", data),
      addMany: async (data) => queue.addMany("bench", data),
      drain: (jobs) =>
        new Promise((resolve) => {
          let left = jobs;
          const completed = () => {
            left -= 1;
            if (left === 0) resolve();
          };
          for (let i = 0; i < concurrency; i++) start(() => {}, completed);
        }),
      serve: async (handle) => start(handle, () => {}),
      async close() {
        await Promise.all(workers.map((worker) => worker.stop()));
        queue.close();
      },
    };
  },
};

export const liteque: QueueContender = {
  name: "liteque",
  role: "peer",
  note: "on better-sqlite3, whose check against async transactions is taken out for it: without that it claims nothing",
  noBulk: "it adds one job at a time",
  polls: true,
  atMost: 300,
  async create(file, concurrency) {
    const { buildDBClient, Runner, SqliteQueue } = await load("liteque");
    const client = buildDBClient(file, { runMigrations: true });
    allowAsyncTransactions(client.session.client);
    const queue = new SqliteQueue("bench", client, { defaultJobArgs: { numRetries: 2 }, keepFailedJobs: false });
    let runner: InstanceType<typeof Runner> | undefined;
    const start = (handle: (data: Data) => void) => {
      const run = async ({ data }: { readonly data: unknown }) => handle(data as Data);
      runner = new Runner(queue, { run }, { concurrency, pollIntervalMs: 1_000, timeoutSecs: 600 });
      void runner.run();
    };
    const bench: Bench = {
      add: (data) => queue.enqueue(data),
      async addMany(data) {
        for (const one of data) await queue.enqueue(one);
      },
      drain: (jobs) =>
        new Promise((resolve) => {
          let left = jobs;
          const finalize = queue.finalize.bind(queue);
          queue.finalize = async (...args) => {
            await finalize(...args);
            left -= 1;
            if (left === 0) resolve();
          };
          start(() => {});
        }),
      serve: async (handle) => start(handle),
      // The end of the runner is not observable, so the connection is left open.
      close: async () => runner?.stop(),
    };
    return bench;
  },
};

/** As better-sqlite3 was before it refused them: the transaction is over when the function returns its promise. */
export function allowAsyncTransactions(database: BetterDatabase): void {
  database.transaction = (work) => {
    const run = (...args: unknown[]) => {
      database.exec("BEGIN");
      const answer = work(...args);
      database.exec("COMMIT");
      return answer;
    };
    return Object.assign(run, { deferred: run, immediate: run, exclusive: run });
  };
}

export const notOnSqlite: readonly Skipped[] = [
  { name: "workglow on SQLite", reason: "the npm registry has no @workglow/sqlite, its storage for SQLite" },
  {
    name: "better-queue on SQLite",
    reason: "its store for SQLite needs sqlite3, whose binary is fetched or compiled when it is installed",
  },
];
