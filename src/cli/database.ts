import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { recordError } from "../core/error-record.ts";
import type { SqliteConnection } from "../storages/sqlite/driver.ts";
import { schemaOf } from "../storages/sqlite/inspect.ts";
import { SqliteStorage } from "../storages/sqlite/storage.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import type { Context } from "./command.ts";
import { Failure, UsageError } from "./failures.ts";

/** A database that was there before, with its tables as this release knows them. */
export interface Database {
  readonly storage: JobStorage;
  /** For questions that no storage answers. */
  readonly connection: SqliteConnection;
}

/** How long SQLite itself waits for a lock; the storage waits for longer, without blocking. */
const BUSY_TIMEOUT_MS = 250;

/** Opens the database, lets `use` work with it, and closes it. Nothing is created and nothing is migrated. */
export async function withDatabase<T>(context: Context, use: (database: Database) => Promise<T>): Promise<T> {
  const path = databasePath(context);
  const connection = openExisting(path);
  try {
    const { found, known } = readSchema(connection, path);
    if (found === 0)
      throw new Failure("SLUICE_NO_DATABASE", `${path} holds no jobs of Sluice: it has none of its tables`);
    if (found !== known) throw new Failure("SLUICE_SCHEMA", otherVersion(found, known));
    const storage = new SqliteStorage(connection, { migrate: false });
    try {
      return await use({ storage, connection });
    } finally {
      await storage.close();
    }
  } finally {
    connection.close();
  }
}

function readSchema(connection: SqliteConnection, path: string): ReturnType<typeof schemaOf> {
  try {
    return schemaOf(connection);
  } catch (error) {
    throw new Failure("SLUICE_STORAGE", `${path}: ${recordError(error).message}`);
  }
}

/** Where the database is, by the command line or the environment. An address is never shown: it may hold a password. */
export function databasePath({ args, io }: Context): string {
  const given = args.text("db") ?? io.env["SLUICE_DB"] ?? "";
  if (given === "") throw new UsageError("which database? Say --db path/to/file.db, or set SLUICE_DB");
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(given)) {
    throw new UsageError("the database must be a SQLite file, and this is an address (not shown here)");
  }
  if (given === ":memory:") throw new UsageError("a database in memory is seen by its own process alone");
  return resolve(given);
}

/** A connection to a file that exists; read-only where the file cannot be written. */
export function openExisting(path: string): DatabaseSync {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new Failure("SLUICE_NO_DATABASE", `there is no file ${path}`);
  if (!found.isFile()) throw new Failure("SLUICE_NO_DATABASE", `${path} is not a file`);
  const connection = new DatabaseSync(path, { readOnly: !isWritable(path) });
  connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  return connection;
}

export function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** What to do about tables of another version. */
export function otherVersion(found: number, known: number): string {
  return found > known
    ? `the database has schema version ${found}, and this release knows ${known}: update Sluice`
    : `the database has schema version ${found}, and this release needs ${known}: start a worker of this release, which updates it`;
}
