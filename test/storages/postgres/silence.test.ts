import { fork } from "node:child_process";
import { once as events } from "node:events";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { Proxy } from "../../../chaos/conductor/proxy.ts";
import { Queue, StorageError, Worker } from "../../../src/index.ts";
import type { PostgresDatabase } from "../../../src/storages/postgres/database.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { mutableServer, opened, poolOf, until } from "./client-support.ts";
import { once, temporaryDatabase } from "./server.ts";

/** A schema that looks as if it were ours, with functions that answer with their session, or with its timeout for locks. */
const FUNCTIONS = `CREATE SCHEMA fake; CREATE TABLE fake.migrations (version integer, at timestamptz);
  INSERT INTO fake.migrations VALUES (2, now());
  CREATE FUNCTION fake.pid() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
  CREATE FUNCTION fake.heartbeat_2() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
  CREATE FUNCTION fake.lock_timeout() RETURNS json LANGUAGE sql AS 'SELECT to_json(current_setting(''lock_timeout''))';
  CREATE FUNCTION fake.slow(ms float8) RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid() FROM pg_sleep(ms / 1000)';
  CREATE FUNCTION fake.settle_2(ms float8, again boolean DEFAULT false) RETURNS json LANGUAGE sql AS
    'SELECT json_build_object(''again'', again, ''pid'', pg_backend_pid()) FROM pg_sleep(CASE WHEN again THEN 0 ELSE ms / 1000 END)'`;
const fake = { schema: "fake", migrate: false } as const;

/** A database of its own, and a connection to it that can be stalled. */
async function farDatabase(): Promise<{ readonly url: string; readonly direct: string; readonly proxy: Proxy }> {
  const direct = await temporaryDatabase();
  await once(direct, FUNCTIONS);
  const proxy = await Proxy.open(Number(new URL(direct).port));
  onTestFinished(() => proxy.close());
  const url = new URL(direct);
  url.port = String(proxy.port);
  return { url: url.href, direct, proxy };
}

/** So many connections, all of which have answered. */
const warm = (database: PostgresDatabase, count: number) =>
  Promise.all(Array.from({ length: count }, () => database.call<number>("slow", 100)));

async function took<T>(call: () => Promise<T>): Promise<{ readonly ms: number; readonly answer: T }> {
  const start = performance.now();
  const answer = await call();
  return { ms: performance.now() - start, answer };
}

describe("connections that lead nowhere any more", () => {
  it.each(["url", "pool"])(
    "one attempt is lost, the next one uses a new connection, and no other call uses a dead one (%s)",
    async (kind) => {
      const { url, proxy } = await farDatabase();
      const pool = kind === "pool" ? new pg.Pool({ connectionString: url, max: 5, idleTimeoutMillis: 0 }) : undefined;
      if (pool !== undefined) onTestFinished(() => pool.end());
      const database = opened(pool ?? url, { ...fake, timeout: 4_000 });
      const before = new Set(await warm(database, 5));
      expect(before.size).toBe(5);
      for (const passage of proxy.passages) passage.blackhole();
      const renewed = await took(() => database.call<number>("heartbeat"));
      expect(renewed.ms).toBeLessThan(2_500);
      expect(before).not.toContain(renewed.answer);
      // No other call waits for a dead connection.
      const others = await took(() => Promise.all([1, 2, 3, 4, 5].map(() => database.call<number>("pid"))));
      expect(others.ms).toBeLessThan(900);
      expect(others.answer.filter((pid) => before.has(pid))).toEqual([]);
    },
  );

  it("connections that have answered while this process was held up are kept", async () => {
    const { direct } = await farDatabase();
    let begun = (): void => {};
    class WatchedClient extends pg.Client {
      override query(...given: unknown[]): never {
        const sent = (super.query as (...rest: unknown[]) => unknown).apply(this, given);
        // By then the statement has been sent.
        setImmediate(begun);
        return sent as never;
      }
    }
    const database = opened(poolOf(direct, { max: 1, Client: WatchedClient }), { ...fake, timeout: 400 });
    const before = await database.call<number>("pid");
    // Nothing of this thread runs for longer than an attempt may go unanswered.
    begun = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    expect(await database.call<number>("slow", 50)).toBe(before);
    expect(database.retries).toBe(0);
  });

  it("a statement that is sent again carries a flag that says so", async () => {
    const { url } = await farDatabase();
    const database = opened(url, { ...fake, timeout: 4_000 });
    expect(await database.call("settle", 60_000)).toMatchObject({ again: true });
  });

  it("a dead connection costs no lease", async () => {
    const { url, proxy } = await farDatabase();
    const pool = new pg.Pool({ connectionString: url, max: 5, idleTimeoutMillis: 0 });
    const storage = new PostgresStorage(pool);
    const queue = new Queue<{ t: { data: number; result: number } }>("q", { storage });
    let aborted = false;
    let running = false;
    const worker = new Worker<{ t: { data: number; result: number } }>(
      "q",
      {
        t: async ({ data }, { signal }) => {
          running = true;
          signal.addEventListener("abort", () => (aborted = true));
          await new Promise((resolve) => setTimeout(resolve, 5_000));
          return data;
        },
      },
      { storage, lease: "4s", onError: () => {} },
    );
    onTestFinished(async () => {
      await worker.stop({ timeout: 0 });
      await storage.close();
      await pool.end();
    });
    const job = await queue.add("t", 1);
    await until(() => running, "it to run");
    await Promise.all(Array.from({ length: 5 }, () => pool.query("SELECT pg_sleep(0.1)")));
    for (const passage of proxy.passages) passage.blackhole();
    expect(await job.result({ timeout: 12_000 })).toBe(1);
    expect(aborted).toBe(false);
  });

  it("a dead connection holds up no process when the storage is closed", async () => {
    const { url, fallSilent } = await mutableServer(await temporaryDatabase());
    const child = fork(join(import.meta.dirname, "closing.child.ts"), [url]);
    onTestFinished(() => void child.kill("SIGKILL"));
    await events(child, "message");
    fallSilent();
    child.send("close");
    const { ms } = await took(() => events(child, "exit"));
    expect(ms).toBeLessThan(8_000);
    expect(child.exitCode).toBe(0);
  });
});

