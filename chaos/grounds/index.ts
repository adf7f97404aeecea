import type { Ground } from "./ground.ts";
import { postgres } from "./postgres.ts";
import { sqlite } from "./sqlite.ts";

export type { Ground } from "./ground.ts";

/** A database is named by a path or by an address. */
export function groundOf(database: string): Ground {
  return database.startsWith("postgres://") ? postgres : sqlite;
}
