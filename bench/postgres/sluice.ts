import { Queue, Worker } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import type { Data } from "../queue/bench.ts";
import type { Bench, Finished, PostgresContender } from "./bench.ts";
import { newPool, TableKeeper } from "./database.ts";

type Jobs = { bench: { data: Data; result: unknown } };

/** All tables but the clock, the rules and the listeners. */
export const TABLES = {
  names: ["jobs", "attempts", "log", "lanes", "keys", "claims", "limits", "holds", "starts", "events"].map(
    (table) => `sluice.${table}`,
  ),
  unsettled: "state IN ('waiting', 'scheduled', 'active')",
};

async function open(url: string, concurrency: number, finished: Finished): Promise<Bench> {
  const storage = new PostgresStorage(url);
  await storage.setup();
  const defaults = finished === "deleted" ? { keepFor: 0 } : {};
  const queue = new Queue<Jobs>("bench", { storage, defaults });
  const pool = newPool(url, 1);
  const tables = new TableKeeper(pool, TABLES);
  return {
    add: (data) => queue.add("bench", data),
    addMany: (data) => queue.addBulk(data.map((one) => ({ type: "bench", data: one }))),
    async work(handle) {
      const worker = new Worker("bench", async ({ data }: { data: Data }) => handle(data), { storage, concurrency });
      await worker.start();
      return async () => {
        await worker.stop();
      };
    },
    left: () => tables.left(),
    clear: () => tables.clear(),
    analyze: () => tables.analyze(),
    async close() {
      await storage.close();
      await pool.end();
    },
  };
}

export function sluice(finished: Finished): PostgresContender {
  return {
    name: `sluice${finished === "kept" ? "" : ", keepFor: 0"}`,
    role: "sluice",
    note: finished === "kept" ? "as it comes" : undefined,
    finished,
    server: "postgres",
    open: (url, concurrency) => open(url, concurrency, finished),
  };
}
