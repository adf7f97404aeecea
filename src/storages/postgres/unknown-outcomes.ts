import type { Clock } from "../../core/clock.ts";

/** Waits between rounds in which nothing could be resolved, doubled each time. */
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
/** After so long no network buffer still holds the statement (sql/steps.sql: begin_attempt), and leases and permits have expired. */
const GIVE_UP_AFTER_MS = 3_600_000;
/** So many are kept at most; beyond that the oldest are left to expire. */
const MOST = 1_000;

/** A step that failed without an answer: it may have been committed, or may be committed later. */
export interface UnknownOutcome {
  /** Makes sure that the step is over, and undoes what it did. Rejects while the outcome cannot be determined. */
  readonly resolve: () => Promise<unknown>;
}

interface Pending extends UnknownOutcome {
  readonly since: number;
}

/**
 * Resolves steps whose outcome is unknown, in the background, after their calls were rejected: one after the other, in rounds, until
 * each is resolved. A step that cannot be resolved now does not hold up the others.
 */
export class UnknownOutcomes {
  readonly #clock: Clock;
  readonly #open: (work: () => Promise<void>) => Promise<void>;
  #pending: Pending[] = [];
  #running = false;
  #closed = false;
  #hurried = false;
  #wake = (): void => {};

  /** `open`: runs work that closing waits for. */
  constructor(clock: Clock, open: (work: () => Promise<void>) => Promise<void>) {
    this.#clock = clock;
    this.#open = open;
  }

  add(outcome: UnknownOutcome): void {
    if (this.#closed) return;
    this.#pending.push({ ...outcome, since: this.#clock.now() });
    if (this.#pending.length > MOST) this.#pending.shift();
    if (this.#running) return;
    this.#running = true;
    void this.#open(() => this.#run());
  }

  /** The storage is about to close: tries once more, now. */
  hurry(): void {
    this.#hurried = true;
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async #run(): Promise<void> {
    let wait = FIRST_WAIT_MS;
    while (this.#pending.length > 0 && !this.#closed) {
      const round = this.#pending;
      this.#pending = [];
      const last = this.#hurried;
      if (await this.#resolveAll(round)) wait = FIRST_WAIT_MS;
      if (this.#pending.length === 0 || this.#closed || last) break;
      if (!this.#hurried) await this.#pause(wait);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
    this.#running = false;
  }

  /** Returns whether any of them was resolved. */
  async #resolveAll(round: readonly Pending[]): Promise<boolean> {
    let any = false;
    for (const pending of round) {
      if (this.#closed) break;
      try {
        await pending.resolve();
        any = true;
      } catch {
        if (this.#clock.now() - pending.since < GIVE_UP_AFTER_MS) this.#pending.push(pending);
      }
    }
    return any;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
