import { StorageError } from "../../core/errors.ts";
import type { PostgresExecutor } from "./driver.ts";
import { sqlStateOf } from "./failures.ts";
import { SQL_FILES } from "./sql.ts";

/**
 * The files in sql/ that turn the tables of each version into those of the next; undefined where only functions change. What
 * was published never changes. The last step brings the functions with it, all of them, as they are now.
 */
const TABLES: readonly (string | undefined)[] = ["tables.sql"];

/** The version of the schema that this code works with. */
export const SCHEMA_VERSION = TABLES.length;

/** A migration waits for others who migrate, and they may be many: so long in all. */
const MIGRATE_WITHIN_MS = 60_000;

/** In the schema is something that is not ours. */
const IN_USE = "SL003";

/** Does something on a connection, again and again within so many milliseconds while it fails for reasons that pass. */
export type Run = <T>(work: (client: PostgresExecutor) => Promise<T>, withinMs?: number) => Promise<T>;

/** Makes sure that the schema is there, in this version: once, however many processes start together. */
export async function prepare(run: Run, schema: string, migrate: boolean): Promise<SchemaState> {
  const state = await stateOf(run, schema);
  const found = state.version;
  if (found > SCHEMA_VERSION) {
    throw new StorageError(
      `the schema "${schema}" is of a newer version of sluice (${found}) than this one (${SCHEMA_VERSION}): update sluice`,
    );
  }
  if (found === SCHEMA_VERSION) return state;
  if (!migrate) {
    const lack = found === 0 ? "is not there" : `has version ${found} and needs ${SCHEMA_VERSION}`;
    throw new StorageError(`the schema "${schema}" ${lack}: run \`sluice migrate\`, or leave out \`migrate: false\``);
  }
  for (let version = found; version < SCHEMA_VERSION; version++) {
    await run((client) => apply(client, stepSql(schema, version)), MIGRATE_WITHIN_MS).catch((error: unknown) => {
      throw whyNot(schema, error);
    });
  }
  return stateOf(run, schema);
}

/** The version of the schema; 0: there is none. */
export async function versionOf(run: Run, schema: string): Promise<number> {
  return (await stateOf(run, schema)).version;
}

/** What has to be known before anything else is asked. */
export interface SchemaState {
  readonly version: number;
  /** Numbers are shown to the last digit, as the server does by default. */
  readonly exact: boolean;
}

async function stateOf(run: Run, schema: string): Promise<SchemaState> {
  try {
    const { rows } = await run((client) =>
      client.query(
        `SELECT coalesce(pg_catalog.max(version), 0)::pg_catalog.text AS version,
          pg_catalog.current_setting('extra_float_digits') AS digits,
          pg_catalog.concat(pg_catalog.pg_typeof(pg_catalog.max(version)), pg_catalog.pg_typeof(pg_catalog.max(at))) AS kinds
          FROM "${schema}".migrations`,
      ),
    );
    const { version, digits, kinds } = rows[0] as Readonly<Record<"version" | "digits" | "kinds", string>>;
    if (kinds !== "integertimestamp with time zone") throw inUse(schema);
    return { version: Number(version), exact: Number(digits) > 0 };
  } catch (error) {
    const state = sqlStateOf(error);
    // No such table; no such schema.
    if (state === "42P01" || state === "3F000") return { version: 0, exact: true };
    // A table of that name with other columns, or of other kinds.
    if (state === "42703" || state === "42883" || state === "42804") throw inUse(schema, error);
    if (state !== "42501") throw error;
    throw new StorageError(
      `this user may not use the schema "${schema}": \`sluice migrate --print\` shows what has to be granted`,
      { cause: error },
    );
  }
}

/** All of it as text, from a version on (0: from nothing): for psql, and for people who review what runs on their server. */
export function migrationSql(schema: string, from = 0): string {
  const steps = TABLES.map((_, version) => stepSql(schema, version)).slice(from);
  return [
    `-- The schema "${schema}" of Sluice, version ${SCHEMA_VERSION}. What is there already is left as it is: it may be run again.`,
    ...steps.map((step) => `${BEGIN};\n${step};\nCOMMIT;`),
    "-- Whoever has run this owns it. Another role that workers, producers or limiters connect as needs this:",
    ...grantSql(schema, "a_role")
      .split("\n")
      .map((line) => `-- ${line}`),
    "",
  ].join("\n");
}

/** What a role needs to work with the schema, as it is and as later versions will make it; to be run by who migrates. */
export function grantSql(schema: string, role: string): string {
  const to = `TO "${role.replaceAll('"', '""')}"`;
  const rights = [
    ["SELECT, INSERT, UPDATE, DELETE", "TABLES"],
    ["USAGE, SELECT", "SEQUENCES"],
    ["EXECUTE", "FUNCTIONS"],
  ] as const;
  return [
    // One after the other: who grants or migrates at the same time would be in the way.
    "BEGIN;",
    `DO $$ BEGIN PERFORM ${lockOf(schema)}; END $$;`,
    `GRANT USAGE ON SCHEMA "${schema}" ${to};`,
    ...rights.map(([right, what]) => `GRANT ${right} ON ALL ${what} IN SCHEMA "${schema}" ${to};`),
    ...rights.map(([right, what]) => `ALTER DEFAULT PRIVILEGES IN SCHEMA "${schema}" GRANT ${right} ON ${what} ${to};`),
    "COMMIT;",
  ].join("\n");
}

