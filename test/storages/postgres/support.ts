import pg from "pg";
import { afterAll } from "vitest";
import { PostgresStorage, type PostgresStorageOptions } from "../../../src/storages/postgres/index.ts";
import type { OpenedStorage } from "../../../src/testing/index.ts";
import { createDatabase } from "./server.ts";
import { ServerClock } from "./server-clock.ts";
import { Traffic } from "./traffic.ts";

export { newJob } from "../jobs.ts";
export { rule } from "../../../src/testing/suite/limit-words.ts";

/** A storage of its own for one case, its connections, and the URL of its database. */
export interface EmptyStorage extends OpenedStorage {
  readonly clock: ServerClock;
  readonly storage: PostgresStorage;
  readonly pool: pg.Pool;
  readonly url: string;
}

/**
 * Storages that are empty, one after the other, in one database; their time is moved by hand. Emptying the tables takes two
 * milliseconds, a database of its own for each would take thirty, and connections that know its functions some more. Call
 * it where tests are declared. `options`: of the storages.
 */
export function emptyStorages(options: PostgresStorageOptions = {}): () => Promise<EmptyStorage> {
  let made: Promise<House> | undefined;
  afterAll(async () => {
    const house = await made;
    await house?.leave();
  });
  return async () => {
    made ??= House.build();
    return (await made).open(options);
  };
}

/**
 * Sessions that wait for a lock in this database. Not by pg_stat_activity, which a transaction reads once: it would never see a session
 * that begins later.
 */
export const WAITING = `SELECT pid FROM pg_locks
  WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** A database whose clock is moved by hand, and connections to it that are used by one storage after the other. */
class House {
  readonly #url: string;
  readonly #drop: () => Promise<void>;
  readonly #admin: pg.Pool;
  readonly #traffic = new Traffic();
  readonly #pool: pg.Pool;
  #latest: PostgresStorage | undefined;

  private constructor(url: string, drop: () => Promise<void>, admin: pg.Pool) {
    this.#url = url;
    this.#drop = drop;
    this.#admin = admin;
    this.#pool = new pg.Pool({ connectionString: url, max: 5, idleTimeoutMillis: 0, Client: this.#traffic.Client });
  }

  static async build(): Promise<House> {
    const { url, drop } = await createDatabase();
    return new House(url, drop, await fakeTime(url));
  }

  /** Closes the storage that was opened before. */
  async open(options: PostgresStorageOptions): Promise<EmptyStorage> {
    await this.#latest?.close();
    await this.#admin.query(await emptying(this.#admin));
    const write = (wall: number) => this.#admin.query("UPDATE test_clock SET wall = $1", [wall]);
    const clock = new ServerClock(this.#traffic, write);
    const storage = new PostgresStorage(this.#pool, { ...options, clock });
    this.#latest = storage;
    return { storage, clock, pool: this.#pool, url: this.#url };
  }

  async leave(): Promise<void> {
    await this.#latest?.close();
    await this.#pool.end();
    await this.#admin.end();
    await this.#drop();
  }
}

/** Sets up the tables in an empty database, and puts a clock that is moved by hand in the place of its own. */
export async function fakeTime(url: string): Promise<pg.Pool> {
  const storage = new PostgresStorage(url);
  await storage.setup();
  await storage.close();
  const admin = new pg.Pool({ connectionString: url, max: 1 });
  await admin.query(`CREATE TABLE test_clock (wall float8 NOT NULL);
    INSERT INTO test_clock VALUES (0);
    CREATE OR REPLACE FUNCTION sluice.wall() RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT wall FROM public.test_clock'`);
  return admin;
}

/** What empties the tables that the storage writes to. Deleting few rows takes a tenth of the time that TRUNCATE takes. */
async function emptying(admin: pg.Pool): Promise<string> {
  const { rows } = await admin.query<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
      WHERE schemaname = 'sluice' AND tablename NOT IN ('meta', 'migrations')`,
  );
  return `${rows.map(({ name }) => `DELETE FROM ${name};`).join("")}
    UPDATE sluice.meta SET last = 0, skew = 0, rules = 0;
    ALTER SEQUENCE sluice.numbers RESTART`;
}
