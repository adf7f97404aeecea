import { afterAll, type Clock, systemClock } from "../core/clock.ts";
import type { JobRecord } from "../core/job.ts";
import type { JobStorage, Outcome } from "../storage/job-storage.ts";
import type { Grant } from "./admission.ts";
import { Execution, type ExecutionOptions } from "./execution.ts";
import { Leases } from "./leases.ts";
import { givenBack } from "./outcome.ts";
import { Pace } from "./pace.ts";
import { RunningJob, type Taken } from "./running.ts";

/** What was taken ahead and could not be begun for so long, or for this part of a lease, is given back. */
const WAITING_MS = 250;
const PART_OF_LEASE = 0.25;
/**
 * So many that were taken ahead are begun before the event loop has its turn. While the next ones run, the storage works on those
 * that ended at once: settles them, and finds others in their place.
 */
const SLICE = 50;

export interface HandsOptions {
  readonly storage: JobStorage;
  readonly clock: Clock;
  /** How many calls of handlers run at the same time. */
  readonly concurrency: number;
  /** How many jobs a call gets at most; undefined: one, and not as a batch. */
  readonly batchSize: number | undefined;
  readonly leaseMs: number;
  readonly execution: Omit<ExecutionOptions, "settled" | "callEnded" | "batch" | "clock" | "leaseMs">;
  /** A lease is to be ended so. */
  readonly ended: (outcome: Outcome) => void;
  /** More could run. */
  readonly freed: () => void;
}

/** How jobs came into our hands: as `Taken`, with what the limiter gave for each. */
export interface TakenTogether extends Omit<Taken, "grant"> {
  readonly grants: readonly Grant[];
}

/**
 * The jobs in the hands of a worker: those whose handlers run, and those that were taken ahead and wait for a hand to be free.
 * Leases are kept for all of them.
 */
export class Hands {
  readonly #options: HandsOptions;
  /** By their tokens: a job that was lost may come back while its old handler still runs. */
  readonly #jobs = new Map<number, RunningJob>();
  readonly #leases: Leases;
  readonly #execution: Execution;
  readonly #pace: Pace;
  readonly #waitingMs: number;
  /** Handler calls under way. */
  #calls = 0;
  /** Taken ahead, in order. */
  #waiting: RunningJob[] = [];
  /** How many that waited were begun since the event loop had its turn. */
  #begun = 0;
  #beginning = false;
  #pausing = false;
  #cancelTimer: (() => void) | undefined;

