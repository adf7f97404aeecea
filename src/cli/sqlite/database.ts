import { accessSync, constants, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import { recordError } from "../../core/error-record.ts";
import type { Inspection } from "../../storage/inspection.ts";
import type { SqliteConnection } from "../../storages/sqlite/driver.ts";
import { countJobs, limitsOf, schemaOf, timeOf } from "../../storages/sqlite/inspect.ts";
import { repairClock } from "../../storages/sqlite/repair.ts";
import { SqliteStorage } from "../../storages/sqlite/storage.ts";
import { Failure } from "../failures.ts";
import { checkVersion, type Database, type KeptClock } from "../opened.ts";

/** How long SQLite itself waits for a lock; the storage waits for longer, without blocking. */
const BUSY_TIMEOUT_MS = 250;

/** Opens a file that is there, lets `use` work with it, and closes it. */
export async function withSqlite<T>(path: string, clock: Clock, use: (database: Database) => Promise<T>): Promise<T> {
  const connection = openExisting(path);
  try {
    checkVersion(readSchema(connection, path), `${path} holds no jobs of Sluice: it has none of its tables`);
    const storage = new SqliteStorage(connection, { migrate: false });
    try {
      return await use({ storage, look: inspection(connection, clock), clock: keptClock(connection, storage, clock) });
    } finally {
      await storage.close();
    }
  } finally {
    connection.close();
  }
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

function readSchema(connection: SqliteConnection, path: string): ReturnType<typeof schemaOf> {
  try {
    return schemaOf(connection);
  } catch (error) {
    throw new Failure("SLUICE_STORAGE", `${path}: ${recordError(error).message}`);
  }
}

function keptClock(connection: SqliteConnection, storage: SqliteStorage, clock: Clock): KeptClock {
  // A clock that was set is noticed by whoever reads next.
  const notice = () => storage.find([]);
  return {
    async read() {
      await notice();
      const wall = clock.wall();
      return { wall, offsetMs: timeOf(connection, wall).offsetMs };
    },
    async repair() {
      await notice();
      return repairClock(connection);
    },
  };
}

function inspection(connection: SqliteConnection, clock: Clock): Inspection {
  const now = () => timeOf(connection, clock.wall()).now;
  return {
    now: async () => clock.wall(),
    limits: async (most) => limitsOf(connection, now(), most),
    count: async (filter) => countJobs(connection, filter, now()),
  };
}
