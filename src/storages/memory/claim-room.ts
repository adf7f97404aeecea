import { both } from "../../limits/compose.ts";
import { pauseWait } from "../../limits/pause.ts";
import { NEVER, type Wait } from "../../limits/wait.ts";
import { recordStart, viewOf, windowUsed, windowWait, type WindowView } from "../../limits/window.ts";
import type { Ledger } from "../../limits/ledger.ts";
import type { ClaimLimit } from "../../storage/job-storage.ts";
import type { Book } from "./book.ts";
import type { CountedStart } from "./stored-job.ts";

interface Rule extends ClaimLimit {
  readonly ledger: Ledger;
  readonly view: WindowView;
}

/** What the limits of one claim leave, at one instant. */
export class ClaimRoom {
  readonly #rules: readonly Rule[];
  /** By the clock of the ledgers. */
  readonly #time: number;

  constructor(book: Book, limits: readonly ClaimLimit[], now: number) {
    this.#time = book.toLedgerTime(now);
    this.#rules = limits.map(({ key, max, windowMs }) => {
      const ledger = book.ledger(key);
      return { key, max, windowMs, ledger, view: viewOf(ledger.log, windowMs) };
    });
  }

  /** How many may start. */
  get free(): number {
    let free = Number.POSITIVE_INFINITY;
    for (const rule of this.#rules) {
      const used = windowUsed(rule.ledger.log, rule.view, this.#time);
      free = Math.min(free, this.#wait(rule) === 0 ? rule.max - used : 0);
    }
    return free;
  }

  /** Counts so many starts: once for each name, however many windows look at it. */
  take(count: number): readonly CountedStart[] {
    const starts: CountedStart[] = [];
    for (const { key, ledger } of this.#rules) {
      if (starts.some((start) => start.key === key)) continue;
      const { log, seq } = recordStart(ledger.log, this.#time, count);
      starts.push({ key, ledger, log, seq });
    }
    return starts;
  }

  /** When one more may start, and what is in its way until then: of several, the one that is so the longest. */
  get next(): { readonly wait: Wait; readonly blockedBy: string | null; readonly full: readonly Ledger[] } {
    let wait: Wait = 0;
    let blockedBy: string | null = null;
    const full: Ledger[] = [];
    for (const rule of this.#rules) {
      const own = this.#wait(rule);
      if (own === 0) continue;
      full.push(rule.ledger);
      const together = both(wait, own);
      if (together !== wait || blockedBy === null) blockedBy = rule.key;
      wait = together;
    }
    return { wait, blockedBy, full };
  }

  #wait({ ledger, view, max }: Rule): Wait {
    const room = windowWait(ledger.log, view, max, this.#time, 1);
    return room === NEVER ? NEVER : Math.max(room, pauseWait(ledger.pause, this.#time));
  }
}
