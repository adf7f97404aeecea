import type { Clock } from "../core/clock.ts";
import type { JobState } from "../core/job.ts";
import type { JobStorage } from "../storage/job-storage.ts";

/** Jobs in this state are removed when they ended so long ago. */
export interface Retention {
  readonly state: JobState;
  readonly afterMs: number;
}

export interface CleanerOptions {
  readonly storage: JobStorage;
  readonly queue: string;
  readonly retentions: readonly Retention[];
  readonly everyMs: number;
  readonly clock: Clock;
  readonly report: (error: unknown) => void;
}

/** How many jobs are removed in one step: small steps let other calls come in between. */
const STEP = 500;

/** Removes jobs of a queue that ended long enough ago, when it starts and at an interval. */
export class Cleaner {
  readonly #options: CleanerOptions;
  #stopped = false;
  #cleaning: Promise<void> = Promise.resolve();
  #cancelTimer: () => void = () => {};

  constructor(options: CleanerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#options.retentions.length > 0) this.#cleaning = this.#clean();
  }

  /** Resolves when no call to the storage is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    await this.#cleaning;
  }

  /** Never rejects: a failed step is tried again the next time. */
  async #clean(): Promise<void> {
    const { retentions, clock, everyMs, report } = this.#options;
    try {
      for (const retention of retentions) await this.#remove(retention);
    } catch (error) {
      report(error);
    }
    if (this.#stopped) return;
    this.#cancelTimer = clock.after(everyMs, () => {
      this.#cleaning = this.#clean();
    });
  }

  async #remove({ state, afterMs }: Retention): Promise<void> {
    const { storage, queue } = this.#options;
    const where = { states: [state], type: null, group: null, endedForMs: afterMs };
    let removed = STEP;
    while (!this.#stopped && removed === STEP) {
      removed = (await storage.change({ action: "remove", queue, where, limit: STEP })).length;
    }
  }
}