/** Who has it is the only one that changes anything about the schema. */
const lockOf = (schema: string): string =>
  `pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('sluice:migrations:${schema}', 0))`;

/** A migration takes as long as it takes, whatever statements are allowed. */
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0";

async function apply(client: PostgresExecutor, step: string): Promise<void> {
  const { rows } = await client.query("SELECT pg_catalog.current_setting('server_encoding') AS encoding");
  const { encoding } = rows[0] as { readonly encoding: string };
  if (encoding !== "UTF8" && encoding !== "SQL_ASCII") {
    throw new StorageError(`the database has the encoding ${encoding}: jobs are kept in one with UTF8`);
  }
  await client.query(BEGIN);
  try {
    await client.query(step);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    if (sqlStateOf(error) !== "25006") throw error;
    throw new StorageError("the database is read-only: nothing can be created in it", { cause: error });
  }
}

/**
 * One statement that brings the schema from a version to the next, if it is at that version. The lock is waited for in small
 * pieces: who waits for a table lock in a queue of others holds up all who come behind.
 */
function stepSql(schema: string, version: number): string {
  const quoted = `"${schema}"`;
  const functions = namesAfter(FUNCTION);
  const relations = `migrations,${namesAfter(RELATION)}`;
  return `DO $sluice_migration$
DECLARE
  place oid;
  made text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  PERFORM set_config('lock_timeout', '1s', true), set_config('check_function_bodies', 'off', true);
  PERFORM set_config('client_min_messages', 'warning', true);
  PERFORM ${lockOf(schema)};
  place := to_regnamespace('${quoted}');
  IF place IS NULL THEN
    CREATE SCHEMA ${quoted};
    REVOKE ALL ON SCHEMA ${quoted} FROM PUBLIC;
    place := to_regnamespace('${quoted}');
  -- Whoever is not allowed to make schemas may still use one that was made for him, if there is nothing else in it.
  ELSIF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('${quoted}.migrations')
      AND a.attname = 'version' AND a.atttypid = 'integer'::regtype)
    AND (EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = place)
      OR EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = place)
      OR EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = place)) THEN
    RAISE EXCEPTION 'the schema ${quoted} is in use by something else' USING ERRCODE = '${IN_USE}';
  END IF;
  CREATE TABLE IF NOT EXISTS ${quoted}.migrations (
    version integer PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  IF (SELECT coalesce(max(version), 0) FROM ${quoted}.migrations) <> ${version} THEN
    RETURN;
  END IF;

${changes(version).replaceAll("{schema}", quoted)}
  INSERT INTO ${quoted}.migrations (version) VALUES (${version + 1});
  FOR made IN
    SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
    WHERE p.pronamespace = place AND p.proname = ANY ('{${functions}}')
    UNION ALL
    SELECT format('%s %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass) FROM pg_class c
    WHERE c.relnamespace = place AND c.relkind IN ('r', 'S') AND (c.relname = ANY ('{${relations}}')
      OR EXISTS (SELECT FROM pg_depend d JOIN pg_class t ON t.oid = d.refobjid
        WHERE d.objid = c.oid AND d.deptype = 'i' AND t.relname = ANY ('{${relations}}')))
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', made);
  END LOOP;
END
$sluice_migration$`;
}

const FUNCTION = /CREATE OR REPLACE FUNCTION \{schema\}\.(\w+)/g;
const RELATION = /CREATE (?:UNLOGGED )?(?:TABLE|SEQUENCE) \{schema\}\.(\w+)/g;

/** What the files make, by name: rights on anything else are not ours to take. */
function namesAfter(words: RegExp): string {
  return SQL_FILES.flatMap(({ text }) => [...text.matchAll(words)].map(([, name]) => name!)).join(",");
}

/** The tables of the next version, then, in the last step, all functions: their signatures name types that come with the tables. */
function changes(version: number): string {
  const tables = SQL_FILES.filter(({ path }) => path === TABLES[version]);
  const functions = version + 1 < SCHEMA_VERSION ? [] : SQL_FILES.filter(({ path }) => !TABLES.includes(path));
  return [...tables, ...functions].map(({ text }) => text).join("\n");
}

function whyNot(schema: string, cause: unknown): unknown {
  const state = sqlStateOf(cause);
  if (state === IN_USE) return inUse(schema, cause);
  if (state !== "42501") return cause;
  return new StorageError(
    `this user may not create what the schema "${schema}" needs: let one who may run what \`sluice migrate --print\` says`,
    { cause },
  );
}

function inUse(schema: string, cause?: unknown): StorageError {
  const words = `the schema "${schema}" is in use by something else: give sluice one of its own (\`schema\`)`;
  return new StorageError(words, cause === undefined ? {} : { cause });
}
