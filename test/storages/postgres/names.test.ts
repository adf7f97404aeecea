import pg from "pg";
import { describe, expect, it } from "vitest";
import { defineLimits, Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { opened, poolOf } from "./client-support.ts";
import { Pooler } from "./pooler.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

const KNOWN = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'sluice%'";

describe("named statements", () => {
  it("connections of pg remember statements by name, and one name stands for one text", async () => {
    const pool = poolOf(await temporaryDatabase(), { max: 1 });
    const known = async () => (await pool.query<{ name: string }>(KNOWN)).rows.map(({ name }) => name);
    const storages = [
      new PostgresStorage(pool),
      new PostgresStorage(pool, { schema: "other" }),
      new PostgresStorage(pool, { timeout: 1_000 }),
      new PostgresStorage(pool, { schema: "a_very_long_name_for_a_schema_that_is_allowed_" }),
    ];
    for (const storage of storages) for (let i = 0; i < 3; i++) await storage.add([newJob()]);
    const added = (await known()).filter((name) => name.includes("add_uniform"));
    expect(new Set(added)).toEqual(
      new Set([
        "sluice2:2000:sluice.add_uniform/18",
        "sluice2:2000:other.add_uniform/18",
        "sluice2:400:sluice.add_uniform/18",
      ]),
    );
    for (const storage of storages) await storage.close();
  });

  it("a statement that a session has forgotten is sent without a name, and so are all after it", async () => {
    const pool = poolOf(await temporaryDatabase(), { max: 1 });
    await using storage = new PostgresStorage(pool);
    const jobs = [newJob(), newJob(), newJob()];
    await storage.add([jobs[0]!]);
    await pool.query("DISCARD ALL");
    expect(await storage.add([jobs[1]!])).toEqual([{ id: jobs[1]!.id, created: true }]);
    expect(await storage.add([jobs[2]!])).toEqual([{ id: jobs[2]!.id, created: true }]);
    expect((await pool.query(KNOWN)).rows).toEqual([]);
    expect(storage.retries).toBe(0);
  });

  it.each([
    { code: "26000", turnsOff: true },
    { code: "42P05", turnsOff: true },
    { code: "0A000", routine: "RevalidateCachedQuery", turnsOff: true },
    { code: "0A000", routine: "AnotherRoutine", turnsOff: false },
  ])("are given up where they fail with $code of $routine: $turnsOff", async ({ turnsOff, ...failure }) => {
    let named = 0;
    const Forgetful = class extends pg.Client {
      // oxlint-disable-next-line typescript/no-explicit-any -- as the driver says it
      override query(...args: any[]): any {
        const [statement] = args as [{ readonly name?: string }];
        if (statement.name === undefined) return super.query(...(args as [string]));
        named += 1;
        return Promise.reject(Object.assign(new Error("no"), failure));
      }
    };
    const database = opened(poolOf(await temporaryDatabase(), { Client: Forgetful as unknown as new () => pg.Client }));
    const call = database.call<number>("present");
    if (!turnsOff) return expect(call).rejects.toThrow(/no/);
    expect(await call).toBeGreaterThan(0);
    await database.call("present");
    expect(named).toBe(1);
    expect(database.retries).toBe(0);
  });

  it("no statement is named where another isolation level is the default", async () => {
    const url = await temporaryDatabase();
    await once(
      url,
      `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = 'serializable'`,
    );
    const pool = poolOf(url, { max: 1 });
    await using storage = new PostgresStorage(pool);
    await storage.sweep();
    await storage.settle([]);
    await storage.sweep();
    expect((await pool.query(KNOWN)).rows.length).toBeLessThanOrEqual(1);
  });
});

describe("a pooler in transaction mode that does not know named statements", () => {
  it("every job runs once, whichever statement names a session of the pooler remembers", async () => {
    const { pooler, url } = await Pooler.open(await temporaryDatabase());
    const limits = defineLimits({ all: { max: 15, per: "200ms", types: ["t"] } });
    for (let round = 0; round < 3; round++) {
      await using storage = new PostgresStorage(url, { schema: "sluice" });
      const queue = new Queue("q", { storage, limits });
      const ran: number[] = [];
      await using worker = new Worker<Record<string, { data: number; result: number }>>(
        "q",
        async ({ data }) => {
          ran.push(data);
          return data * 2;
        },
        { storage, concurrency: 5 },
      );
      const jobs = await Promise.all(Array.from({ length: 30 }, (_, n) => queue.add(n % 3 === 0 ? "t" : "u", n)));
      for (let n = 30; n < 40; n++) jobs.push(await queue.add("u", n));
      const results = await Promise.all(jobs.map((job) => job.result({ timeout: "25s" })));
      expect(results).toEqual(jobs.map((_, n) => n * 2));
      expect(ran.toSorted((a, b) => a - b)).toEqual(jobs.map((_, n) => n));
      await worker.stop();
    }
    expect(pooler.transactions).toBeGreaterThan(50);
    // Each storage soon finds that names fail, and sends statements without them.
    expect(pooler.named).toBeGreaterThan(0);
    expect(pooler.named).toBeLessThan(50);
  });
});
