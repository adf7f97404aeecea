import { StorageError } from "../../core/errors.ts";
import type { PostgresExecutor } from "./driver.ts";
import { sqlStateOf } from "./failures.ts";
import { SQL_FILES } from "./sql.ts";

/**
 * The files in sql/ that turn the tables of each version into those of the next. A new database takes all of them (decision 0032).
 * What was released never changes. Types and functions come after the last step, all of them, as they are now.
 */
const TABLES: readonly string[] = ["tables/1.sql", "tables/2.sql"];
const TYPES = "types.sql";

/** The version of the schema that this code works with. */
export const SCHEMA_VERSION = TABLES.length;

/** What SQL of users may call: it is replaced, and keeps the rights that were given on it. */
const PUBLIC = "add_job";

/** A migration waits for other migrations, and they may be many: so long in all. */
const MIGRATE_WITHIN_MS = 60_000;

/** In the schema is something that is not ours. */
const IN_USE = "SL003";

/** Does something on a connection, again and again within so many milliseconds while it fails for reasons that pass. */
export type Run = <T>(work: (client: PostgresExecutor) => Promise<T>, withinMs?: number) => Promise<T>;

/** Makes sure that the schema is there, in this version: once, however many processes start together. */
export async function prepare(run: Run, schema: string, migrate: boolean): Promise<SchemaState> {
  const state = await stateOf(run, schema);
  const found = state.version;
  if (found > SCHEMA_VERSION) throw newerSchema(schema, found);
  if (found === SCHEMA_VERSION) return state;
  if (!migrate) {
    const lack = found === 0 ? "is not there" : `has version ${found} and needs ${SCHEMA_VERSION}`;
    throw new StorageError(`the schema "${schema}" ${lack}: run \`sluice migrate\`, or leave out \`migrate: false\``);
  }
  await run((client) => apply(client, stepsSql(schema)), MIGRATE_WITHIN_MS).catch((error: unknown) => {
    throw whyNot(schema, error);
  });
  return stateOf(run, schema);
}

function newerSchema(schema: string, found: number, cause?: unknown): StorageError {
  const words = `the schema "${schema}" is of a newer version of sluice (${found}) than this one (${SCHEMA_VERSION}): update sluice`;
  return new StorageError(words, cause === undefined ? {} : { cause });
}

