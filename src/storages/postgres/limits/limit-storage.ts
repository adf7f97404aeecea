import type { LimitRule } from "../../../limits/rule.ts";
import type {
  LimitChange,
  LimitGiven,
  LimitQuery,
  LimitState,
  LimitStorage,
  LimitTake,
  LimitTaken,
  OnConflict,
} from "../../../storage/limit-storage.ts";
import type { Database } from "../database.ts";
import { change, define, remove } from "./changing.ts";
import { give, renew, take } from "./permits.ts";
import { readLimits } from "./reading.ts";

/** The shared limits of a database. */
export class PostgresLimits implements LimitStorage {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  define(rules: readonly LimitRule[], onConflict: OnConflict): Promise<void> {
    return this.#database.together((database) => define(database, rules, onConflict));
  }

  remove(name: string): Promise<boolean> {
    return this.#database.together((database) => remove(database, name));
  }

  change(name: string, wanted: LimitChange): Promise<void> {
    return this.#database.together((database) => change(database, name, wanted));
  }

  read(query: LimitQuery): Promise<readonly LimitState[]> {
    return readLimits(this.#database, query);
  }

  take(request: LimitTake): Promise<LimitTaken> {
    return take(this.#database, request);
  }

  async give(token: string, given: LimitGiven): Promise<void> {
    // A token that says nothing is not asked about.
    this.#database.check();
    await give(this.#database, token, given);
  }

  async renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
    this.#database.check();
    return renew(this.#database, tokens, ttlMs);
  }
}
