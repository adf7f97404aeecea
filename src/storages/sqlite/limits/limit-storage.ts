import type { LimitRule } from "../../../limits/rule.ts";
import { isUnchanged } from "../../../storage/declarations.ts";
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
import { promoteDue, queuesDue } from "../jobs/due.ts";
import type { Store } from "../store.ts";
import { change, declared, define, remove } from "./changing.ts";
import { readHistory } from "./history.ts";
import { ask, give, renew, take } from "./permits.ts";
import { readLimits } from "./reading.ts";

/** The shared limits of a database. */
export class SqliteLimits implements LimitStorage {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async define(rules: readonly LimitRule[], options: DeclareOptions = {}): Promise<LimitsDeclared> {
    // Most of the time everything is there already, and nothing need be written.
    const found = await this.#store.read((step) => declared(step, rules, options));
    if (isUnchanged(found)) return { changes: [], kept: found.kept };
    return this.#store.write((step) => define(step, rules, options));
  }

  remove(name: string, by: string | null = null): Promise<boolean> {
    return this.#store.write((step) => remove(step, name, by));
  }

  change(name: string, wanted: LimitChange, by: string | null = null): Promise<void> {
    return this.#store.write((step) => change(step, name, wanted, by));
  }

  history(query: LimitHistoryQuery): Promise<readonly LimitHistoryEntry[]> {
    return this.#store.read((step) => readHistory(step, query));
  }

  async read(query: LimitQuery): Promise<readonly LimitState[]> {
    // Jobs that have come due are counted as such, whether or not a claim came since.
    const due = await this.#store.read(queuesDue);
    if (due.length > 0) await this.#store.write((step) => due.forEach((queue) => promoteDue(step, queue)));
    return this.#store.read((step) => readLimits(step, query));
  }

  async take(request: LimitTake): Promise<LimitTaken> {
    const askedAt = this.#store.clock.now();
    // First without a lock: a request that is refused, or only asks, takes none.
    const answer = await this.#store.read((step) => ask(step, request));
    return answer ?? this.#store.write((step) => take(step, request), askedAt);
  }

  give(token: string, given: LimitGiven): Promise<void> {
    return this.#store.write((step) => give(step, token, given));
  }

  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#store.write((step) => renew(step, tokens, ttlMs));
  }
}
