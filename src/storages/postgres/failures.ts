import { JobError, StorageError } from "../../core/errors.ts";

/** The SQLSTATE of an error of the driver, or of an error of ours that was made of one. */
export function sqlStateOf(error: unknown): string | undefined {
  const cause = error instanceof JobError ? error.cause : error;
  const code = codeOf(cause);
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** The step was not run in a transaction that is READ COMMITTED. */
export const WRONG_ISOLATION = "SL001";

/**
 * The step was rolled back, and may succeed the next time: a conflict with others (40001), a deadlock (40P01), a lock
 * that could not be had in time (55P03), a statement that took longer than the server allows (57014).
 */
const UNDONE: ReadonlySet<string> = new Set(["40001", "40P01", "55P03", "57014"]);

/**
 * The server is going, coming or full: shutdown, crash, start, too many connections; it has ended the session for its own
 * reasons (57P05, 25P03, 25P04); or it is not the one that may write any more (25006).
 */
const AWAY: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300", "57P05", "25P03", "25P04", "25006"]);

/** The connection to the server is broken: codes of Node. */
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

/** The same as messages of the driver, which has no codes for this. */
const BROKEN_WORDS =
  /connection terminated|connection ended|client has encountered a connection error|client was closed|timeout expired|timeout exceeded when trying to connect|connection is closed|server closed the connection|query read timeout/i;

/** Errors that only a connection can have: other code fails with other errors. */
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
  /** The connection is gone; what was sent may have been committed or not. Worth another try. */
  | "lost"
  /** The server refuses connections, or cannot be reached. Worth another try if it was reached before. */
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
  // Node tries all addresses of a host, and reports all errors.
  const all = (error as { readonly errors?: unknown } | null)?.errors;
  if (Array.isArray(all) && all.length > 0) return kindOf(all[0]);
  return error instanceof Error && !(error instanceof JobError) && BROKEN_WORDS.test(error.message) ? "lost" : "final";
}

/**
 * What a failure means once a statement was sent: every error of the server has a code, so one without a code comes from the
 * connection, and the outcome is unknown.
 */
export function kindOnceSent(error: unknown): Failure {
  const kind = kindOf(error);
  if (kind !== "final" || sqlStateOf(error) !== undefined || !(error instanceof Error)) return kind;
  return OWN_FAULTS.some((fault) => error instanceof fault) ? kind : "lost";
}

/** An error of the driver, as an error of ours. `doing`: the name of the call. */
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
