import { JobError, StorageError } from "../../core/errors.ts";

/** The SQLSTATE of an error of the driver, or of an error of ours that was made of one. */
export function sqlStateOf(error: unknown): string | undefined {
  const told = error instanceof JobError ? error.cause : error;
  const code = codeOf(told);
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** The step was not run in a transaction that is READ COMMITTED. */
export const WRONG_ISOLATION = "SL001";

/**
 * What failed so was undone, and may go through the next time: a conflict with others (40001), a deadlock (40P01), a lock
 * that was not to be had (55P03), a statement that took longer than the server allows (57014).
 */
const UNDONE: ReadonlySet<string> = new Set(["40001", "40P01", "55P03", "57014"]);

/**
 * The server is going, coming or full: shutdown, crash, start, too many connections; it has ended the session for its own
 * reasons (57P05, 25P03, 25P04); or it is not the one that may write any more (25006).
 */
const AWAY: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300", "57P05", "25P03", "25P04", "25006"]);

/** The way to the server is broken, in the words of Node. */
const BROKEN: ReadonlySet<string> = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EAI_AGAIN",
]);

/** In those of the driver: it has no codes for this. */
const BROKEN_WORDS =
  /connection terminated|connection ended|client has encountered a connection error|client was closed|timeout expired|timeout exceeded when trying to connect|connection is closed|server closed the connection|query read timeout/i;

/** What nobody but the way to the server can have said: code of ours and of the engine fails with others. */
const OWN_FAULTS: readonly (abstract new (...args: never[]) => Error)[] = [
  JobError,
  SyntaxError,
  TypeError,
  RangeError,
  ReferenceError,
];

export type Failure =
  /** Undone, and worth another try. */
  | "undone"
  /** The connection is gone; what was sent may have happened or not. Worth another try. */
  | "lost"
  /** The server, or the way to it, is refused to everybody. Worth another try if it was there before. */
  | "refused"
  | "final";

/** What a failure means for the step that met it. */
export function kindOf(error: unknown): Failure {
  const code = codeOf(error);
  if (code === "ECONNREFUSED") return "refused";
  if (code !== undefined) {
    if (UNDONE.has(code)) return "undone";
    if (AWAY.has(code) || BROKEN.has(code) || code.startsWith("08")) return "lost";
  }
  // Node tries all addresses of a host, and tells of all of them.
  const all = (error as { readonly errors?: unknown } | null)?.errors;
  if (Array.isArray(all) && all.length > 0) return kindOf(all[0]);
  return error instanceof Error && !(error instanceof JobError) && BROKEN_WORDS.test(error.message) ? "lost" : "final";
}

/**
 * What a failure means once a statement was sent: the server always says with a code why it has refused something, so
 * whatever has none comes from the way to it, and nobody knows what was done.
 */
export function kindOnceSent(error: unknown): Failure {
  const kind = kindOf(error);
  if (kind !== "final" || sqlStateOf(error) !== undefined || !(error instanceof Error)) return kind;
  return OWN_FAULTS.some((fault) => error instanceof fault) ? kind : "lost";
}

/** What a driver said, as an error of ours. `doing`: what it was about. */
export function failed(error: unknown, doing: string): JobError {
  if (error instanceof JobError) return error;
  return new StorageError(`Postgres: ${wordsOf(error)} (${doing})`, { cause: error });
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== "") return error.message;
  return codeOf(error) ?? error.name;
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { readonly code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}

/** Nothing is begun any more. */
export const closedError = (): StorageError => new StorageError("the storage is closed");
