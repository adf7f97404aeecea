import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { type PostgresServer, startPostgres } from "../../../scripts/postgres-server.ts";
import { Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { after, completed, office, until } from "./office.ts";
import { temporaryDatabase } from "./server.ts";

describe("a server that is restarted", () => {
  async function ownServer(): Promise<PostgresServer> {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    return server;
  }

  test.each(["fast", "immediate"] as const)(
    "%s: workers go on within two seconds of its being back, and nothing is lost",
    async (how) => {
      const server = await ownServer();
      const { queue, runs, close } = office(server.url, server.url, { takesMs: 20 });
      const added: string[] = [];
      const stop = new AbortController();
      const producing = (async () => {
        while (!stop.signal.aborted) {
          added.push((await queue.add("t", {})).id);
          await after(5);
        }
      })();
      await until(() => runs.size > 20, 10_000, "work is done");
      for (let round = 0; round < 2; round++) {
        await server.halt(how);
        await after(300);
        const before = new Set(runs.keys());
        await server.resume();
        const took = await until(() => [...runs.keys()].some((id) => !before.has(id)), 5_000, "another job runs");
        expect(took).toBeLessThan(2_000);
        await until(() => runs.size > before.size + 20, 10_000, "work is done again");
      }
      stop.abort();
      await producing;
      await until(async () => (await completed(queue)) === added.length, 20_000, "all jobs are completed");
      const found = await queue.storage.find(added);
      expect(found.filter((job) => job?.state !== "completed")).toEqual([]);
      await close();
    },
    60_000,
  );
});

describe("a pool that is all in use", () => {
  test("jobs whose handlers hold every connection of it keep their leases, and end", async () => {
    const url = await temporaryDatabase();
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    const storage = new PostgresStorage(pool);
    const queue = new Queue("q", { storage });
    let began = 0;
    // Long enough that a busy machine does not keep the worker from renewing it.
    const lease = 2_000;
    const worker = new Worker(
      "q",
      async () => {
        const client = await pool.connect();
        began += 1;
        try {
          await client.query("BEGIN");
          await after(2 * lease);
          await client.query("COMMIT");
        } finally {
          client.release();
        }
      },
      { storage, lease, concurrency: 2, onError: () => {} },
    );
    const events: string[] = [];
    for (const event of ["stalled", "retried", "dead"] as const) worker.on(event, () => events.push(event));
    await queue.addBulk(Array.from({ length: 4 }, () => ({ type: "t", data: {} })));
    await until(async () => (await completed(queue)) === 4, 20_000, "all jobs are completed");
    expect(began).toBe(4);
    expect(events).toEqual([]);
    await worker.stop();
    await storage.close();
    await pool.end();
  });
});
