import type { LimitRule } from "../../../limits/rule.ts";
import type {
  DeclareOptions,
  LimitChange,
  LimitGiven,
  LimitHistoryEntry,
  LimitHistoryQuery,
  LimitQuery,
  LimitsDeclared,
  LimitState,
  LimitStorage,
  LimitTake,
  LimitTaken,
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

  define(rules: readonly LimitRule[], options: DeclareOptions = {}): Promise<LimitsDeclared> {
    return this.#database.together((database) => define(database, rules, options));
  }

  remove(name: string, by: string | null = null): Promise<boolean> {
    return this.#database.together((database) => remove(database, name, by));
  }

  change(name: string, wanted: LimitChange, by: string | null = null): Promise<void> {
    return this.#database.together((database) => change(database, name, wanted, by));
  }

  history({ name, limit }: LimitHistoryQuery): Promise<readonly LimitHistoryEntry[]> {
    return this.#database.call("read_history", name, limit);
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
