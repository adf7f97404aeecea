import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, it, onTestFinished, vi } from "vitest";
import { DuplicateJobError, OptionsError, Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage, type PostgresTransaction } from "../../../src/storages/postgres/index.ts";
import { runIn } from "../../../src/storages/postgres/tx.ts";
import { createDatabase } from "./server.ts";

let database: Awaited<ReturnType<typeof createDatabase>>;
let pool: pg.Pool;
let storage: PostgresStorage;
beforeAll(async () => {
  database = await createDatabase();
  pool = new pg.Pool({ connectionString: database.url, max: 8 });
  pool.on("error", () => {});
  storage = new PostgresStorage(pool);
  await storage.setup();
  await pool.query("CREATE TABLE orders (id int PRIMARY KEY)");
});
afterAll(async () => {
  await storage.close();
  await pool.end();
  await database.drop();
});

let queue: Queue;
let names = 0;
beforeEach(() => {
  names += 1;
  queue = new Queue(`orders-${names}`, { storage });
});

/** A client of the pool with an open transaction, which is ended with the test. */
async function begun(how = "BEGIN"): Promise<pg.PoolClient> {
  const client = await pool.connect();
  let broken = false;
  const onError = () => void (broken = true);
  client.on("error", onError);
  onTestFinished(async () => {
    vi.restoreAllMocks();
    if (!broken) await client.query("ROLLBACK").catch(() => {});
    client.release(broken);
    client.off("error", onError);
  });
  await client.query(how);
  return client;
}

const waiting = async () => (await queue.counts()).waiting;

/** Resolves when some session waits for a lock. */
async function untilSomebodyWaits(): Promise<void> {
  await vi.waitFor(
    async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      expect(rows).not.toEqual([]);
    },
    { timeout: 10_000 },
  );
}

