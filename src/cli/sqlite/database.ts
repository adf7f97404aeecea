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
  if (!allows(path, constants.R_OK)) {
    throw new Failure("SLUICE_STORAGE", `${path} is not readable for this user: ${AS_WORKERS}`);
  }
  const connection = new DatabaseSync(path, { readOnly: !isWritable(path) });
  connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  return connection;
}

/** New databases are for their owner alone. */
export const AS_WORKERS = "run this as the user that the workers run as";

export function isWritable(path: string): boolean {
  return allows(path, constants.W_OK);
}

function allows(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** SQLITE_PERM, READONLY and CANTOPEN: the file may be sound, but reading a database writes files beside it. */
export function isForbidden(error: unknown): boolean {
  const { errcode } = error as { readonly errcode?: unknown };
  return typeof errcode === "number" && [3, 8, 14].includes(errcode & 0xff);
}

function readSchema(connection: SqliteConnection, path: string): ReturnType<typeof schemaOf> {
  try {
    return schemaOf(connection);
  } catch (error) {
    const advice = isForbidden(error) ? ` (${AS_WORKERS})` : "";
    throw new Failure("SLUICE_STORAGE", `${path}: ${recordError(error).message}${advice}`);
  }
}

function keptClock(connection: SqliteConnection, storage: SqliteStorage, clock: Clock): KeptClock {
  // The next read notices a clock that was set.
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
