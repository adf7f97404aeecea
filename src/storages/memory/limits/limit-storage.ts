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
import type { LimitRule } from "../../../limits/rule.ts";
import type { Book } from "../book.ts";
import { changeLimit, defineLimits, removeLimit } from "./changing.ts";
import { readLimits } from "./reading.ts";
import { give, renew, take } from "./taking.ts";

/** Does the work at once, then notifies subscribers. */
export type Step = <T>(work: (now: number) => T) => Promise<T>;

/** The limits of a storage in this process. */
export class MemoryLimits implements LimitStorage {
  readonly #book: Book;
  readonly #step: Step;

  constructor(book: Book, step: Step) {
    this.#book = book;
    this.#step = step;
  }

  define(rules: readonly LimitRule[], options: DeclareOptions = {}): Promise<LimitsDeclared> {
    return this.#step((now) => defineLimits(this.#book, rules, options, now));
  }

  remove(name: string, by: string | null = null): Promise<boolean> {
    return this.#step((now) => removeLimit(this.#book, name, by, now));
  }

  change(name: string, change: LimitChange, by: string | null = null): Promise<void> {
    return this.#step((now) => changeLimit(this.#book, name, change, by, now));
  }

  history({ name, limit }: LimitHistoryQuery): Promise<readonly LimitHistoryEntry[]> {
    return this.#step(() => this.#book.limits.history.read(name, limit));
  }

  read(query: LimitQuery): Promise<readonly LimitState[]> {
    return this.#step((now) => readLimits(this.#book, query, now));
  }

  take(request: LimitTake): Promise<LimitTaken> {
    return this.#step((now) => take(this.#book, request, this.#book.limitTime(now)));
  }

  give(token: string, given: LimitGiven): Promise<void> {
    return this.#step((now) => give(this.#book, token, given, this.#book.limitTime(now)));
  }

  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#step((now) => renew(this.#book, tokens, ttlMs, this.#book.limitTime(now)));
  }
}