describe("a slow connection", () => {
  const long = "x".repeat(1_000_000);

  it("an answer that arrives in pieces is not cut off, though it takes longer than the timeout", async () => {
    const { url, proxy } = await farDatabase();
    const database = opened(url, { ...fake, timeout: 8_000 });
    await database.call("pid");
    const { retries } = database;
    proxy.way = { bandwidth: 110_000 };
    expect(await database.rows("SELECT repeat('x', 1000000) AS said")).toEqual([{ said: long }]);
    expect(database.retries).toBe(retries);
  }, 60_000);

  it("a large request gets the time that sending it takes", async () => {
    const { url, direct, proxy } = await farDatabase();
    await once(direct, "CREATE FUNCTION fake.measure(said text) RETURNS int LANGUAGE sql AS 'SELECT length(said)'");
    const database = opened(url, { ...fake, timeout: 4_000 });
    await database.call("pid");
    proxy.way = { bandwidth: 150_000 };
    expect(await database.call("measure", long)).toBe(long.length);
    expect(database.retries).toBe(0);
  }, 60_000);

  it("an answer that stops in the middle is cut off", async () => {
    const { url, proxy } = await farDatabase();
    const database = opened(url, { ...fake, timeout: 1_000 });
    await database.call("pid");
    proxy.way = { bandwidth: 150_000 };
    const reading = database.rows("SELECT repeat('x', 1000000) AS said");
    const refused = expect(reading).rejects.toThrow(StorageError);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const stop = setInterval(() => {
      for (const passage of proxy.passages) passage.stall();
    }, 10);
    onTestFinished(() => clearInterval(stop));
    await refused;
  }, 60_000);
});

describe("a pool that stops waiting for answers", () => {
  it("a statement whose answer the pool did not wait for is sent again on another connection", async () => {
    const { direct } = await farDatabase();
    const pool = poolOf(direct, { max: 1, query_timeout: 300 });
    const database = opened(pool, fake);
    const first = await database.call<number>("pid");
    const { again, pid } = await database.call<{ again: boolean; pid: number }>("settle", 60_000);
    expect(again).toBe(true);
    expect(pid).not.toBe(first);
  });
});

describe("a call that waits for a lock of another session", () => {
  it("the wait for a lock is limited to a part of the timeout", async () => {
    const { direct } = await farDatabase();
    expect(await opened(direct, fake).call("lock_timeout")).toBe("2s");
    expect(await opened(direct, { ...fake, timeout: 500 }).call("lock_timeout")).toBe("200ms");
  });

  it("a call that has failed waits for no lock on the server", async () => {
    const url = await temporaryDatabase();
    const storage = new PostgresStorage(url, { timeout: 400, connections: 2 });
    onTestFinished(() => storage.close());
    await storage.setup();
    const queue = new Queue<{ t: { data: number; result: number } }>("q", { storage });
    const pool = poolOf(url);
    const client = await pool.connect();
    await client.query("BEGIN");
    await queue.add("t", 1, { idempotencyKey: "k", tx: client });
    for (let i = 0; i < 5; i++) await expect(queue.add("t", 1, { idempotencyKey: "k" })).rejects.toThrow(StorageError);
    await client.query("LOCK TABLE sluice.jobs IN ACCESS EXCLUSIVE MODE");
    for (let i = 0; i < 5; i++) await expect(queue.counts()).rejects.toThrow(StorageError);
    await until(
      async () => {
        const { rows } = await pool.query(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        return rows.length === 0;
      },
      "no session to wait for a lock",
      1_000,
    );
    await client.query("ROLLBACK");
    client.release();
    expect(await queue.counts()).toMatchObject({ waiting: 0 });
  });

  it("calls that wait never use the last connection, which heartbeats need", async () => {
    const { direct } = await farDatabase();
    const pool = poolOf(direct, { max: 1 });
    const held = await pool.connect();
    const database = opened(pool, { ...fake, timeout: 3_000 });
    const stuck = [1, 2, 3, 4].map(() => database.call("slow", 60_000).catch((error: unknown) => error));
    for (let i = 0; i < 3; i++) {
      const { ms } = await took(() => database.call("heartbeat"));
      expect(ms).toBeLessThan(500);
    }
    for (const error of await Promise.all(stuck)) expect(error).toBeInstanceOf(StorageError);
    held.release();
  });
});
