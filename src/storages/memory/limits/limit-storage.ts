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
import type { LimitRule } from "../../../limits/rule.ts";
import type { Book } from "../book.ts";
import { changeLimit, defineLimits, removeLimit } from "./changing.ts";
import { readLimits } from "./reading.ts";
import { give, renew, take } from "./taking.ts";

/** Does the work at once, then lets everybody hear of it. */
export type Step = <T>(work: (now: number) => T) => Promise<T>;

/** The limits of a storage in this process. */
export class MemoryLimits implements LimitStorage {
  readonly #book: Book;
  readonly #step: Step;

  constructor(book: Book, step: Step) {
    this.#book = book;
    this.#step = step;
  }

  define(rules: readonly LimitRule[], onConflict: OnConflict): Promise<void> {
    return this.#step((now) => defineLimits(this.#book, rules, onConflict, this.#book.toLedgerTime(now)));
  }

  remove(name: string): Promise<boolean> {
    return this.#step(() => removeLimit(this.#book, name));
  }

  change(name: string, change: LimitChange): Promise<void> {
    return this.#step((now) => changeLimit(this.#book, name, change, this.#book.toLedgerTime(now)));
  }

  read(query: LimitQuery): Promise<readonly LimitState[]> {
    return this.#step((now) => readLimits(this.#book, query, now));
  }

  take(request: LimitTake): Promise<LimitTaken> {
    return this.#step((now) => take(this.#book, request, this.#book.toLedgerTime(now)));
  }

  give(token: string, given: LimitGiven): Promise<void> {
    return this.#step((now) => give(this.#book, token, given, this.#book.toLedgerTime(now)));
  }

  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#step((now) => renew(this.#book, tokens, ttlMs, this.#book.toLedgerTime(now)));
  }
}