/** What a call has failed with; if there is no such function because the schema was migrated since it was opened, that. */
export async function whyMissing(run: Run, schema: string, error: unknown): Promise<unknown> {
  if (sqlStateOf(error) !== "42883") return error;
  const found = await versionOf(run, schema).catch(() => 0);
  return found > SCHEMA_VERSION ? newerSchema(schema, found, error) : error;
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

/** All of it as text: for psql, and for a review of what runs on the server. */
export function migrationSql(schema: string): string {
  return [
    `-- The schema "${schema}" of Sluice, version ${SCHEMA_VERSION}. What is there already is left as it is: it may be run again.`,
    `${BEGIN};\n${stepsSql(schema)};\nCOMMIT;`,
    "-- Whoever has run this owns it. Another role that workers, producers or limiters connect as needs this:",
    ...grantSql(schema, "a_role")
      .split("\n")
      .map((line) => `-- ${line}`),
    "",
  ].join("\n");
}

/** What a role needs to work with the schema, as it is and as later versions will make it; to be run by the role that migrates. */
export function grantSql(schema: string, role: string): string {
  const to = `TO "${role.replaceAll('"', '""')}"`;
  const rights = [
    ["SELECT, INSERT, UPDATE, DELETE", "TABLES"],
    ["USAGE, SELECT", "SEQUENCES"],
    ["EXECUTE", "FUNCTIONS"],
  ] as const;
  return [
    // One after the other: another grant or migration at the same time would be in the way.
    "BEGIN;",
    `DO $$ BEGIN PERFORM ${lockOf(schema)}; END $$;`,
    `GRANT USAGE ON SCHEMA "${schema}" ${to};`,
    ...rights.map(([right, what]) => `GRANT ${right} ON ALL ${what} IN SCHEMA "${schema}" ${to};`),
    ...rights.map(([right, what]) => `ALTER DEFAULT PRIVILEGES IN SCHEMA "${schema}" GRANT ${right} ON ${what} ${to};`),
    "COMMIT;",
  ].join("\n");
}

/** Only the transaction that holds it changes anything about the schema. */
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
 * One statement that brings the schema from any version to this one. Locks are waited for in small pieces: a wait for
 * a table lock holds up all that come behind it in the queue for that lock.
 */
function stepsSql(schema: string): string {
  const quoted = `"${schema}"`;
  const functions = namesAfter(FUNCTION);
  const types = namesAfter(TYPE, [TYPES]);
  const relations = `migrations,${namesAfter(RELATION)}`;
  return `DO $sluice_migration$
DECLARE
  place oid;
  before integer;
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
  before := (SELECT coalesce(max(version), 0) FROM ${quoted}.migrations);
  IF before >= ${SCHEMA_VERSION} THEN
    RETURN;
  END IF;
  -- Steps that are under way end before.
  IF before > 0 THEN
    PERFORM pg_advisory_xact_lock(${quoted}.lock_key('rules', ''));
  END IF;
${TABLES.map((path, version) => tableStep(quoted, path, version)).join("")}
  -- What the version before has made besides tables.
  FOR made IN
    SELECT p.oid::regprocedure FROM pg_proc p
    WHERE p.pronamespace = place AND p.proname <> '${PUBLIC}' AND p.proname IN (SELECT unnest(m.made) FROM ${quoted}.migrations m)
  LOOP
    EXECUTE format('DROP FUNCTION %s', made);
  END LOOP;
  SELECT string_agg(t.oid::regtype::text, ', ') FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c' INTO made
  WHERE t.typnamespace = place AND t.typname IN (SELECT unnest(m.made) FROM ${quoted}.migrations m);
  IF made IS NOT NULL THEN
    EXECUTE format('DROP TYPE %s', made);
  END IF;

${textOf([TYPES])
  .concat(textOf(FUNCTIONS))
  .map((text) => filled(text, quoted))
  .join("\n")}
  UPDATE ${quoted}.migrations m SET made = '{${functions},${types}}' WHERE m.version = ${SCHEMA_VERSION};
  FOR made IN
    SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
    WHERE p.pronamespace = place AND p.proname IN (SELECT unnest(m.made) FROM ${quoted}.migrations m)
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

const FUNCTION = /CREATE OR REPLACE FUNCTION \{schema\}\.([\w{}]+)\(/g;
const TYPE = /CREATE TYPE \{schema\}\.(\w+)/g;
const RELATION = /(?:CREATE (?:UNLOGGED )?(?:TABLE|SEQUENCE) \{schema\}\.|RENAME TO )(\w+)/g;

const ALL = SQL_FILES.map(({ path }) => path);
const FUNCTIONS = ALL.filter((path) => path !== TYPES && !TABLES.includes(path));

const textOf = (paths: readonly string[]): readonly string[] =>
  SQL_FILES.filter(({ path }) => paths.includes(path)).map(({ text }) => text);

/** What the files make, by name: anything else in the schema is not ours. */
function namesAfter(words: RegExp, paths: readonly string[] = ALL): string {
  const names = textOf(paths).flatMap((text) => [...text.matchAll(words)].map(([, name]) => name!));
  return names.join(",").replaceAll("{version}", String(SCHEMA_VERSION));
}

/** A text of sql/ for a schema. */
export function filled(text: string, quoted: string): string {
  return text.replaceAll("{schema}", quoted).replaceAll("{version}", String(SCHEMA_VERSION));
}

/** Functions that processes call have names that end with the version: one of another version finds none of them. */
const CALLED: ReadonlySet<string> = new Set(
  textOf(FUNCTIONS).flatMap((text) =>
    [...text.matchAll(/FUNCTION \{schema\}\.(\w+)_\{version\}\(/g)].map(([, name]) => name!),
  ),
);

/** The name of a function, as statements say it. */
export const calledName = (name: string): string => (CALLED.has(name) ? `${name}_${SCHEMA_VERSION}` : name);

/** Brings the tables from a version to the next, if they are at that version. */
function tableStep(quoted: string, path: string, version: number): string {
  return `
  IF before <= ${version} THEN
    INSERT INTO ${quoted}.migrations (version) VALUES (${version + 1});
${filled(textOf([path]).join(""), quoted)}
  END IF;
`;
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