  constructor(options: HandsOptions) {
    this.#options = options;
    const { storage, clock, leaseMs, execution, batchSize } = options;
    this.#leases = new Leases(storage, clock, leaseMs, this.#jobs, execution.report);
    this.#pace = new Pace(leaseMs, options.concurrency);
    this.#waitingMs = Math.min(WAITING_MS, leaseMs * PART_OF_LEASE);
    this.#execution = new Execution({
      ...execution,
      clock,
      leaseMs,
      batch: batchSize !== undefined,
      settled: (running, outcome) => {
        this.#jobs.delete(running.job.token);
        options.ended(outcome);
      },
      callEnded: (tookMs) => {
        this.#calls -= 1;
        this.#pace.ended(tookMs);
        this.#beginWaiting();
        options.freed();
      },
    });
  }

  /** How many there are, whether they run or wait. */
  get size(): number {
    return this.#jobs.size;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** How many more jobs could run, beside those that wait. */
  get free(): number {
    const { concurrency, batchSize = 1 } = this.#options;
    return Math.max(0, (concurrency - this.#calls) * batchSize - this.#waiting.length);
  }

  /** How many to have waiting, by what jobs took of late. */
  ahead(): number {
    return this.#options.batchSize === undefined ? this.#pace.ahead() : 0;
  }

  /** Something is about to be taken: what was lost meanwhile is told to stop before that. */
  check(): void {
    this.#leases.check();
  }

  /** Jobs that were leased: as many as can run are begun, the others wait. cancelled: somebody wants these to be cancelled. */
  take(jobs: readonly JobRecord[], { grants, ...how }: TakenTogether, cancelled: ReadonlySet<string>): void {
    const taken = jobs.map((job, i) => new RunningJob(job, { ...how, grant: grants[i] }));
    for (const running of taken) this.#jobs.set(running.job.token, running);
    if (cancelled.size > 0) this.cancel(cancelled);
    this.#leases.watch();
    const atOnce = this.free;
    const size = this.#options.batchSize ?? 1;
    for (let i = 0; i < Math.min(atOnce, taken.length); i += size) this.#begin(taken.slice(i, i + size));
    if (taken.length > atOnce) this.#keep(taken.slice(atOnce));
  }

  /** Tells those to stop that somebody wants to be cancelled. */
  cancel(ids: ReadonlySet<string>): void {
    for (const running of this.#jobs.values()) if (ids.has(running.job.id)) running.stop("cancelled");
  }

  /** Those that wait are given back: nothing more is begun. */
  giveBackWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    for (const running of waiting) this.#giveBack(running);
  }

  /** Tells all to stop. */
  stop(): void {
    for (const running of this.#jobs.values()) running.stop("stopped");
  }

  /** Gives up what has not listened. */
  abandon(): void {
    for (const running of this.#jobs.values()) this.#execution.abandon(running);
  }

  /** Leases are kept no longer. */
  close(): void {
    this.#leases.stop();
    this.#cancelTimer?.();
  }

  #begin(jobs: readonly RunningJob[]): void {
    this.#calls += 1;
    this.#execution.start(jobs);
  }

  #keep(jobs: readonly RunningJob[]): void {
    for (const running of jobs) this.#waiting.push(running);
    this.#beginWaiting();
    if (this.#waiting.length > 0) this.#cancelTimer ??= this.#watchOldest();
  }

  #beginWaiting(): void {
    // One that ends before it has begun comes back here: whoever began it goes on anyway.
    if (this.#beginning) return;
    this.#beginning = true;
    try {
      this.#beginNext();
    } finally {
      this.#beginning = false;
    }
  }

  #beginNext(): void {
    const { clock, concurrency } = this.#options;
    while (this.#calls < concurrency && this.#waiting.length > 0) {
      // A clock that is moved by hand knows no event loop.
      if (this.#begun >= SLICE && clock === systemClock) return this.#pause();
      this.#begun += 1;
      // A handler that hears that it lost its job may stop the worker.
      this.check();
      const running = this.#waiting.shift();
      if (running === undefined) return;
      // What waited for too long, since the process stood still, may be somebody else's soon.
      if (clock.now() - running.takenAt > this.#waitingMs) this.#giveBack(running);
      else this.#begin([running]);
    }
  }

  /** Goes on when the event loop has had its turn. */
  #pause(): void {
    if (this.#pausing) return;
    this.#pausing = true;
    this.#options.clock.after(0, () => {
      this.#pausing = false;
      this.#begun = 0;
      this.#beginWaiting();
    });
  }

  /** What waits when its time is up is given back: jobs take longer than they did. */
  #watchOldest(): () => void {
    const { clock } = this.#options;
    const since = this.#waiting[0]!.takenAt;
    return afterAll(clock, since + this.#waitingMs - clock.now(), () => {
      this.#cancelTimer = undefined;
      const [oldest] = this.#waiting;
      if (oldest === undefined) return;
      if (clock.now() - oldest.takenAt >= this.#waitingMs) {
        this.#pace.slowed();
        this.giveBackWaiting();
      } else this.#cancelTimer = this.#watchOldest();
    });
  }

  #giveBack(running: RunningJob): void {
    if (running.over) return;
    running.end();
    this.#jobs.delete(running.job.token);
    const { grant } = running;
    if (grant !== undefined) (async () => grant.cancel())().catch(this.#options.execution.report);
    this.#options.ended(givenBack(running.job));
  }
}
