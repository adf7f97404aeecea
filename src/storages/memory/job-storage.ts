import { type Clock, systemClock } from "../../core/clock.ts";
import { StorageError } from "../../core/errors.ts";
import type { JobEvent } from "../../core/events.ts";
import type { JobRecord } from "../../core/job.ts";
import { clock, optional, readOptions } from "../../core/options.ts";
import { type SharedLimiter, sharedLimiter, type SharedLimiterOptions } from "../../limiter/shared/shared-limiter.ts";
import type {
  Added,
  Change,
  Claim,
  ClaimRequest,
  Endings,
  Heartbeat,
  JobHistory,
  JobPage,
  JobStorage,
  JobUpdate,
  Lease,
  ListQuery,
  NewJob,
  Outcome,
  QueueOverview,
  Report,
  Subscriber,
  Sweep,
  Updated,
} from "../../storage/job-storage.ts";
import { closeConfirmations } from "../../storage/confirmations.ts";
import { closeRegistrar } from "../../storage/registrar.ts";
import {
  type Registered,
  type UnhandledType,
  wallWorker,
  type WorkerEntry,
  type WorkerRecord,
} from "../../storage/workers.ts";
import type { Confirmation } from "../../storage/grants.ts";
import type { Backlog, LimitStorage, StartConditions } from "../../storage/limit-storage.ts";
import { refuseTransaction } from "../../storage/transactions.ts";
import { closeWaiters } from "../../storage/waiters.ts";
import { add } from "./adding.ts";
import { backlog } from "./backlog.ts";
import { Book } from "./book.ts";
import { change, update } from "./changing.ts";
import { claim } from "./claiming.ts";
import { MemoryLimits } from "./limits/limit-storage.ts";
import type { InMemoryRateLimiterStorage } from "./rate-limiter-storage.ts";
import { endings, find, findByKey, history, list, overview, unhandled } from "./reading.ts";
import { heartbeat, report, settle } from "./settling.ts";
import { explain } from "./explaining.ts";
import { sweep } from "./sweeping.ts";

export interface MemoryStorageOptions {
  /** Where the time comes from. Default: the system's monotonic clock. */
  readonly clock?: Clock | undefined;
}

/**
 * Keeps jobs and limits in this process: for tests, for browsers, and wherever work may be lost with the process.
 *
 * Every member does all its work at once, before it returns its promise: nothing can come in between. The time of jobs is
 * the wall clock as it was when the storage was made, carried on by the monotonic clock: setting the wall clock changes
 * nothing.
 */
export class MemoryStorage implements JobStorage, AsyncDisposable {
  readonly limits: LimitStorage;
  readonly #book: Book;
  readonly #clock: Clock;
  #closed = false;

  constructor(options: MemoryStorageOptions = {}) {
    this.#clock = readOptions("MemoryStorage", { clock: optional(clock, systemClock) }, options).clock;
    this.#book = new Book(this.#clock);
    this.limits = new MemoryLimits(this.#book, (work) => this.#step(work));
  }

  get rates(): InMemoryRateLimiterStorage {
    return this.#book.rates;
  }

  /** A shared limit as a limiter for code outside of the queue: it counts with what workers start. */
  limiter(name: string, options: Omit<SharedLimiterOptions, "clock"> = {}): SharedLimiter {
    return sharedLimiter(this, name, options, this.#clock);
  }

  setup(): Promise<void> {
    return this.#step(() => {});
  }

  async close(): Promise<void> {
    this.#closed = true;
    // What was counted and registered is gone with the storage: this only ends timers.
    await Promise.all([closeConfirmations(this), closeRegistrar(this)]);
    this.#book.subscribers.clear();
    closeWaiters(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    return this.#step((now) => {
      refuseTransaction("MemoryStorage", tx);
      return add(this.#book, jobs, now);
    });
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return this.#step((now) => {
      const answer = claim(this.#book, request, now);
      const { nextInMs } = answer;
      // Counted from now: what the step itself took has passed.
      return nextInMs === null || nextInMs === 0
        ? answer
        : { ...answer, nextInMs: this.#book.timeUntil(now, nextInMs) };
    });
  }

  confirm(confirmations: readonly Confirmation[]): Promise<void> {
    return this.#step(() => {
      for (const confirmation of confirmations) this.#book.grants.confirm(confirmation, this.#book.limitNow());
    });
  }

  settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    return this.#step((now) => settle(this.#book, outcomes, now));
  }

  heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat> {
    return this.#step((now) => heartbeat(this.#book, leases, leaseMs, now));
  }

  report(reports: readonly Report[]): Promise<readonly string[]> {
    return this.#step((now) => report(this.#book, reports, now));
  }

  sweep(): Promise<Sweep> {
    return this.#step((now) => sweep(this.#book, now));
  }

  register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered> {
    return this.#step((now) => this.#book.workers.register(workers, ttlMs, gone, now));
  }

  workers(queue?: string): Promise<readonly WorkerRecord[]> {
    return this.#step((now) => this.#book.workers.live(now, queue).map((one) => wallWorker(one, this.#book.skew)));
  }

  unhandled(): Promise<readonly UnhandledType[]> {
    return this.#step((now) => unhandled(this.#book, now));
  }

  endings(ids: readonly string[]): Promise<Endings> {
    return this.#step(() => endings(this.#book, ids));
  }

  find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]> {
    return this.#step((now) => find(this.#book, ids, now));
  }

  findByKey(queue: string, key: string): Promise<JobRecord | undefined> {
    return this.#step((now) => findByKey(this.#book, queue, key, now));
  }

  history(id: string): Promise<JobHistory> {
    return this.#step(() => history(this.#book, id));
  }

  list(query: ListQuery): Promise<JobPage> {
    return this.#step((now) => list(this.#book, query, now));
  }

  overview(queue?: string): Promise<readonly QueueOverview[]> {
    return this.#step((now) => overview(this.#book, queue, now));
  }

  explain(id: string): Promise<StartConditions | undefined> {
    return this.#step((now) => explain(this.#book, id, now));
  }

  backlog(queue: string): Promise<Backlog> {
    return this.#step((now) => backlog(this.#book, queue, now));
  }

  change(wanted: Change): Promise<readonly string[]> {
    return this.#step((now) => change(this.#book, wanted, now));
  }

  update(wanted: JobUpdate): Promise<Updated> {
    return this.#step((now) => update(this.#book, wanted, now));
  }

  setPaused(queue: string, type: string | null, paused: boolean): Promise<void> {
    return this.#step(() => {
      this.#book.setPaused(queue, type, paused);
    });
  }

  subscribe(subscriber: Subscriber): () => void {
    if (this.#closed) throw closed();
    return this.#book.subscribers.add(subscriber);
  }

  publish(event: JobEvent): Promise<void> {
    return this.#step(() => {
      this.#book.subscribers.event(event);
    });
  }

  /** Does the work at once, then notifies subscribers. */
  async #step<T>(work: (now: number) => T): Promise<T> {
    if (this.#closed) throw closed();
    try {
      return work(this.#book.now());
    } finally {
      this.#book.notify();
    }
  }
}

const closed = () => new StorageError("the storage is closed");
