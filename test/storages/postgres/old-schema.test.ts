import { createHash } from "node:crypto";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { StorageError } from "../../../src/core/errors.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { migrationSql, SCHEMA_VERSION } from "../../../src/storages/postgres/migrations.ts";
import { SQL_FILES } from "../../../src/storages/postgres/sql.ts";
import {
  answersAsBefore,
  drainsWithinLimits,
  keptOf,
  type Migrated,
  postgresDump,
  takesTokensOfBefore,
} from "../fixtures/version-1/kept.ts";
import { newJob } from "../jobs.ts";
import { once, temporaryDatabase } from "./server.ts";

/** A database that version 1 has left. */
async function oldDatabase(): Promise<string> {
  const url = await temporaryDatabase();
  await once(url, postgresDump());
  return url;
}

function opened(url: string, options: { readonly migrate?: boolean } = {}): PostgresStorage {
  const storage = new PostgresStorage(url, options);
  onTestFinished(() => storage.close());
  return storage;
}

/** Migrated, and left at the instant when version 1 has left it: its clock is moved by hand. */
async function migrated(url: string): Promise<Migrated> {
  const kept = keptOf("postgres");
  const storage = opened(url);
  await storage.setup();
  await once(
    url,
    `CREATE TABLE public.test_clock (wall float8 NOT NULL); INSERT INTO public.test_clock VALUES (${kept.wall});
    CREATE OR REPLACE FUNCTION sluice.wall() RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT wall FROM public.test_clock'`,
  );
  return {
    storage,
    kept,
    advance: async (ms) => void (await once(url, "UPDATE public.test_clock SET wall = wall + $1", [ms])),
  };
}

/** All that the catalog says about a schema, but for comments and numbers of objects. */
const CATALOG = `SELECT pg_catalog.json_build_object(
  'columns', (SELECT json_agg(format('%s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      a.attgenerated, pg_get_expr(d.adbin, d.adrelid)) ORDER BY c.relname, a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind IN ('r', 'c')),
  'relations', (SELECT json_agg(format('%s %s %s', c.relkind, c.relname, c.reloptions) ORDER BY c.relname)
    FROM pg_class c WHERE c.relnamespace = 'sluice'::regnamespace),
  'indexes', (SELECT json_agg(indexdef ORDER BY indexdef) FROM pg_indexes WHERE schemaname = 'sluice'),
  'constraints', (SELECT json_agg(format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) ORDER BY conname)
    FROM pg_constraint WHERE connamespace = 'sluice'::regnamespace),
  'functions', (SELECT json_agg(pg_get_functiondef(oid) ORDER BY oid::regprocedure::text)
    FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace),
  'rights', (SELECT json_agg(format('%s %s', p.oid::regprocedure, p.proacl) ORDER BY p.oid::regprocedure::text)
    FROM pg_proc p WHERE p.pronamespace = 'sluice'::regnamespace),
  'versions', (SELECT json_agg(format('%s %s', version, made) ORDER BY version) FROM sluice.migrations)) AS catalog`;

/** What a process of version 1 sends, and under which name its connection remembers it. */
const oldCall = (name: string, args: number): pg.QueryConfig => ({
  name: `sluice1:2000:sluice.${name}/${args}`,
  text: `SELECT pg_catalog.set_config('lock_timeout', '2000', true), "sluice".${name}(${Array.from(
    { length: args },
    (_, i) => `$${i + 1}`,
  ).join(", ")})::pg_catalog.text AS answer`,
});

const rowsOf = async (url: string): Promise<unknown> => {
  const tables = (await once(
    url,
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'sluice' AND tablename <> 'migrations' ORDER BY 1",
  )) as { name: string }[];
  const rows: [string, unknown][] = [];
  for (const { name } of tables) {
    rows.push([name, await once(url, `SELECT to_jsonb(t) AS row FROM sluice.${name} t ORDER BY to_jsonb(t)::text`)]);
  }
  return Object.fromEntries(rows);
};

