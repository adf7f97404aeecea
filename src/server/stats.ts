import type { Clock } from "../core/clock.ts";
import type { JobStorage, Outcome } from "../storage/job-storage.ts";

/** What a server has done since it was made. */
export interface JobQueueStats {
  /** Attempts that began. */
  readonly totalJobs: number;
  /** Attempts that run at the moment. */
  readonly runningJobs: number;
  readonly completedJobs: number;
  /** Failed for good: dead. */
  readonly failedJobs: number;
  /** Aborted while they ran. */
  readonly abortedJobs: number;
  /** Failed, and tried again. */
  readonly retriedJobs: number;
  /** Given back because a service was over its limit; no attempt was spent. */
  readonly heldJobs: number;
  /** How long `execute` took on average, in milliseconds; undefined: none has ended yet. */
  readonly averageProcessingTime: number | undefined;
  /** When one of these numbers last changed. */
  readonly lastUpdateTime: Date;
}

type Ending = "completedJobs" | "failedJobs" | "abortedJobs" | "retriedJobs" | "heldJobs";

const ENDINGS: Readonly<Record<Outcome["to"], Ending>> = {
  completed: "completedJobs",
  dead: "failedJobs",
  cancelled: "abortedJobs",
  retry: "retriedJobs",
  back: "heldJobs",
};

/** Counts the outcomes of the jobs of a server. */
export class Stats {
  readonly #clock: Clock;
  readonly #endings = { completedJobs: 0, failedJobs: 0, abortedJobs: 0, retriedJobs: 0, heldJobs: 0 };
  #began = 0;
  #ended = 0;
  #tookMs = 0;
  #changedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#changedAt = clock.wall();
  }

  /** Measures one attempt. */
  async measure<T>(work: () => Promise<T>): Promise<T> {
    const from = this.#clock.now();
    this.#began += 1;
    this.#changed();
    try {
      return await work();
    } finally {
      this.#ended += 1;
      this.#tookMs += this.#clock.now() - from;
      this.#changed();
    }
  }

  /** Counts settled outcomes, without those whose lease was lost. */
  settled(outcomes: readonly Outcome[], stale: readonly string[]): void {
    for (const outcome of outcomes) {
      const ending = endingOf(outcome);
      if (ending === undefined || stale.includes(outcome.id)) continue;
      this.#endings[ending] += 1;
      this.#changed();
    }
  }

  get snapshot(): JobQueueStats {
    return {
      totalJobs: this.#began,
      runningJobs: this.#began - this.#ended,
      ...this.#endings,
      averageProcessingTime: this.#ended === 0 ? undefined : this.#tookMs / this.#ended,
      lastUpdateTime: new Date(this.#changedAt),
    };
  }

  #changed(): void {
    this.#changedAt = this.#clock.wall();
  }
}

/** The same storage, with its settled outcomes counted: the counts are what the storage answered, and need no call of their own. */
export function counted(storage: JobStorage, stats: Stats): JobStorage {
  const steps: Pick<JobStorage, "claim" | "settle"> = {
    async claim(request) {
      const claim = await storage.claim(request);
      stats.settled(request.settle, claim.stale);
      return claim;
    },
    async settle(outcomes) {
      const stale = await storage.settle(outcomes);
      stats.settled(outcomes, stale);
      return stale;
    },
  };
  return new Proxy({} as JobStorage, {
    get(_, key) {
      if (key === "claim" || key === "settle") return steps[key];
      const member: unknown = Reflect.get(storage, key);
      // Bound to the storage, since its methods use private members.
      return typeof member === "function" ? (member.bind(storage) as unknown) : member;
    },
  });
}

function endingOf(outcome: Outcome): Ending | undefined {
  return outcome.to === "back" && !outcome.held ? undefined : ENDINGS[outcome.to];
}
