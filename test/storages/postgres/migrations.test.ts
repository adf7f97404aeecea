import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { OptionsError, StorageError } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { filled, grantSql, migrationSql, SCHEMA_VERSION } from "../../../src/storages/postgres/migrations.ts";
import { SQL_FILES } from "../../../src/storages/postgres/sql.ts";
import { opened, poolOf } from "./client-support.ts";
import { once, temporaryDatabase } from "./server.ts";

/** The versions that were applied, and how many functions and tables there are. */
async function stateOf(url: string, schema = "sluice"): Promise<unknown> {
  const [state] = await once(
    url,
    `SELECT (SELECT json_agg(version ORDER BY version) FROM "${schema}".migrations) AS versions,
      (SELECT count(*)::int FROM pg_proc WHERE pronamespace = '${schema}'::regnamespace) AS functions,
      (SELECT count(*)::int FROM pg_class WHERE relkind = 'r' AND relnamespace = '${schema}'::regnamespace) AS tables`,
  );
  return state;
}

/** A role that may log in and nothing else, gone after the test. */
async function roleOf(url: string, role: string): Promise<string> {
  await once(url, `CREATE ROLE ${role} LOGIN`);
  onTestFinished(async () => {
    await once(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
  const other = new URL(url);
  other.username = role;
  return other.href;
}

const VERSIONS = Array.from({ length: SCHEMA_VERSION }, (_, i) => i + 1);

describe("the schema", () => {
  it("the schema is made once, however many storages start together", async () => {
    const url = await temporaryDatabase();
    const all = Array.from({ length: 20 }, () => opened(url, { connections: 2 }));
    await Promise.all(all.map((database) => database.setup()));
    expect(await stateOf(url)).toMatchObject({ versions: VERSIONS });
    await Promise.all(all.map((database) => database.call("present")));
  });

  it("setup costs one statement where the schema is there", async () => {
    const url = await temporaryDatabase();
    await opened(url).setup();
    const pool = poolOf(url);
    let statements = 0;
    pool.on("connect", (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      client.query = ((...args: unknown[]) => {
        statements += 1;
        return query(...args);
      }) as typeof client.query;
    });
    const database = opened(pool);
    await Promise.all([database.setup(), database.setup()]);
    await database.setup();
    expect(statements).toBe(1);
  });

  it("two schemas in one database are independent", async () => {
    const url = await temporaryDatabase();
    const one = opened(url, { schema: "one" });
    const two = opened(url, { schema: "two" });
    await Promise.all([one.setup(), two.setup()]);
    await one.call("listener_heartbeat", "me", true, true, "ear");
    expect(await one.rows("SELECT origin FROM {schema}.listeners")).toEqual([{ origin: "me" }]);
    expect(await two.rows("SELECT origin FROM {schema}.listeners")).toEqual([]);
    const [key] = await one.rows<{ one: string; two: string }>(
      "SELECT one.lock_key('q', 'a')::text AS one, two.lock_key('q', 'a')::text AS two",
    );
    expect(key!.one).not.toBe(key!.two);
    expect(await one.call("channel").catch(() => "text")).toBe("text");
  });

  it("a schema of a newer version is refused", async () => {
    const url = await temporaryDatabase();
    await opened(url).setup();
    await once(url, "INSERT INTO sluice.migrations VALUES (99)");
    for (const migrate of [true, false]) {
      const refused = opened(url, { migrate }).setup();
      await expect(refused).rejects.toThrow(StorageError);
      await expect(refused).rejects.toThrow(`is of a newer version of sluice (99) than this one (${SCHEMA_VERSION})`);
    }
  });

  it("a missing schema is not made with `migrate: false`, and is used once it is there", async () => {
    const url = await temporaryDatabase();
    const database = opened(url, { migrate: false });
    await expect(database.setup()).rejects.toThrow(/is not there: run `sluice migrate`/);
    await expect(database.call("present")).rejects.toThrow(StorageError);
    await opened(url).setup();
    await database.setup();
  });

  it("a migration waits for another one with a timeout, and then tries again", async () => {
    const url = await temporaryDatabase();
    const pool = poolOf(url);
    const client = await pool.connect();
    await client.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('sluice:migrations:sluice', 0))");
    const database = opened(url);
    const done = database.setup();
    while (database.retries === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await client.query("ROLLBACK");
    client.release();
    await done;
    expect(await stateOf(url)).toMatchObject({ versions: VERSIONS });
  });

  it("the schema is made under any isolation level", async () => {
    const plain = await temporaryDatabase();
    const url = new URL(plain);
    url.searchParams.set("options", String.raw`-c default_transaction_isolation=serializable`);
    await Promise.all(Array.from({ length: 5 }, () => opened(url.href).setup()));
    expect(await stateOf(plain)).toMatchObject({ versions: VERSIONS });
  });
});

describe("a schema that is not ours", () => {
  const IN_USE = /the schema "app" is in use by something else/;

  it.each(["public", "information_schema", "pg_catalog"])("%s is refused", (schema) => {
    expect(() => new PostgresStorage("postgres://nobody@127.0.0.1:1/db", { schema })).toThrow(OptionsError);
  });

  it.each([
    "CREATE TABLE app.orders (n int)",
    "CREATE FUNCTION app.price() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TYPE app.money AS (n int)",
    "CREATE TABLE app.migrations (version bigint PRIMARY KEY); INSERT INTO app.migrations VALUES (20240101)",
    "CREATE TABLE app.migrations (name text PRIMARY KEY)",
    "CREATE TABLE app.migrations (version text, at timestamptz)",
  ])("is left as it is: %s", async (statement) => {
    const url = await temporaryDatabase();
    await once(url, `CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC; ${statement}`);
    const rights = () =>
      once(
        url,
        `SELECT (SELECT nspacl::text FROM pg_namespace WHERE nspname = 'app') AS rights,
          (SELECT count(*)::int FROM pg_class WHERE relnamespace = 'app'::regnamespace) AS relations`,
      );
    const before = await rights();
    await expect(opened(url, { schema: "app" }).setup()).rejects.toThrow(IN_USE);
    await expect(once(url, migrationSql("app"))).rejects.toThrow(/in use by something else/);
    expect(await rights()).toEqual(before);
  });

  it("an empty schema is used, and the rights on objects of others in it stay as they are", async () => {
    const url = await temporaryDatabase();
    await once(url, "CREATE SCHEMA app");
    await opened(url, { schema: "app" }).setup();
    await once(
      url,
      `CREATE TABLE app.theirs (n int); GRANT SELECT ON app.theirs TO PUBLIC;
      CREATE FUNCTION app.theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    );
    expect(migrationSql("app")).not.toMatch(/ON ALL \w+ IN SCHEMA "app" FROM/);
    const [rights] = await once(
      url,
      `SELECT has_table_privilege('pg_monitor', 'app.theirs', 'select') AS "table",
        has_function_privilege('pg_monitor', 'app.theirs()', 'execute') AS "function",
        has_function_privilege('pg_monitor', 'app.present()', 'execute') AS ours`,
    );
    expect(rights).toEqual({ table: true, function: true, ours: false });
  });

  it("a database with another encoding is refused", async () => {
    const url = new URL(await temporaryDatabase());
    const name = `${url.pathname.slice(1)}_latin`;
    await once(url.href, `CREATE DATABASE ${name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
    const latin = new URL(url);
    latin.pathname = `/${name}`;
    const database = opened(latin.href);
    await expect(database.setup()).rejects.toThrow(/the encoding LATIN1: jobs are kept in one with UTF8/);
    await database.close();
    await once(url.href, `DROP DATABASE ${name} WITH (FORCE)`);
  });

  it("a database that is read-only is refused at once", async () => {
    const url = new URL(await temporaryDatabase());
    url.searchParams.set("options", "-c default_transaction_read_only=on");
    await expect(opened(url.href).setup()).rejects.toThrow(/the database is read-only/);
  });

  it("the schema is made although the database limits the time of statements", async () => {
    const plain = await temporaryDatabase();
    const url = new URL(plain);
    url.searchParams.set("options", "-c statement_timeout=20ms");
    await opened(url.href).setup();
    expect(await stateOf(plain)).toMatchObject({ versions: VERSIONS });
  });
});

describe("a role without rights", () => {
  it("a role that may not create the schema gets an error that names the command to run", async () => {
    const url = await temporaryDatabase();
    const role = await roleOf(url, `poor_${process.pid}`);
    await expect(opened(role).setup()).rejects.toThrow(/`sluice migrate --print`/);
  });

  it("the rights of a role can be granted several times at once", async () => {
    const url = await temporaryDatabase();
    const name = `granted_${process.pid}`;
    await roleOf(url, name);
    await opened(url).setup();
    await Promise.all(Array.from({ length: 10 }, () => once(url, grantSql("sluice", name))));
  });

  it("a role that may not use the schema gets an error with the grants; with them it works, and no other role may", async () => {
    const url = await temporaryDatabase();
    const name = `worker_${process.pid}`;
    const role = await roleOf(url, name);
    await opened(url).setup();
    await expect(opened(role).setup()).rejects.toThrow(/may not use the schema "sluice"/);
    await once(url, grantSql("sluice", name));
    const database = opened(role);
    await database.setup();
    await database.call("listener_heartbeat", "me", true, true, "ear");
    await database.call("publish", "{}");
    // The grants cover what a later version adds.
    await once(
      url,
      "CREATE FUNCTION sluice.later() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE sluice.later (n int)",
    );
    expect(await database.call("later")).toBe(1);
    expect(await database.rows("SELECT n FROM {schema}.later")).toEqual([]);
    await once(url, "REVOKE ALL ON FUNCTION sluice.later FROM PUBLIC");
    const [rights] = await once(
      url,
      `SELECT count(*)::int AS open FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace
        AND has_function_privilege('pg_monitor', oid, 'execute')`,
    );
    expect(rights).toEqual({ open: 0 });
  });
});

describe("the functions of the schema", () => {
  it("every function is well-formed, also those that are seldom called", async () => {
    const url = await temporaryDatabase();
    await opened(url).setup();
    const client = await poolOf(url).connect();
    await client.query("SET check_function_bodies = on");
    const wrong: string[] = [];
    for (const { path, text } of SQL_FILES) {
      if (path.startsWith("tables/") || path === "types.sql") continue;
      await client.query(filled(text, '"sluice"')).catch((error: Error) => wrong.push(`${path}: ${error.message}`));
    }
    client.release();
    expect(wrong).toEqual([]);
  });

  it("no two functions have the same name, in any file", () => {
    const names = SQL_FILES.flatMap(({ text }) =>
      [...text.matchAll(/CREATE OR REPLACE (?:FUNCTION|PROCEDURE) \{schema\}\.([\w{}]+)/g)].map(([, name]) => name),
    );
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });
});

describe("the migration as SQL text", () => {
  const psql = (url: string, text: string) =>
    new Promise<string>((resolve, reject) => {
      const child = promisify(execFile)("psql", ["-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", url]);
      child.child.stdin!.end(text);
      child.then(({ stdout, stderr }) => resolve(stdout + stderr), reject);
    });

  it("the SQL text makes the same schema as the storage does, and may be run twice", async () => {
    const url = await temporaryDatabase();
    await once(url, migrationSql("sluice"));
    await once(url, migrationSql("sluice"));
    const other = await temporaryDatabase();
    await opened(other).setup();
    expect(await stateOf(url)).toEqual(await stateOf(other));
    await opened(url, { migrate: false }).setup();
  });

  it("psql runs the SQL text as it is, without output", async (context) => {
    const there = await promisify(execFile)("psql", ["--version"]).catch(() => undefined);
    if (there === undefined) context.skip("there is no psql here");
    const url = await temporaryDatabase();
    expect(await psql(url, migrationSql("elsewhere"))).toBe("");
    expect(await psql(url, migrationSql("elsewhere"))).toBe("");
    await opened(url, { schema: "elsewhere", migrate: false }).setup();
  });

  it("the SQL text names the grants that a role needs", () => {
    expect(migrationSql("sluice")).toContain('-- GRANT USAGE ON SCHEMA "sluice" TO "a_role";');
    expect(grantSql("sluice", 'we"ird')).toContain('TO "we""ird"');
  });
});
