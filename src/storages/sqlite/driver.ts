import { StorageError } from "../../core/errors.ts";
import { createDatabaseFile } from "./files.ts";

/** What is bound to a statement. */
export type SqlValue = string | number | null;

/** The part of a prepared statement that is used here. */
export interface SqliteStatement {
  run(...values: SqlValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
}

/** The part of a connection that is used here. `DatabaseSync` of `node:sqlite` and better-sqlite3 (13 or later) both fit. */
export interface SqliteConnection {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/** What one driver or the other says about itself beyond that. */
interface Traits {
  readonly isTransaction?: boolean;
  readonly inTransaction?: boolean;
}

/** How a statement is set to answer with objects and plain numbers, whatever the connection was set to. */
interface Settings {
  readonly reader?: boolean;
  readonly setReadBigInts?: (on: boolean) => unknown;
  readonly setReturnArrays?: (on: boolean) => unknown;
  readonly safeIntegers?: (on: boolean) => unknown;
  readonly raw?: (on: boolean) => unknown;
}

type NodeSqlite = { readonly DatabaseSync: new (path: string) => SqliteConnection };

/** Opens a file, or `":memory:"`, with the SQLite that Node brings along. */
export function openConnection(path: string): SqliteConnection {
  const sqlite = process.getBuiltinModule("node:sqlite") as NodeSqlite | undefined;
  if (sqlite === undefined) {
    throw new StorageError("this Node has no `node:sqlite`: give a connection of better-sqlite3 in place of a path");
  }
  createDatabaseFile(path);
  return new sqlite.DatabaseSync(path);
}

/** Is a transaction of the user open on this connection? Ours never outlive a turn of the event loop. */
export function inTransaction(connection: SqliteConnection): boolean {
  const { isTransaction, inTransaction: open } = connection as Traits;
  return isTransaction ?? open ?? false;
}

/** The file behind a connection; undefined for a database in memory. */
export function fileOf(connection: SqliteConnection): string | undefined {
  const databases = connection.prepare("PRAGMA database_list").all() as {
    readonly name: string;
    readonly file: string;
  }[];
  return databases.find(({ name }) => name === "main")?.file || undefined;
}

const BUSY = 5;
const LOCKED = 6;

/** Does the error say that another connection holds a lock for now? Known by its code, in the terms of either driver. */
export function isBusy(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { errcode, code } = error as { readonly errcode?: unknown; readonly code?: unknown };
  // The low byte is the kind; the rest says more (BUSY_RECOVERY, BUSY_SNAPSHOT, LOCKED_SHAREDCACHE).
  if (typeof errcode === "number") return (errcode & 0xff) === BUSY || (errcode & 0xff) === LOCKED;
  return typeof code === "string" && /^SQLITE_(?:BUSY|LOCKED)/.test(code);
}

/** The prepared statements of a connection, each made once. */
export class Statements {
  readonly #connection: SqliteConnection;
  readonly #prepared = new Map<string, SqliteStatement>();
  readonly #arrays = new Map<string, SqliteStatement>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  get(sql: string): SqliteStatement {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) {
      statement = this.#connection.prepare(sql);
      plain(statement);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  /** The same, with rows as arrays of values, where the driver can: it makes an array in half the time of an object. */
  arrays(sql: string): SqliteStatement {
    let statement = this.#arrays.get(sql);
    if (statement === undefined) {
      statement = this.#connection.prepare(sql);
      plain(statement);
      const settings = statement as Settings;
      if (settings.setReturnArrays === undefined) settings.raw?.(true);
      else settings.setReturnArrays(true);
      this.#arrays.set(sql, statement);
    }
    return statement;
  }

  /**
   * Distinct names along an index, however many rows lie between two of them. `next` selects the first name after its last parameter;
   * `values` are its other parameters.
   */
  *names(next: string, ...values: SqlValue[]): Iterable<string> {
    for (let name: unknown = ""; ;) {
      const row = this.arrays(next).get(...values, name as string);
      if (row === undefined) return;
      [name] = valuesOf(row);
      yield name as string;
    }
  }
}

/** The values of such a row, in the order of its columns. */
export const valuesOf = (row: unknown): readonly unknown[] => (Array.isArray(row) ? row : Object.values(row as object));

function plain(statement: SqliteStatement): void {
  const settings = statement as Settings;
  settings.setReadBigInts?.(false);
  settings.setReturnArrays?.(false);
  if (settings.reader === true) {
    settings.safeIntegers?.(false);
    settings.raw?.(false);
  }
}
