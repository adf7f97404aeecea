import { readOptions } from "../../core/options.ts";
import { closeConfirmations } from "../../storage/confirmations.ts";
import { PostgresDatabase } from "./database.ts";
import type { PostgresPool } from "./driver.ts";
import { Hub } from "./hub.ts";
import { PostgresRates } from "./rates.ts";
import { closed, OPTIONS, type PostgresStorageOptions } from "./storage.ts";
import { readTarget } from "./target.ts";

export type PostgresRateLimiterStorageOptions = PostgresStorageOptions;

const OWNER = "PostgresRateLimiterStorage";

/**
 * Keeps the starts that limiters count in a Postgres database, for all processes that use it. It is the same log that a
 * `PostgresStorage` over the same schema keeps: a limiter and the workers' limits of one name count together.
 */
export class PostgresRateLimiterStorage extends PostgresRates {
  readonly #database: PostgresDatabase;
  readonly #hub: Hub;
  #closing: Promise<void> | undefined;

  constructor(database: string | PostgresPool, options: PostgresRateLimiterStorageOptions = {}) {
    const settings = readOptions(OWNER, OPTIONS, options);
    const own = new PostgresDatabase(readTarget(OWNER, database), settings);
    super(own, OWNER);
    this.#database = own;
    // Workers are woken up when a limit becomes available.
    this.#hub = new Hub(own, settings.schema);
  }

  close(): Promise<void> {
    this.#closing ??= closed(this.#hub, this.#database, [closeConfirmations(this)]);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
