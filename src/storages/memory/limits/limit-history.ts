import { KEPT_CHANGES, KEPT_CHANGES_OF_ALL } from "../../../storage/limit-history.ts";
import type { LimitHistoryEntry } from "../../../storage/limit-storage.ts";

interface Numbered {
  readonly number: number;
  readonly entry: LimitHistoryEntry;
}

/** The latest changes of each limit. */
export class LimitHistory {
  /** By limit, the one whose latest change is the oldest first; of each limit the oldest change first. */
  readonly #byLimit = new Map<string, Numbered[]>();
  #number = 0;
  #size = 0;

  add(entry: LimitHistoryEntry): void {
    const own = this.#byLimit.get(entry.limit) ?? [];
    this.#byLimit.delete(entry.limit);
    this.#byLimit.set(entry.limit, own);
    own.push({ number: this.#number++, entry });
    this.#size += 1;
    if (own.length > KEPT_CHANGES) this.#drop(own);
    else if (this.#size > KEPT_CHANGES_OF_ALL) this.#dropOldest();
  }

  /** The newest first. */
  read(name: string | null, most: number): readonly LimitHistoryEntry[] {
    const found = name === null ? [...this.#byLimit.values()].flat() : (this.#byLimit.get(name) ?? []);
    return found
      .toSorted((a, b) => b.number - a.number)
      .slice(0, most)
      .map(({ entry }) => entry);
  }

  #dropOldest(): void {
    for (const [limit, own] of this.#byLimit) {
      this.#drop(own);
      if (own.length === 0) this.#byLimit.delete(limit);
      return;
    }
  }

  #drop(own: Numbered[]): void {
    own.shift();
    this.#size -= 1;
  }
}
