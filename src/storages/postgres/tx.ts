import { OptionsError, StorageError } from "../../core/errors.ts";
import { hasMethods } from "../../core/options.ts";
import type { Caller } from "./database.ts";
import { calledName } from "./migrations.ts";

/*
 * A job can be added in a transaction of the user, of any library. None is imported: each is known by the few members that are
 * used of it. A database or a pool that is no transaction is refused wherever that can be seen,
 * for the job would be added at once then, and stay when the rest is rolled back.
 */

/** A client of `pg` on which a transaction was begun, or whatever else takes a text and values and answers with rows. */
export interface PgTransaction {
  // oxlint-disable-next-line typescript/no-explicit-any -- as drivers declare it
  query(text: string, values: any[]): PromiseLike<{ readonly rows: readonly unknown[] }>;
}

/** What `sql.begin` of postgres.js hands to its callback. */
export interface PostgresJsTransaction {
  // oxlint-disable-next-line typescript/no-explicit-any -- as drivers declare it
  unsafe(text: string, values: any[]): PromiseLike<readonly unknown[]>;
  savepoint: unknown;
}

/** What `db.transaction()` of Drizzle hands to its callback. Its driver has the transaction: one of those above. */
export interface DrizzleTransaction {
  rollback(): never;
  execute: unknown;
}

/** What `db.transaction().execute()` of Kysely hands to its callback. */
export interface KyselyTransaction {
  readonly isTransaction: true;
  // oxlint-disable-next-line typescript/no-explicit-any -- a CompiledQuery, of whatever version
  executeQuery(query: any): PromiseLike<{ readonly rows: readonly unknown[] }>;
}

/** What an interactive `$transaction()` of Prisma hands to its callback. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>;
}

/** A transaction that jobs can be added in. */
export type PostgresTransaction =
  | PgTransaction
  | PostgresJsTransaction
  | DrizzleTransaction
  | KyselyTransaction
  | PrismaTransaction;

/** What of the storage's own database is needed for that. */
interface Home {
  /** Quoted, as it stands in statements. */
  readonly schema: string;
  /** Makes sure that the tables are there, on a connection of our own. */
  setup(): Promise<void>;
}

/**
 * The database as it is seen inside of a transaction of the user's: a function that takes a JSON text and perhaps flags is
 * run once. Errors of the driver are passed on as they are: only the user can begin the
 * transaction again.
 */
export function inTransaction(tx: unknown, home: Home): Caller {
  const run = runIn(tx);
  return {
    async call<T>(name: string, json: string, ...flags: readonly boolean[]): Promise<T> {
      await home.setup();
      // Drivers differ in how they bind JSON, numbers and booleans. A text is a text to all of them.
      const args = ["$1::text::json", ...flags.map((flag) => (flag ? "true" : "false"))].join(", ");
      const [row] = await run(`SELECT ${home.schema}.${calledName(name)}(${args})::text AS answer`, json);
      return JSON.parse((row as { readonly answer: string }).answer) as T;
    },
  };
}

/** Runs a statement with one value, a text (`$1::text`), in a transaction. The rows of its answer. */
export type Run = (text: string, value: string) => PromiseLike<readonly unknown[]>;

const EXPECTED =
  "an open transaction: a client of pg or postgres.js on which one was begun, or what Drizzle, Kysely or Prisma hand to its callback";

/** How statements are run in this transaction of the user's. */
export function runIn(tx: unknown): Run {
  const run = prisma(tx) ?? kysely(tx) ?? drizzle(tx) ?? postgresJs(tx) ?? pg(tx);
  if (run === undefined) throw refused(tx);
  return run;
}

function refused(tx: unknown, hint?: string): OptionsError {
  return new OptionsError("add", "tx", tx, EXPECTED, hint);
}

function prisma(tx: unknown): Run | undefined {
  if (!hasMethods(tx, ["$queryRawUnsafe"])) return undefined;
  if (hasMethods(tx, ["$connect"]))
    throw refused(tx, "this is a Prisma client: use what $transaction(async (tx) => …) gives");
  const open = tx as unknown as PrismaTransaction;
  return async (text, value) => rowsOf(await open.$queryRawUnsafe(text, value));
}

function kysely(tx: unknown): Run | undefined {
  if (!hasMethods(tx, ["executeQuery", "selectFrom"]) || !("isTransaction" in tx)) return undefined;
  if (tx.isTransaction !== true) {
    throw refused(tx, "this is Kysely itself: use what db.transaction().execute(async (tx) => …) gives");
  }
  // What plugins do to names and rows is meant for the user's own tables.
  const bare: unknown = hasMethods(tx, ["withoutPlugins"]) ? tx.withoutPlugins() : tx;
  return async (text, value) => {
    const query = { kind: "RawNode", sqlFragments: [text], parameters: [] };
    const compiled = { sql: text, parameters: [value], query, queryId: { queryId: "sluice" } };
    return rowsOf((await (bare as KyselyTransaction).executeQuery(compiled)).rows);
  };
}

function drizzle(tx: unknown): Run | undefined {
  if (!hasMethods(tx, ["execute", "select", "transaction"]) || !("_" in tx || "session" in tx)) return undefined;
  if (!hasMethods(tx, ["rollback"])) {
    throw refused(tx, "this is Drizzle itself: use what db.transaction(async (tx) => …) gives");
  }
  const { session, _: inner } = tx as { session?: { client?: unknown }; _?: { session?: { client?: unknown } } };
  const client = (session ?? inner?.session)?.client;
  const run = postgresJs(client) ?? pg(client);
  if (run === undefined) throw refused(tx, "this driver of Drizzle is not known");
  return run;
}

function postgresJs(tx: unknown): Run | undefined {
  if (!hasMethods(tx, ["unsafe"])) return undefined;
  if (!hasMethods(tx, ["savepoint"])) {
    throw refused(tx, "this is postgres.js itself: use what sql.begin(async (tx) => …) gives");
  }
  const open = tx as unknown as PostgresJsTransaction;
  return async (text, value) => rowsOf(await open.unsafe(text, [value]));
}

function pg(tx: unknown): Run | undefined {
  if (!hasMethods(tx, ["query"])) return undefined;
  if ("totalCount" in tx && "idleCount" in tx) {
    throw refused(tx, "this is a pool: BEGIN on a client of it, and use that one");
  }
  // Only newer releases of pg can say it. I: idle.
  if (hasMethods(tx, ["getTransactionStatus"]) && tx.getTransactionStatus() === "I") {
    throw refused(tx, "no transaction is open on this client: BEGIN first");
  }
  const client = tx as unknown as PgTransaction;
  return async (text, value) => rowsOf((await client.query(text, [value])).rows);
}

function rowsOf(rows: unknown): readonly unknown[] {
  if (!Array.isArray(rows)) throw new StorageError("the transaction did not answer with rows");
  return rows as readonly unknown[];
}
