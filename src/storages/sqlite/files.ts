import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { StorageError } from "../../core/errors.ts";

/** A new database is for its owner alone. SQLite gives `-wal` and `-shm` the mode of the database. */
const NEW_MODE = 0o600;
const READ_AND_WRITE = 0o666;
/** As many as Linux follows. */
const MOST_LINKS = 40;

/**
 * Creates the file of a database with its mode, where there is none: SQLite would make it readable by all users. A file that is there is
 * not opened: closing it would take away the locks that other connections of this process have on it.
 */
export function createDatabaseFile(target: string): void {
  let path = pathOf(target);
  if (path === undefined) return;
  try {
    // A path may be a link, also to a file that is not there yet.
    for (let links = 0; links < MOST_LINKS && isLink(path) && !existsSync(path); links++) {
      path = resolve(dirname(path), readlinkSync(path));
    }
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, NEW_MODE));
  } catch {
    // It is there already, or cannot be created, which SQLite will say.
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** The file that SQLite would create; undefined: none, or that is for SQLite to say. */
function pathOf(target: string): string | undefined {
  if (target === ":memory:" || target === "") return undefined;
  if (!target.startsWith("file:")) return target;
  const [, escaped = "", query] = /^file:(?:\/\/(?:localhost)?(?=\/))?([^?#]*)(?:\?([^#]*))?/.exec(target)!;
  const options = new URLSearchParams(query);
  // Others than these are opened without being created, or not by a path.
  if ((options.get("mode") ?? "rwc") !== "rwc" || options.has("vfs")) return undefined;
  try {
    const path = decodeURIComponent(escaped);
    return path === ":memory:" || path === "" || path.includes("\u0000") ? undefined : path;
  } catch {
    return undefined;
  }
}

/**
 * Opens the hint file beside a database, and creates it if there is none, with the mode of the database. Never through a link, and
 * nothing but a file with this one name: it is written to, and a user who may write to the folder could have put a link there.
 */
export function openHintFile(path: string, database: string): number {
  const like = statSync(database);
  const mode = like.mode & READ_AND_WRITE;
  const { O_RDWR, O_CREAT } = constants;
  // Windows has neither of the last two.
  const file = openSync(path, O_RDWR | O_CREAT | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0), mode);
  try {
    const found = fstatSync(file);
    if (!found.isFile() || found.nlink !== 1) throw new StorageError(`${path} is a link, or no file`);
    follow(file, found, like, mode);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/** What root creates, or was created under another umask, can be used by all users of the database. */
function follow(
  file: number,
  found: { readonly mode: number; readonly uid: number; readonly gid: number },
  like: { readonly uid: number; readonly gid: number },
  mode: number,
): void {
  try {
    if (process.getuid?.() === 0 && (found.uid !== like.uid || found.gid !== like.gid)) {
      fchownSync(file, like.uid, like.gid);
    }
    if ((found.mode & 0o777) !== mode) fchmodSync(file, mode);
  } catch {
    // It belongs to another user. Where it cannot be used, there are no hints.
  }
}

/** So often it is looked whether the file is still there: a look takes some microseconds, and a step as little as ten. */
const LOOK_EVERY_MS = 1_000;

/**
 * Notices that the file of an open database was deleted or replaced. SQLite does not: it goes on with the file that no name leads
 * to, and what is written there is lost to all others, and for good when the process ends.
 */
export class DatabaseFile {
  readonly #path: string;
  readonly #opened: BigIntStats | undefined;
  #lookAt = Number.NEGATIVE_INFINITY;

  constructor(path: string) {
    this.#path = path;
    this.#opened = this.#found();
  }

  /** `now`: by the monotonic clock. Throws a `StorageError` while the file is another one. */
  check(now: number): void {
    if (now < this.#lookAt || this.#opened === undefined) return;
    const found = this.#found();
    if (found === undefined || found.ino !== this.#opened.ino || found.dev !== this.#opened.dev) {
      const what = found === undefined ? "was deleted or moved" : "was replaced by another file";
      throw new StorageError(
        `the database ${this.#path} ${what} while it was open: nothing more is written. Put it back, or start the process again`,
      );
    }
    this.#lookAt = now + LOOK_EVERY_MS;
  }

  #found(): BigIntStats | undefined {
    return statSync(this.#path, { bigint: true, throwIfNoEntry: false });
  }
}
