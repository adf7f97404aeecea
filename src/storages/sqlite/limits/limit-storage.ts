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
import { promoteDue, queuesDue } from "../jobs/due.ts";
import type { Store } from "../store.ts";
import { change, declared, define, remove } from "./changing.ts";
import { ask, give, renew, take } from "./permits.ts";
import { readLimits } from "./reading.ts";

/** The shared limits of a database. */
export class SqliteLimits implements LimitStorage {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async define(rules: readonly LimitRule[], onConflict: OnConflict): Promise<void> {
    // Most of the time everything is there already, and nothing need be written.
    const anew = await this.#store.read((step) => declared(step, rules, onConflict).length > 0);
    if (anew) await this.#store.write((step) => define(step, rules, onConflict));
  }

  remove(name: string): Promise<boolean> {
    return this.#store.write((step) => remove(step, name));
  }

  change(name: string, wanted: LimitChange): Promise<void> {
    return this.#store.write((step) => change(step, name, wanted));
  }

  async read(query: LimitQuery): Promise<readonly LimitState[]> {
    // Jobs that have come due are counted as such, whether or not anybody has claimed since.
    const due = await this.#store.read(queuesDue);
    if (due.length > 0) await this.#store.write((step) => due.forEach((queue) => promoteDue(step, queue)));
    return this.#store.read((step) => readLimits(step, query));
  }

  async take(request: LimitTake): Promise<LimitTaken> {
    const askedAt = this.#store.clock.now();
    // First without a lock: whoever is refused, or only asks, takes none.
    const told = await this.#store.read((step) => ask(step, request));
    return told ?? this.#store.write((step) => take(step, request), askedAt);
  }

  give(token: string, given: LimitGiven): Promise<void> {
    return this.#store.write((step) => give(step, token, given));
  }

  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#store.write((step) => renew(step, tokens, ttlMs));
  }
}
