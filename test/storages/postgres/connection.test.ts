import { inspect } from "node:util";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { Proxy } from "../../../chaos/conductor/proxy.ts";
import { OptionsError, Queue, StorageError, Worker } from "../../../src/index.ts";
import type { PostgresPool } from "../../../src/storages/postgres/driver.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { hurried, opened, poolOf, silentServer, until } from "./client-support.ts";
import { once as statement, temporaryDatabase } from "./server.ts";

/** Functions that do what a test needs, in a schema that looks as if it were ours. */
const FUNCTIONS = `CREATE SCHEMA fake; CREATE TABLE fake.migrations (version integer, at timestamptz);
  INSERT INTO fake.migrations VALUES (2, now());
  CREATE FUNCTION fake.ping() RETURNS text LANGUAGE sql AS 'SELECT ''"pong"''';
  CREATE FUNCTION fake.pid() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
  CREATE FUNCTION fake.heartbeat_2() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
  CREATE FUNCTION fake.slow(ms float8) RETURNS text LANGUAGE sql AS 'SELECT ''"done"'' FROM pg_sleep(ms / 1000)';
  CREATE TABLE fake.calls (no serial, again boolean, pid int);
  CREATE FUNCTION fake.settle_2(ms float8, again boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO fake.calls (again, pid) VALUES (again, pg_backend_pid());
    PERFORM pg_sleep(CASE WHEN again THEN 0 ELSE ms / 1000 END);
    RETURN json_build_object('again', again);
  END $$;
  CREATE SEQUENCE fake.tries;
  CREATE FUNCTION fake.clumsy(code text, times int) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE try bigint := nextval('fake.tries');
  BEGIN
    IF try <= times THEN RAISE EXCEPTION 'no' USING ERRCODE = code; END IF;
    RETURN try;
  END $$;
  CREATE FUNCTION fake.strict() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION 'not so' USING ERRCODE = 'SL001';
    END IF;
    RETURN to_json(current_setting('transaction_isolation'));
  END $$`;

async function fakeDatabase(): Promise<string> {
  const url = await temporaryDatabase();
  await statement(url, FUNCTIONS);
  return url;
}

const fake = { schema: "fake", migrate: false } as const;

/** Sessions of this database alone: other files of tests use the same server at the same time. */
const SETTLING = `FROM pg_stat_activity
  WHERE datname = current_database() AND query LIKE '%settle_2(%' AND pid <> pg_backend_pid()`;

