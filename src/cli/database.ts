import type { Context } from "./command.ts";
import type { Database } from "./opened.ts";
import { addressOf } from "./address.ts";
import { withPostgres } from "./postgres/database.ts";
import { withSqlite } from "./sqlite/database.ts";

/** Opens the database, lets `use` work with it, and closes it. Nothing is created and nothing is migrated. */
export async function withDatabase<T>(context: Context, use: (database: Database) => Promise<T>): Promise<T> {
  const address = addressOf(context);
  return address.kind === "sqlite"
    ? withSqlite(address.path, context.io.clock, use)
    : withPostgres(address, context.io.clock, use);
}
