import type pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { opened, poolOf, until } from "./client-support.ts";
import { temporaryDatabase } from "./server.ts";

const SETTINGS = `SELECT current_setting('search_path') AS path, current_setting('application_name') AS name,
  pg_backend_pid() AS pid`;
interface Settings {
  readonly path: string;
  readonly name: string;
  readonly pid: number;
}

/** A pool of one connection that the user holds, and the hooks of the user for new ones. */
async function heldPool(config: object = {}) {
  const pool = poolOf(await temporaryDatabase(), { max: 1, ...config });
  const held = await pool.connect();
  onTestFinished(() => held.release());
  return { pool, held };
}

describe("connections beside a pool of the user's", () => {
  it("connections of the reserve are prepared as those of the pool are", async () => {
    const onConnect = async (client: pg.ClientBase): Promise<void> => {
      await client.query("SET search_path = pg_catalog");
    };
    const { pool, held } = await heldPool({ onConnect });
    pool.on("connect", (client) => void client.query("SET application_name = 'prepared'"));
    const database = opened(pool);
    const { rows } = await held.query<Settings>(SETTINGS);
    const [seen] = await database.rows<Settings>(SETTINGS);
    expect(seen).toMatchObject({ path: "pg_catalog", name: "prepared" });
    expect(seen!.pid).not.toBe(rows[0]!.pid);
    const own = await database.own();
    expect((await own!.query(SETTINGS)).rows).toMatchObject([{ path: "pg_catalog", name: "prepared" }]);
    await own!.end();
  });

  it("connections that cannot be prepared are not used", async () => {
    let fails = false;
    const onConnect = async (): Promise<void> => {
      if (fails) throw new Error("no such role");
    };
    const { pool } = await heldPool({ onConnect });
    const database = opened(pool);
    fails = true;
    await expect(database.rows(SETTINGS)).rejects.toThrow(/no such role/);
    await expect(database.own()).rejects.toThrow(/no such role/);
    fails = false;
    // No call waits for those that failed.
    expect(await Promise.all([1, 2, 3].map(() => database.rows(SETTINGS)))).toHaveLength(3);
  });

  it("the pool reports connections of the reserve when they are opened and closed", async () => {
    const { pool } = await heldPool();
    let open = 0;
    const changes: number[] = [];
    pool.on("connect", () => changes.push((open += 1)));
    pool.on("remove", () => changes.push((open -= 1)));
    const database = opened(pool);
    await database.rows(SETTINGS);
    expect(changes).toEqual([1]);
    await database.close();
    await until(() => open === 0, "it to be gone");
  });
});

describe("a connection that is used for one step after the other", () => {
  it("a connection is given to another request of the pool between two steps", async () => {
    const pool = poolOf(await temporaryDatabase(), { max: 1 });
    const database = opened(pool, { connections: 0 });
    await database.setup();
    let steps = 0;
    const over = new AbortController();
    const busy = (async () => {
      for (; !over.signal.aborted; steps++) await database.call("present");
    })();
    for (let i = 0; i < 5; i++) {
      const before = steps;
      const client = await pool.connect();
      expect(steps - before).toBeLessThanOrEqual(2);
      await client.query("SELECT 1");
      client.release();
    }
    over.abort();
    await busy;
    // The pool gets the connection back as soon as no step needs it.
    await until(() => pool.idleCount === 1, "it to be given back");
  });
});