describe("a schema of version 1", () => {
  it("has the tables that version 1 was released with", () => {
    const { text } = SQL_FILES.find(({ path }) => path === "tables/1.sql")!;
    const statements = text.replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ").trim();
    const hash = createHash("sha256").update(statements).digest("hex");
    expect(hash, "version 1 never changes: a change of the tables is a step to a later version").toBe(
      "53bae75a9be83e4137f7cba303b4e72fc634c3695a9a3286886a11dc141a232a",
    );
  });

  it("answers as before: jobs, counts, history, limits and explanations", async () => {
    await answersAsBefore(await migrated(await oldDatabase()));
  });

  it("takes the tokens of leases, permits, starts and grants that its processes were given", async () => {
    await takesTokensOfBefore(await migrated(await oldDatabase()));
  });

  it("can be drained, and no window is over its limit", async () => {
    await drainsWithinLimits(await migrated(await oldDatabase()));
  });

  it("keeps every column of every row that the new version has as well", async () => {
    const url = await oldDatabase();
    const before = (await rowsOf(url)) as Record<string, { row: Record<string, unknown> }[]>;
    await opened(url).setup();
    const after = (await rowsOf(url)) as typeof before;
    const tables: Record<string, string> = { marks: "scan_cursors", holds: "slots" };
    const columns: Record<string, string> = {
      pause_until: "held_until",
      told_left: "remaining",
      told_until: "remaining_until",
    };
    for (const [table, rows] of Object.entries(before)) {
      if (table === "listeners") continue;
      const changed = new Set(
        { jobs: ["claim"], rules: ["stored"], meta: ["rules"], lanes: ["blocked_until"] }[table] ?? [],
      );
      const kept = rows.map(({ row }) => {
        const same = Object.fromEntries(
          Object.entries(row)
            .filter(([name]) => !changed.has(name))
            .map(([name, value]) => [columns[name] ?? name, value]),
        );
        // What a limit is counted by is a field that version 1 had not.
        return table === "rules" ? { ...same, fields: { ...(row["fields"] as object), by_keys: null } } : same;
      });
      const found = after[tables[table] ?? table];
      expect(
        found?.map(({ row }) => row),
        table,
      ).toEqual(expect.arrayContaining(kept.map((row) => expect.objectContaining(row) as unknown)));
      expect(found).toHaveLength(rows.length);
    }
  });

  it("becomes the same as a new one, whether the storage or its SQL migrates it", async () => {
    const [old, printed, fresh] = [await oldDatabase(), await oldDatabase(), await temporaryDatabase()];
    await opened(old).setup();
    await opened(fresh).setup();
    await once(printed, migrationSql("sluice"));
    const [expected] = await once(fresh, CATALOG);
    expect((await once(old, CATALOG))[0]).toEqual(expected);
    expect((await once(printed, CATALOG))[0]).toEqual(expected);
  });

  it("keeps what others have in it, and the rights that were given on what users call", async () => {
    const url = await oldDatabase();
    await once(
      url,
      `CREATE FUNCTION sluice.theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE sluice.theirs (n int);
      GRANT EXECUTE ON FUNCTION sluice.add_job TO pg_monitor;
      CREATE FUNCTION public.mails() RETURNS text LANGUAGE sql AS $$ SELECT sluice.add_job('q', 'mail', '{}') $$`,
    );
    await opened(url).setup();
    expect(
      await once(
        url,
        "SELECT sluice.theirs() AS one, has_function_privilege('pg_monitor', 'sluice.add_job(text, text, jsonb, jsonb)', 'execute') AS may",
      ),
    ).toEqual([{ one: 1, may: true }]);
    expect(await once(url, "SELECT public.mails()")).toHaveLength(1);
  });

  it("is refused where nothing may be migrated, and stays as it is", async () => {
    const url = await oldDatabase();
    const before = await rowsOf(url);
    const refused = opened(url, { migrate: false }).setup();
    await expect(refused).rejects.toThrow(StorageError);
    await expect(refused).rejects.toThrow(`has version 1 and needs ${SCHEMA_VERSION}: run \`sluice migrate\``);
    expect(await rowsOf(url)).toEqual(before);
  });

  it("stays as it is, and works with version 1, where the migration fails midway", async () => {
    const url = await oldDatabase();
    const before = await rowsOf(url);
    // What the step makes after the jobs is there already.
    await once(url, "CREATE SEQUENCE sluice.workers");
    await expect(opened(url).setup()).rejects.toThrow(/"workers" already exists/);
    expect(await rowsOf(url)).toEqual(before);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    expect((await client.query(oldCall("overview", 1), [null])).rows).toHaveLength(1);
    await once(url, "DROP SEQUENCE sluice.workers");
    await answersAsBefore(await migrated(url));
  });

  it("is migrated once by several processes that start together", async () => {
    const url = await oldDatabase();
    await Promise.all(Array.from({ length: 5 }, () => opened(url).setup()));
    expect(await once(url, "SELECT version FROM sluice.migrations ORDER BY version")).toEqual([
      { version: 1 },
      { version: 2 },
    ]);
  });
});

