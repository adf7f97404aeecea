import { StorageError } from "../../core/errors.ts";
import type { SqliteConnection } from "./driver.ts";
import { SCHEMA_1 } from "./schema-1.ts";
import { SCHEMA_2 } from "./schema-2.ts";

/**
 * What turns each version of the tables into the next. A new database takes all of them (decision 0032). Steps that were released
 * never change.
 */
const MIGRATIONS: readonly string[] = [SCHEMA_1, SCHEMA_2];

/** The version of the tables that this code works with. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Are the tables there, in this version? Those of a later one are refused. */
export function isMigrated(connection: SqliteConnection): boolean {
  const version = schemaVersion(connection);
  if (version > SCHEMA_VERSION) throw newerSchema(version);
  return version === SCHEMA_VERSION;
}

/** The tables are of a later version than this code: perhaps since it has opened them. */
export function newerSchema(version: number): StorageError {
  return new StorageError(
    `the database has schema version ${version}, and this release of Sluice knows ${SCHEMA_VERSION}: update Sluice`,
  );
}

/** Brings the tables to this version. Runs in a write transaction, so once, however many processes start together. */
export function migrate(connection: SqliteConnection): void {
  if (isMigrated(connection)) return;
  for (const step of MIGRATIONS.slice(schemaVersion(connection))) connection.exec(step);
  connection.prepare("UPDATE sluice_meta SET version = ?").run(SCHEMA_VERSION);
}

/** The error of a storage with `migrate: false`. */
export function notMigrated(connection: SqliteConnection): StorageError {
  return new StorageError(
    `the database has schema version ${schemaVersion(connection)} and needs ${SCHEMA_VERSION}: ` +
      "call setup() on a storage without `migrate: false` first",
  );
}

/** 0: there are no tables yet. */
function schemaVersion(connection: SqliteConnection): number {
  const table = connection.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sluice_meta'").all();
  if (table.length === 0) return 0;
  const [row] = connection.prepare("SELECT version FROM sluice_meta").all() as { readonly version: unknown }[];
  // An array or a bigint, if the connection is set to answer so.
  return Number(Array.isArray(row) ? row[0] : row?.version);
}
