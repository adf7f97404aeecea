import { OptionsError, StorageError } from "../../core/errors.ts";
import { hasMethods } from "../../core/options.ts";
import { fileOf, inTransaction, openConnection, type SqliteConnection, Statements } from "./driver.ts";
import { DatabaseFile } from "./files.ts";
import { isMigrated, migrate, notMigrated } from "./migrations.ts";

/** How long SQLite itself waits for a lock. It blocks the process meanwhile, so not for long: the rest is waited without. */
const BUSY_TIMEOUT_MS = 20;

/** Cache for the pages that a claim among a million jobs of a hundred thousand groups touches. */
const CACHE_KB = 32_768;

/**
 * After so many pages the write-ahead log is brought into the database, which waits for the disk twice. SQLite's own number is 1,000:
 * a claim and what it settles write ten pages or more, so with that every hundredth waits. Beyond 4,062 a lookup in the log takes
 * two steps in place of one.
 */
const CHECKPOINT_PAGES = 4_000;

export interface ConnectionOptions {
  readonly migrate: boolean;
  readonly synchronous: "normal" | "full" | undefined;
}

/** A connection, its statements, and whether it has been made ready. Ours if it was made from a path. */
export class Connection {
  readonly raw: SqliteConnection;
  readonly own: boolean;
  readonly statements: Statements;
  /** The file behind it; undefined: in memory. */
  readonly file: string | undefined;
  readonly #database: DatabaseFile | undefined;
  readonly #options: ConnectionOptions;
  #ready = false;

  constructor(target: string | SqliteConnection, options: ConnectionOptions) {
    this.own = typeof target === "string";
    this.raw = typeof target === "string" ? openConnection(target) : target;
    this.statements = new Statements(this.raw);
    this.file = fileOf(this.raw);
    this.#database = this.file === undefined ? undefined : new DatabaseFile(this.file);
    this.#options = options;
  }

  /** Is a transaction of the user's open? Nothing of ours may become part of it. */
  get taken(): boolean {
    return inTransaction(this.raw);
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** Fails if the file is no longer the one that was opened. `now`: by the monotonic clock. */
  check(now: number): void {
    this.#database?.check(now);
  }

  /** Sets the connection up, and the tables if they are not there. May fail because another process does so right now. */
  prepare(): void {
    if (this.#ready) return;
    const { migrate: wanted, synchronous } = this.#options;
    // A connection that we were given keeps its settings, unless the user says otherwise.
    if (this.own) {
      this.raw.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA cache_size = -${CACHE_KB};
        PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    }
    if (this.own || synchronous !== undefined) {
      this.raw.exec(`PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}`);
    }
    if (!isMigrated(this.raw)) {
      if (!wanted) throw notMigrated(this.raw);
      this.#useWal();
      this.raw.exec("BEGIN IMMEDIATE");
      try {
        migrate(this.raw);
        this.raw.exec("COMMIT");
      } catch (error) {
        this.rollback();
        throw error;
      }
    }
    if (this.file !== undefined && this.#journal() === "wal") warnOfOldLibrary(this.raw);
    this.#ready = true;
  }

  rollback(): void {
    try {
      this.raw.exec("ROLLBACK");
    } catch {
      // Some errors have ended the transaction already.
    }
  }

  close(): void {
    if (this.own) this.raw.close();
  }

  /** Readers and a writer side by side. It is a property of the file, and stays. */
  #useWal(): void {
    if (this.file !== undefined && this.#journal() !== "wal") this.statements.get("PRAGMA journal_mode = WAL").get();
  }

  #journal(): string | undefined {
    return (this.statements.get("PRAGMA journal_mode").get() as { readonly journal_mode?: string }).journal_mode;
  }
}

/** Checks what a storage was given to work with. */
export function readTarget(owner: string, target: unknown): string | SqliteConnection {
  if (typeof target === "string" && target !== "") return target;
  if (hasMethods(target, ["exec", "prepare", "close"])) return target as unknown as SqliteConnection;
  throw new OptionsError(
    owner,
    "database",
    target,
    "a path, or a connection of `node:sqlite` or better-sqlite3 (13 or later)",
  );
}

let warned = false;

/** Libraries before this one may lose commits when two connections reset the write-ahead log at the same moment. */
const SOUND: readonly number[] = [3, 51, 3];

function warnOfOldLibrary(connection: SqliteConnection): void {
  if (warned) return;
  const statement = new Statements(connection).get("SELECT sqlite_version() AS version");
  const { version } = statement.get() as { readonly version: string };
  if (!isOlder(version, SOUND)) return;
  warned = true;
  process.emitWarning(
    `SQLite ${version} can corrupt a database in WAL mode that several processes use; ${SOUND.join(".")} or later is sound`,
    { type: "SluiceWarning", code: "SLUICE_OLD_SQLITE" },
  );
}

export function isOlder(version: string, than: readonly number[]): boolean {
  const parts = version.split(".").map(Number);
  for (const [i, least] of than.entries()) {
    const part = parts[i] ?? 0;
    if (part !== least) return part < least;
  }
  return false;
}

/** What a driver said, as an error of ours. */
export function failed(error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  return new StorageError(`SQLite: ${message}`, { cause: error });
}
