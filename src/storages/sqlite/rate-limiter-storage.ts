import { readOptions } from "../../core/options.ts";
import { closeConfirmations } from "../../storage/confirmations.ts";
import { readTarget } from "./connection.ts";
import type { SqliteConnection } from "./driver.ts";
import { Hub } from "./hub.ts";
import { SqliteRates } from "./rates.ts";
import { OPTIONS, type SqliteStorageOptions } from "./storage.ts";
import { Store } from "./store.ts";

export type SqliteRateLimiterStorageOptions = SqliteStorageOptions;

const OWNER = "SqliteRateLimiterStorage";

/**
 * Keeps the starts that limiters count in a SQLite database, for all processes that share the file. It is the same log that
 * a `SqliteStorage` over the file keeps: a limiter and the workers' limits of one name count together.
 */
export class SqliteRateLimiterStorage extends SqliteRates {
  readonly #store: Store;
  readonly #hub: Hub;

  constructor(database: string | SqliteConnection, options: SqliteRateLimiterStorageOptions = {}) {
    const store = new Store(readTarget(OWNER, database), readOptions(OWNER, OPTIONS, options));
    super(store, OWNER);
    this.#store = store;
    // Workers that share the file are woken up when a limit becomes available.
    this.#hub = new Hub(store);
  }

  async close(): Promise<void> {
    await closeConfirmations(this);
    this.#hub.close();
    this.#store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
