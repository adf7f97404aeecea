import { afterAll, systemClock } from "../core/clock.ts";
import type { JobRecord } from "../core/job.ts";
import type { Outcome } from "../storage/job-storage.ts";
import type { LimiterGrant } from "./admission.ts";
import { Execution, type ExecutionOptions } from "./execution.ts";
import { InFlightJob, type Origin } from "./in-flight-job.ts";
import { Leases } from "./leases.ts";
import { PrefetchSize } from "./prefetch.ts";

/** A prefetched job that did not start for so long, or for this part of a lease, is given back. */
const LONGEST_PREFETCHED_MS = 250;
const PART_OF_LEASE = 0.25;
/**
 * So many prefetched jobs start before the event loop has its turn. While the next ones run, the storage settles those that ended
 * at once, and claims others in their place.
 */
const SLICE = 50;

export interface InFlightOptions extends Omit<ExecutionOptions, "settled" | "callEnded"> {
  /** A job ended: its lease is to be settled with this outcome. */
  readonly ended: (outcome: Outcome) => void;
  /** A slot was freed: more could run. */
  readonly freed: () => void;
}

/** The origin of all jobs of one claim, with a grant of the limiter for each. */
export interface ClaimOrigin extends Omit<Origin, "grant"> {
  readonly grants: readonly LimiterGrant[];
}

/** The in-flight jobs of a worker: those whose handlers run, and prefetched ones that wait for a slot. All of them keep their leases. */
export class InFlight {
  readonly #options: InFlightOptions;
  /** By their tokens: a job that was lost may come back while its old handler still runs. */
  readonly #jobs = new Map<number, InFlightJob>();
  readonly #leases: Leases;
  readonly #execution: Execution;
  readonly #prefetchSize: PrefetchSize;
  readonly #longestPrefetchedMs: number;
  /** Handler calls under way. */
  #calls = 0;
  /** Jobs that wait for a slot, in order. */
  #prefetched: InFlightJob[] = [];
  /** How many prefetched jobs were started since the event loop had its turn. */
  #startedInSlice = 0;
  #starting = false;
  #pausing = false;
  #cancelTimer: (() => void) | undefined;

  constructor(options: InFlightOptions) {
    this.#options = options;
    const { lease, concurrency } = options.settings;
    this.#leases = new Leases(options.settings, this.#jobs, options.report);
    this.#prefetchSize = new PrefetchSize(lease, concurrency);
    this.#longestPrefetchedMs = Math.min(LONGEST_PREFETCHED_MS, lease * PART_OF_LEASE);
    this.#execution = new Execution({
      ...options,
      settled: (running, outcome) => {
        this.#jobs.delete(running.job.token);
        options.ended(outcome);
      },
      callEnded: (tookMs) => {
        this.#calls -= 1;
        this.#prefetchSize.ended(tookMs);
        this.#startPrefetched();
        options.freed();
      },
    });
  }

  /** How many jobs are in flight, running or prefetched. */
  get size(): number {
    return this.#jobs.size;
  }

  /** How many jobs wait for a slot. */
  get prefetched(): number {
    return this.#prefetched.length;
  }

  /** How many more jobs could run, beside the prefetched ones. */
  get free(): number {
    const { concurrency, batch } = this.#options.settings;
    return Math.max(0, (concurrency - this.#calls) * (batch?.size ?? 1) - this.#prefetched.length);
  }

  /** How many jobs to have prefetched, by how long recent jobs took. */
  prefetchSize(): number {
    return this.#options.settings.batch === undefined ? this.#prefetchSize.next() : 0;
  }

  /** To be called before jobs are claimed: jobs whose lease was lost meanwhile are aborted. */
  check(): void {
    this.#leases.check();
  }

  /** Adds jobs of a claim: as many as have a slot start, the others are prefetched. `cancelled`: the ids of jobs to cancel at once. */
  add(jobs: readonly JobRecord[], { grants, ...origin }: ClaimOrigin, cancelled: ReadonlySet<string>): void {
    const added = jobs.map((job, i) => new InFlightJob(job, { ...origin, grant: grants[i] }));
    for (const one of added) this.#jobs.set(one.job.token, one);
    if (cancelled.size > 0) this.cancel(cancelled);
    this.#leases.watch();
    const atOnce = this.free;
    const size = this.#options.settings.batch?.size ?? 1;
    for (let i = 0; i < Math.min(atOnce, added.length); i += size) this.#start(added.slice(i, i + size));
    if (added.length > atOnce) this.#prefetch(added.slice(atOnce));
  }

  /** Aborts the jobs with these ids, because they were cancelled. */
  cancel(ids: ReadonlySet<string>): void {
    for (const one of this.#jobs.values()) if (ids.has(one.job.id)) one.abort("cancelled");
  }

  giveBackPrefetched(): void {
    const prefetched = this.#prefetched;
    this.#prefetched = [];
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    for (const one of prefetched) this.#execution.giveBack(one);
  }

  /** Aborts all jobs, because the worker stops. */
  abort(): void {
    for (const one of this.#jobs.values()) one.abort("stopped");
  }

  /** Settles all jobs that have not ended, without waiting for their handlers. */
  abandon(): void {
    for (const one of this.#jobs.values()) this.#execution.abandon(one);
  }

  /** Renews no more leases. */
  close(): void {
    this.#leases.stop();
    this.#cancelTimer?.();
  }

  #start(jobs: readonly InFlightJob[]): void {
    this.#calls += 1;
    this.#execution.start(jobs);
  }

  #prefetch(jobs: readonly InFlightJob[]): void {
    for (const one of jobs) this.#prefetched.push(one);
    this.#startPrefetched();
    if (this.#prefetched.length > 0) this.#cancelTimer ??= this.#watchOldest();
  }

  #startPrefetched(): void {
    // A job that ends before its handler is called leads back here; the outer call then starts the next one.
    if (this.#starting) return;
    this.#starting = true;
    try {
      this.#startNext();
    } finally {
      this.#starting = false;
    }
  }

  #startNext(): void {
    const { clock, concurrency } = this.#options.settings;
    while (this.#calls < concurrency && this.#prefetched.length > 0) {
      // A fake clock does not advance with the event loop.
      if (this.#startedInSlice >= SLICE && clock === systemClock) return this.#pause();
      this.#startedInSlice += 1;
      // A handler that is aborted here may stop the worker.
      this.check();
      const next = this.#prefetched.shift();
      if (next === undefined) return;
      // If the process stood still, the lease may expire soon.
      if (clock.now() - next.claimedAt > this.#longestPrefetchedMs) this.#execution.giveBack(next);
      else this.#start([next]);
    }
  }

  /** Continues after a turn of the event loop. */
  #pause(): void {
    if (this.#pausing) return;
    this.#pausing = true;
    this.#options.settings.clock.after(0, () => {
      this.#pausing = false;
      this.#startedInSlice = 0;
      this.#startPrefetched();
    });
  }

  /** Gives back prefetched jobs that did not start in time: jobs take longer than they did. */
  #watchOldest(): () => void {
    const { clock } = this.#options.settings;
    const since = this.#prefetched[0]!.claimedAt;
    return afterAll(clock, since + this.#longestPrefetchedMs - clock.now(), () => {
      this.#cancelTimer = undefined;
      const [oldest] = this.#prefetched;
      if (oldest === undefined) return;
      if (clock.now() - oldest.claimedAt >= this.#longestPrefetchedMs) {
        this.#prefetchSize.reset();
        this.giveBackPrefetched();
      } else this.#cancelTimer = this.#watchOldest();
    });
  }
}