describe("jobs that are added in a transaction", () => {
  it("jobs appear when the transaction commits, and are invisible before", async () => {
    const tx = await begun();
    await tx.query("INSERT INTO orders VALUES (1)");
    const first = await queue.add("ship", { order: 1 }, { tx });
    const more = await queue.addBulk(
      [
        { type: "bill", data: 1 },
        { type: "thank", data: 1 },
      ],
      { tx },
    );
    expect([first, ...more].map(({ created }) => created)).toEqual([true, true, true]);
    expect(await waiting()).toBe(0);
    expect(await storage.find([first.id])).toEqual([undefined]);
    const claim = { queue: queue.name, worker: "w", max: 10, types: null, leaseMs: 1_000, limits: [], settle: [] };
    expect(await storage.claim(claim)).toMatchObject({ jobs: [], more: false });
    await tx.query("COMMIT");
    expect(await waiting()).toBe(3);
    expect((await storage.claim(claim)).jobs.map(({ type }) => type)).toEqual(["ship", "bill", "thank"]);
  });

  it("jobs can be waited for once the transaction has committed, and run", async () => {
    const tx = await begun();
    const job = await queue.add("double", 21, { tx });
    await tx.query("COMMIT");
    await using _worker = new Worker(queue.name, async ({ data }) => (data as number) * 2, { storage });
    expect(await job.result({ timeout: "10s" })).toBe(42);
  });

  it("jobs are gone when the transaction rolls back, as a whole or to a savepoint", async () => {
    const tx = await begun();
    await queue.add("kept", 1, { tx });
    await tx.query("SAVEPOINT here");
    const lost = await queue.add("lost", 1, { tx });
    await tx.query("ROLLBACK TO here");
    await tx.query("COMMIT");
    expect(await waiting()).toBe(1);
    expect(await lost.info()).toBeUndefined();

    await tx.query("BEGIN");
    await queue.addBulk(
      [
        { type: "a", data: 1 },
        { type: "b", data: 1 },
      ],
      { tx },
    );
    await tx.query("ROLLBACK");
    expect(await waiting()).toBe(1);
  });

  it("jobs are gone when the connection of the transaction is killed", async () => {
    const tx = await begun();
    await queue.addBulk(
      [
        { type: "a", data: 1 },
        { type: "b", data: 2 },
        { type: "c", data: 3 },
      ],
      { tx },
    );
    const { rows } = await tx.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const gone = new Promise<void>((resolve) => tx.once("error", () => resolve()));
    await pool.query("SELECT pg_terminate_backend($1)", [rows[0]!.pid]);
    await gone;
    expect(await waiting()).toBe(0);
  });

  it.each(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])("jobs are added under %s", async (level) => {
    const tx = await begun(`BEGIN ISOLATION LEVEL ${level}`);
    await tx.query("SELECT count(*) FROM orders");
    // Other statements go on meanwhile, and nothing that they write is in the way.
    for (let i = 0; i < 3; i++) await queue.add("other", i, { idempotencyKey: `other-${i}` });
    await queue.add("own", 1, { tx });
    await queue.add("own", 1, { tx, idempotencyKey: "own", delay: "1h" });
    await queue.add("other", 3);
    await tx.query("COMMIT");
    expect(await queue.counts()).toMatchObject({ waiting: 5, scheduled: 1 });
  });

  it("an open transaction that adds jobs holds up no other call", async () => {
    const tx = await begun();
    await queue.addBulk(
      [
        { type: "t", data: 1, options: { group: "g" } },
        { type: "t", data: 2 },
      ],
      { tx },
    );
    const other = await queue.add("t", 3, { group: "g" });
    await using _worker = new Worker(queue.name, async ({ data }) => data, { storage });
    expect(await other.result({ timeout: "10s" })).toBe(3);
    await tx.query("COMMIT");
  });

  it("a transaction that adds jobs notifies workers when it commits", async () => {
    const payloads: string[] = [];
    const ear = new pg.Client({ connectionString: database.url });
    await ear.connect();
    onTestFinished(() => ear.end());
    await ear.query('LISTEN "sluice:sluice"');
    const notified = new Promise<void>((resolve) => {
      ear.on("notification", ({ payload = "" }) => {
        if (!payload.includes(queue.name)) return;
        payloads.push(payload);
        resolve();
      });
    });
    // Without a listener no notification is sent; the next step waits until the listener is known.
    onTestFinished(storage.subscribe({ queue: queue.name, wake: () => {} }));
    await queue.counts();

    const tx = await begun();
    await queue.add("t", 1, { tx });
    // A notification that was sent before would come with the answer to this statement.
    await ear.query("SELECT 1");
    expect(payloads).toEqual([]);
    await tx.query("COMMIT");
    await notified;
    expect(payloads).toHaveLength(1);
  });

  it("jobs of a transaction start at once in a worker that sleeps", async () => {
    await using other = new PostgresStorage(database.url);
    await using _worker = new Worker(queue.name, async () => "done", { storage: other });
    const tx = await begun();
    const job = await queue.add("t", 1, { tx });
    await tx.query("COMMIT");
    expect(await job.result({ timeout: "4s" })).toBe("done");
  });
});

