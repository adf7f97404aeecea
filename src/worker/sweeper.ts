import type { Clock } from "../core/clock.ts";
import type { Random } from "../core/random.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { inTime } from "../core/deadline.ts";

const LONGEST_MS = 5_000;

/** Sweeps the storage regularly: six times in the length of a lease, and at least every 5 s. */
export class Sweeper {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #everyMs: number;
  readonly #report: (error: unknown) => void;
  #cancelTimer: (() => void) | undefined;
  readonly #stopping = new AbortController();

  constructor(storage: JobStorage, clock: Clock, random: Random, leaseMs: number, report: (error: unknown) => void) {
    this.#storage = storage;
    this.#clock = clock;
    this.#random = random;
    this.#everyMs = Math.min(LONGEST_MS, leaseMs / 6);
    this.#report = report;
  }

  start(): void {
    // Jitter, so that workers do not sweep at the same time.
    const ms = this.#everyMs * (0.75 + this.#random() / 4);
    this.#cancelTimer = this.#clock.after(ms, () => {
      this.#sweep()
        .catch((error: unknown) => {
          if (!this.#stopping.signal.aborted) this.#report(error);
        })
        .finally(() => {
          if (!this.#stopping.signal.aborted) this.start();
        });
    });
  }

  stop(): void {
    this.#stopping.abort();
    this.#cancelTimer?.();
  }

  async #sweep(): Promise<void> {
    while (
      !this.#stopping.signal.aborted &&
      (await inTime(this.#clock, () => this.#storage.sweep(), { signal: this.#stopping.signal })).more
    );
  }
}