/** How many connections there are to the database, beside the one that asks. */
async function connectionsTo(url: string): Promise<number> {
  const [row] = await statement(
    url,
    `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
  );
  return (row as { readonly n: number }).n;
}

async function took(call: () => Promise<unknown>): Promise<{ readonly ms: number; readonly error: unknown }> {
  const start = performance.now();
  const error = await call().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { ms: performance.now() - start, error };
}

describe("the deadline of a call", () => {
  it("a statement that takes too long fails, its connection is ended, and the next call goes through", async () => {
    const url = await fakeDatabase();
    const pool = poolOf(url, { max: 1 });
    const database = opened(pool, { ...fake, timeout: 300 });
    const before = await database.call<number>("pid");
    const { ms, error } = await took(() => database.call("slow", 60_000));
    expect(error).toBeInstanceOf(StorageError);
    expect((error as Error).message).toMatch(/not answered for 0\.[123]\d* s \(slow\)/);
    expect(ms).toBeGreaterThan(250);
    expect(ms).toBeLessThan(2_000);
    expect(await database.call<number>("pid")).not.toBe(before);
  });

  it.each(["url", "pool"])("a connection to a server that never answers fails in time (%s)", async (kind) => {
    const { url } = await silentServer();
    // Not ended by the test: it would wait for its connections.
    const pool = new pg.Pool({ connectionString: url });
    const database = opened(kind === "url" ? url : pool, { ...fake, timeout: 200 });
    for (let i = 0; i < 3; i++) {
      const { ms, error } = await took(() => database.call("ping"));
      expect(error).toBeInstanceOf(StorageError);
      expect(ms).toBeLessThan(2_000);
      expect(inspect(error, { depth: 10 })).not.toContain("secret-word");
    }
  });

  it("a call fails in time where all connections of the pool are taken and no others may be made", async () => {
    const url = await fakeDatabase();
    const pool = poolOf(url, { max: 1 });
    const database = opened(pool, { ...fake, timeout: 200, connections: 0 });
    expect(await database.call("ping")).toBe("pong");
    const held = await pool.connect();
    const { ms, error } = await took(() => database.call("ping"));
    expect(error).toBeInstanceOf(StorageError);
    expect((error as Error).message).toMatch(/no connection/);
    expect(ms).toBeLessThan(2_000);
    held.release();
    expect(await database.call("ping")).toBe("pong");
    expect(pool.waitingCount).toBe(0);
  });

  it("the deadline goes by the clock of the options", async () => {
    const database = opened(await fakeDatabase(), { ...fake, timeout: 60_000, clock: hurried(200) });
    await database.call("ping");
    const { ms, error } = await took(() => database.call("slow", 60_000));
    expect(error).toBeInstanceOf(StorageError);
    expect(ms).toBeLessThan(5_000);
  });
});

describe("while the user holds every connection of the pool", () => {
  it("every call goes through, over two more connections at most", async () => {
    const url = await fakeDatabase();
    const pool = poolOf(url, { max: 2 });
    const held = [await pool.connect(), await pool.connect()];
    const database = opened(pool, fake);
    const answers = await Promise.all(Array.from({ length: 50 }, () => database.call("ping")));
    expect(answers).toEqual(Array.from({ length: 50 }, () => "pong"));
    expect(await connectionsTo(url)).toBeLessThanOrEqual(4);
    // The requests of calls that were given up do not stay in the queue of the pool.
    expect(pool.waitingCount).toBeLessThanOrEqual(50);
    for (const client of held) client.release();
    await until(() => pool.waitingCount === 0, "the queue of the pool to be empty");
    expect(await database.call("ping")).toBe("pong");
    await until(() => pool.idleCount === 2, "the pool to have all of them");
  });

  it("handlers that hold them all add jobs, and wait for their results", async () => {
    const url = await temporaryDatabase();
    const pool = poolOf(url, { max: 2 });
    const storage = new PostgresStorage(pool);
    onTestFinished(() => storage.close());
    const queue = new Queue<{ outer: { data: number; result: number }; inner: { data: number; result: number } }>("q", {
      storage,
    });
    const worker = new Worker<{ outer: { data: number; result: number }; inner: { data: number; result: number } }>(
      "q",
      {
        outer: async ({ data }) => {
          const client = await pool.connect();
          try {
            return await (await queue.add("inner", data)).result();
          } finally {
            client.release();
          }
        },
        inner: async ({ data }) => data * 2,
      },
      { storage, concurrency: 4, lease: "3s" },
    );
    onTestFinished(() => worker.stop({ timeout: 0 }));
    const held = await pool.connect();
    const jobs = await Promise.all([queue.add("outer", 1), queue.add("outer", 2)]);
    expect(await Promise.all(jobs.map((job) => job.result({ timeout: 15_000 })))).toEqual([2, 4]);
    held.release();
  });

  it("requests for connections that were not met do not pile up in the pool", async () => {
    const pool = poolOf(await fakeDatabase(), { max: 1 });
    const held = await pool.connect();
    const database = opened(pool, fake);
    for (let i = 0; i < 30; i++) await database.call("ping");
    expect(pool.waitingCount).toBeLessThanOrEqual(1);
    held.release();
  });

  it("a call that is stuck does not hold up a heartbeat", async () => {
    const pool = poolOf(await fakeDatabase(), { max: 1 });
    const held = await pool.connect();
    const database = opened(pool, { ...fake, timeout: 2_000 });
    const stuck = took(() => database.call("slow", 60_000));
    const { ms, error } = await took(() => database.call("heartbeat"));
    expect(error).toBeUndefined();
    expect(ms).toBeLessThan(1_000);
    expect((await stuck).error).toBeInstanceOf(StorageError);
    held.release();
  });

  it("connections of our own are ended with the storage, and the pool stays open", async () => {
    const url = await fakeDatabase();
    const pool = poolOf(url, { max: 1 });
    const held = await pool.connect();
    const listeners = pool.listenerCount("error");
    const database = opened(pool, fake);
    await database.call("ping");
    expect(await connectionsTo(url)).toBe(2);
    await database.close();
    await until(async () => (await connectionsTo(url)) === 1, "only the connection of the pool");
    expect(pool.listenerCount("error")).toBe(listeners);
    held.release();
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await expect(database.call("ping")).rejects.toThrow(/closed/);
  });
});

describe("connections that cannot be made", () => {
  it("a malformed URL is refused with an error that shows nothing of it", () => {
    for (const url of ["mysql://me:secret-word@host/db", "postgres://me:secret-word@ho st/db", "secret-word"]) {
      const make = () => new PostgresStorage(url);
      expect(make).toThrow(OptionsError);
      try {
        make();
      } catch (error) {
        expect(inspect(error, { depth: 10 })).not.toContain("secret-word");
      }
    }
    expect(() => new PostgresStorage({} as pg.Pool)).toThrow(/a pool of `pg`/);
  });

  it("the options of a pool are not a pool, and the error shows nothing of them", () => {
    const config = { connectionString: "postgres://me:secret-word@host/db", password: "secret-word" };
    const make = () => new PostgresStorage(config as unknown as pg.Pool);
    expect(make).toThrow(OptionsError);
    try {
      make();
    } catch (error) {
      expect(inspect(error, { depth: 10 })).not.toContain("secret-word");
    }
  });

  it("a single client is refused as a pool", () => {
    const client = new pg.Client({ connectionString: "postgres://me:secret-word@127.0.0.1:1/db" });
    expect(() => new PostgresStorage(client as unknown as pg.Pool)).toThrow(/got "a client"/);
  });

  it.each([
    ["gives nothing", async () => undefined],
    ["gives what cannot be given back", async () => ({ query: async () => ({ rows: [] }) })],
    ["never gives anything", () => new Promise(() => {})],
  ])("a pool that %s: the call fails in time", async (_, connect) => {
    const pool = { query: async () => ({ rows: [] }), connect } as unknown as PostgresPool;
    const { ms, error } = await took(() => opened(pool, { ...fake, timeout: 300 }).call("ping"));
    expect(error).toBeInstanceOf(StorageError);
    expect(ms).toBeLessThan(1_500);
  });

  it("a listener that throws when a connection is given back disturbs no call", async () => {
    const pool = poolOf(await fakeDatabase(), { max: 1 });
    const connect = async () => {
      const client = await pool.connect();
      const release = (destroy?: boolean) => {
        client.release(destroy);
        throw new Error("no good listener");
      };
      return { query: (text: string, values?: unknown[]) => client.query(text, values), release };
    };
    const database = opened({ query: (text, values) => pool.query(text, values), connect }, fake);
    for (let i = 0; i < 3; i++) expect(await database.call("ping")).toBe("pong");
  });

  it("calls that got no connection do not stay in the queue of the pool", async () => {
    const pool = poolOf(await fakeDatabase(), { max: 1 });
    const held = await pool.connect();
    const database = opened(pool, { ...fake, timeout: 50, connections: 0 });
    for (let i = 0; i < 10; i++) await expect(database.call("ping")).rejects.toThrow(/no connection/);
    expect(pool.waitingCount).toBeLessThanOrEqual(3);
    held.release();
    expect(await database.call("ping")).toBe("pong");
  });

  it.each([
    ["a host that does not exist", "postgres://me:secret-word@no-such-host.invalid/db"],
    ["a port that is closed", "postgres://me:secret-word@127.0.0.1:1/db"],
  ])("%s: the first call fails at once, and the error does not show the password", async (_, url) => {
    const { ms, error } = await took(() => opened(url, fake).call("ping"));
    expect(error).toBeInstanceOf(StorageError);
    expect(ms).toBeLessThan(5_000);
    expect(inspect(error, { depth: 10 })).not.toContain("secret-word");
  });

  it.each(["pg_mine", "Upper", "a-b", 'a"b', "1a", "", "a".repeat(49), "ä"])(
    "the schema name %j is refused",
    (schema) => {
      expect(() => new PostgresStorage("postgres://127.0.0.1/db", { schema })).toThrow(OptionsError);
    },
  );
});

describe("a connection that breaks", () => {
  it("during a call: the call is repeated, with a flag that says that it may have happened before", async () => {
    const url = await fakeDatabase();
    const database = opened(poolOf(url, { max: 3 }), fake);
    const answer = database.call("settle", 30_000);
    const other = database.call("slow", 1);
    await until(
      async () => (await statement(url, `SELECT 1 ${SETTLING} AND state = 'active'`)).length > 0,
      "the call to run",
    );
    await statement(url, `SELECT pg_terminate_backend(pid) ${SETTLING}`);
    expect(await answer).toEqual({ again: true });
    expect(await other).toBe("done");
    expect(database.retries).toBe(1);
  });

  it("while it is idle: no call fails", async () => {
    const url = await fakeDatabase();
    const pool = new pg.Pool({ connectionString: url, max: 3 });
    onTestFinished(() => pool.end());
    const database = opened(pool, fake);
    const own = opened(url, fake);
    await Promise.all([1, 2, 3].flatMap(() => [database.call("slow", 50), own.call("slow", 50)]));
    // The only listener to the errors of this pool is that of the storage.
    await statement(
      url,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    expect(await database.call("ping")).toBe("pong");
    expect(await own.call("ping")).toBe("pong");
  });

  it("again and again: the call fails at its deadline", async () => {
    const url = await fakeDatabase();
    const database = opened(poolOf(url), { ...fake, timeout: 400 });
    await database.call("ping");
    const { error, ms } = await took(() => database.call("clumsy", "57P01", 1_000_000));
    expect(error).toBeInstanceOf(StorageError);
    expect(ms).toBeLessThan(2_000);
    expect(database.retries).toBeGreaterThan(2);
  });
});

describe("closing", () => {
  it("close does not wait for a server that does not answer any more", async () => {
    const url = new URL(await fakeDatabase());
    const proxy = await Proxy.open(Number(url.port));
    onTestFinished(() => proxy.close());
    url.port = String(proxy.port);
    const database = opened(url.href, { ...fake, timeout: 4_000 });
    await database.call("ping");
    const never = took(() => database.call("slow", 60_000));
    for (const passage of proxy.passages) passage.blackhole();
    const { ms } = await took(() => database.close());
    expect(ms).toBeLessThan(3_500);
    expect((await never).error).toBeInstanceOf(StorageError);
  });
});

describe("errors of the server", () => {
  it.each(["40001", "40P01", "55P03"])("a call that failed with SQLSTATE %s is tried again", async (code) => {
    const database = opened(await fakeDatabase(), fake);
    expect(await database.call("clumsy", code, 3)).toBe(4);
    expect(database.retries).toBe(3);
  });

  it("a call that failed with a permanent error is not tried again", async () => {
    const database = opened(await fakeDatabase(), fake);
    await expect(database.call("clumsy", "22012", 3)).rejects.toThrow(/Postgres: no \(clumsy\)/);
    expect(database.retries).toBe(0);
  });
});

describe("other isolation levels", () => {
  it.each(["repeatable read", "serializable"])("%s by default: every step runs under read committed", async (level) => {
    const url = new URL(await fakeDatabase());
    url.searchParams.set("options", `-c default_transaction_isolation=${level.replace(" ", String.raw`\ `)}`);
    const database = opened(url.href, fake);
    for (let i = 0; i < 3; i++) expect(await database.call("strict")).toBe("read committed");
    expect(await database.rows("SELECT current_setting('transaction_isolation') AS level")).toEqual([{ level }]);
    // A failure inside of the transaction leaves no connection in it.
    await expect(database.call("clumsy", "22012", 1)).rejects.toThrow(/no/);
    expect(await database.call("clumsy", "40001", 3)).toBe(4);
  });
});