describe("idempotency keys in a transaction", () => {
  it("a key is seen by later calls in the transaction, and free again when it rolls back", async () => {
    const tx = await begun();
    const first = await queue.add("t", 1, { tx, idempotencyKey: "k" });
    const again = await queue.add("t", 1, { tx, idempotencyKey: "k" });
    expect(again).toMatchObject({ id: first.id, created: false });
    await tx.query("ROLLBACK");
    const free = await queue.add("t", 1, { idempotencyKey: "k" });
    expect(free.created).toBe(true);
    expect(free.id).not.toBe(first.id);
  });

  it.each(["COMMIT", "ROLLBACK"])(
    "a call with the key of an open transaction waits until that ends by %s",
    async (end) => {
      const tx = await begun();
      const holder = await queue.add("t", 1, { tx, idempotencyKey: "k" });
      const waits = queue.add("t", 1, { idempotencyKey: "k" });
      await untilSomebodyWaits();
      await tx.query(end);
      const job = await waits;
      expect(job.created).toBe(end === "ROLLBACK");
      expect(job.id === holder.id).toBe(end === "COMMIT");
      expect(await waiting()).toBe(1);
    },
  );

  it("a key goes to one of two transactions, and the other is rolled back", async () => {
    const [one, two] = [await begun(), await begun()];
    await queue.add("t", 1, { tx: one, idempotencyKey: "k" });
    const second = queue.add("t", 1, { tx: two, idempotencyKey: "k" });
    await untilSomebodyWaits();
    await one.query("ROLLBACK");
    expect((await second).created).toBe(true);
    await two.query("COMMIT");
    expect(await waiting()).toBe(1);
  });

  it("a refused key leaves the transaction as it was", async () => {
    const earlier = await queue.add("t", 1, { idempotencyKey: "k" });
    const tx = await begun();
    await tx.query("INSERT INTO orders VALUES (2)");
    const refused = queue.addBulk(
      [
        { type: "t", data: 1 },
        { type: "t", data: 1, options: { idempotencyKey: "k", onDuplicate: "reject" } },
      ],
      { tx },
    );
    await expect(refused).rejects.toThrow(DuplicateJobError);
    await expect(refused).rejects.toMatchObject({ id: earlier.id });
    await queue.add("instead", 1, { tx });
    await tx.query("COMMIT");
    expect((await pool.query("SELECT FROM orders WHERE id = 2")).rowCount).toBe(1);
    const { jobs } = await queue.list();
    expect(jobs.map(({ type }) => type)).toEqual(["instead", "t"]);
  });
});