describe("a process that is connected while another one migrates", () => {
  it("is refused in clear words if it is of version 1, in every call, and changes nothing", async () => {
    const url = await oldDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const claim = JSON.stringify({
      claim: "c",
      queue: "nothing",
      worker: "w",
      max: 1,
      types: null,
      leaseMs: 1,
      limits: [],
      settle: [],
    });
    const calls: [string, unknown[]][] = [
      ["claim", [claim]],
      ["settle", ["[]"]],
      ["heartbeat", ["[]", 30_000]],
      ["add_many", ["a", "{}", "{}", "d"]],
      ["read_rules", []],
      ["sweep", []],
      ["overview", [null]],
      ["rate_record", ["r"]],
      ["publish", ["{}"]],
    ];
    // Its connection remembers these by their names, with the kinds of their values, whatever becomes of them.
    for (const [name, values] of calls) await client.query(oldCall(name, values.length), values).catch(() => {});
    await opened(url).setup();
    const before = await rowsOf(url);
    for (const [name, values] of calls) {
      await expect(client.query(oldCall(name, values.length), values), name).rejects.toMatchObject({
        code: "SL004",
        message: `the schema "sluice" is of a newer version of sluice (${SCHEMA_VERSION}) than this process (1): update sluice`,
      });
    }
    // A repeat names one of its arguments.
    await expect(client.query(`SELECT "sluice".settle($1, again => true)`, ["[]"])).rejects.toMatchObject({
      code: "SL004",
    });
    expect(await rowsOf(url)).toEqual(before);
  });

  it("is refused by a typed error that names both versions if it is of this one", async () => {
    const url = await temporaryDatabase();
    const storage = opened(url);
    await storage.add([newJob()]);
    await once(
      url,
      `INSERT INTO sluice.migrations (version) VALUES (${SCHEMA_VERSION + 1});
      DO $$ DECLARE made text; BEGIN
        FOR made IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace AND proname ~ '_${SCHEMA_VERSION}$' LOOP
          EXECUTE format('DROP FUNCTION %s', made);
        END LOOP;
      END $$`,
    );
    const claim = { queue: "q", worker: "w", max: 1, types: null, leaseMs: 30_000, limits: [], settle: [] };
    const calls = [
      () => storage.add([newJob()]),
      () => storage.claim(claim),
      () => storage.overview(),
      () => storage.sweep(),
    ];
    for (const call of calls) {
      const refused = call();
      await expect(refused).rejects.toThrow(StorageError);
      await expect(refused).rejects.toThrow(
        `is of a newer version of sluice (${SCHEMA_VERSION + 1}) than this one (${SCHEMA_VERSION}): update sluice`,
      );
    }
    expect(await once(url, "SELECT state FROM sluice.jobs")).toEqual([{ state: "waiting" }]);
  });
});