describe("errors in a transaction", () => {
  it("an error of the server reaches the user as the driver reports it, and is not tried again", async () => {
    const tx = await begun("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await tx.query("SELECT 1 FROM orders");
    await queue.add("t", 1, { idempotencyKey: "k" });
    const query = vi.spyOn(tx, "query");
    // Another transaction has taken the key since this one began: it cannot go on, and its owner knows what to do.
    await expect(queue.add("t", 1, { tx, idempotencyKey: "k" })).rejects.toMatchObject({ code: "40001" });
    expect(query).toHaveBeenCalledOnce();
    await expect(queue.add("t", 1, { tx })).rejects.toMatchObject({ code: "25P02" });
    expect(query).toHaveBeenCalledTimes(2);
    await tx.query("ROLLBACK");
    expect(await waiting()).toBe(1);
  });

  it("an invalid job is refused before anything is sent", async () => {
    const tx = await begun();
    const query = vi.spyOn(tx, "query");
    await expect(queue.add("t", 1, { tx, delay: -1 })).rejects.toThrow(OptionsError);
    await expect(queue.add("t", Number.NaN, { tx })).rejects.toThrow(OptionsError);
    expect(query).not.toHaveBeenCalled();
  });

  it("an add changes neither the isolation nor the settings nor the role of the transaction", async () => {
    const tx = await begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await tx.query("SET LOCAL lock_timeout = '7s'; SET LOCAL search_path = pg_catalog");
    await queue.add("t", 1, { tx, idempotencyKey: "k" });
    const { rows } = await tx.query<Record<string, string>>(
      "SELECT current_setting('lock_timeout') AS lock, current_setting('search_path') AS path",
    );
    expect(rows).toEqual([{ lock: "7s", path: "pg_catalog" }]);
    await tx.query("COMMIT");
    expect(await waiting()).toBe(1);
  });
});

/* The real ones were looked at, and are like this. No library is a dependency of the tests. */
describe("transactions are known by their shape", () => {
  const asked: unknown[] = [];
  const rows = [{ answer: "yes" }];
  const list = async (...args: unknown[]) => {
    asked.push(args);
    return rows;
  };
  const answer = async (...args: unknown[]) => ({ rows: await list(...args) });
  const method = () => {};
  const kyselyBase = { selectFrom: method, executeQuery: answer };
  const drizzleBase = { execute: method, select: method, transaction: method };
  const postgresJs = Object.assign(method.bind(null), { unsafe: list, savepoint: method });

  beforeEach(() => void asked.splice(0));

  it.each<[string, object, unknown]>([
    ["pg", { query: answer }, ["SELECT $1", ["v"]]],
    ["pg that says it has one", { query: answer, getTransactionStatus: () => "T" }, ["SELECT $1", ["v"]]],
    ["pg that cannot say", { query: answer, getTransactionStatus: () => null }, ["SELECT $1", ["v"]]],
    ["postgres.js", postgresJs, ["SELECT $1", ["v"]]],
    ["Drizzle", { ...drizzleBase, rollback: method, session: { client: { query: answer } } }, ["SELECT $1", ["v"]]],
    [
      "Drizzle, older",
      { ...drizzleBase, rollback: method, _: { session: { client: postgresJs } } },
      ["SELECT $1", ["v"]],
    ],
    [
      "Kysely",
      { ...kyselyBase, isTransaction: true },
      [
        expect.objectContaining({
          sql: "SELECT $1",
          parameters: ["v"],
          query: { kind: "RawNode", sqlFragments: ["SELECT $1"], parameters: [] },
        }),
      ],
    ],
    ["Prisma", { $queryRawUnsafe: list, $transaction: method }, ["SELECT $1", "v"]],
  ])("%s", async (_, tx, call) => {
    expect(await runIn(tx)("SELECT $1", "v")).toEqual(rows);
    expect(asked).toEqual([call]);
  });

  it("the plugins of a Kysely instance do not apply", async () => {
    const plugged = {
      ...kyselyBase,
      isTransaction: true,
      withoutPlugins: () => ({ executeQuery: async () => ({ rows: [1] }) }),
    };
    expect(await runIn(plugged)("SELECT $1", "v")).toEqual([1]);
    expect(asked).toEqual([]);
  });

  it.each<[string, unknown, RegExp]>([
    ["a pool", { query: answer, totalCount: 1, idleCount: 0 }, /this is a pool: BEGIN on a client of it/],
    [
      "a client without one",
      { query: answer, getTransactionStatus: () => "I" },
      /no transaction is open on this client/,
    ],
    ["postgres.js itself", Object.assign(() => {}, { unsafe: list, begin: method }), /use what sql\.begin/],
    ["Drizzle itself", { ...drizzleBase, session: { client: { query: answer } } }, /this is Drizzle itself/],
    [
      "a Drizzle on something else",
      { ...drizzleBase, rollback: method, session: {} },
      /this driver of Drizzle is not known/,
    ],
    ["Kysely itself", { ...kyselyBase, isTransaction: false }, /this is Kysely itself/],
    ["a Prisma client", { $queryRawUnsafe: list, $connect: method }, /this is a Prisma client/],
    ["something else", { commit: method }, /got an object$/],
    ["nothing", null, /got null$/],
  ])("%s is none", (_, tx, message) => {
    expect(() => runIn(tx)).toThrow(OptionsError);
    expect(() => runIn(tx)).toThrow(/^add: expected `tx` to be an open transaction/);
    expect(() => runIn(tx)).toThrow(message);
    expect(asked).toEqual([]);
  });

  it("pools and clients of pg without an open transaction are refused", async () => {
    await expect(queue.add("t", 1, { tx: pool })).rejects.toThrow("this is a pool");
    const client = await begun();
    await client.query("ROLLBACK");
    await expect(queue.add("t", 1, { tx: client })).rejects.toThrow("BEGIN first");
    expect(await waiting()).toBe(0);
  });

  it("the shapes of transactions fit their types", () => {
    expectTypeOf<pg.PoolClient>().toExtend<PostgresTransaction>();
    expectTypeOf<pg.Client>().toExtend<PostgresTransaction>();
    expectTypeOf<number>().not.toExtend<PostgresTransaction>();
  });
});
