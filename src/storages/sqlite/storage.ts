import { type Clock, systemClock } from "../../core/clock.ts";
import { StorageError } from "../../core/errors.ts";
import type { JobEvent } from "../../core/events.ts";
import type { JobRecord } from "../../core/job.ts";
import { type Check, clock, oneOf, optional, random, readOptions } from "../../core/options.ts";
import { type Random, systemRandom } from "../../core/random.ts";
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
import { type SharedLimiter, sharedLimiter, type SharedLimiterOptions } from "../../limiter/shared/shared-limiter.ts";
import { findKeepable, isKeepable, isListable, isUpdatable, keepableChange } from "../../storage/keepable.ts";
import { closeConfirmations } from "../../storage/confirmations.ts";
import { closeRegistrar } from "../../storage/registrar.ts";
import type { Registered, UnhandledType, WorkerEntry, WorkerRecord } from "../../storage/workers.ts";
import { closeWaiters } from "../../storage/waiters.ts";
import type { Confirmation } from "../../storage/grants.ts";
import type { Backlog, LimitStorage, StartConditions } from "../../storage/limit-storage.ts";
import type { ConfirmingRateLimiterStorage } from "../../storage/rate-limiter-storage.ts";
import { refuseTransaction } from "../../storage/transactions.ts";
import { Adding } from "./adding.ts";
import { readTarget } from "./connection.ts";
import type { SqliteConnection } from "./driver.ts";
import { Hub } from "./hub.ts";
import { backlog } from "./jobs/backlog.ts";
import { change } from "./jobs/change.ts";
import { claim, glance } from "./jobs/claim.ts";
import { isAnyDue, promoteDue } from "./jobs/due.ts";
import { explain } from "./jobs/explain.ts";
import { heartbeat, report } from "./jobs/heartbeat.ts";
import { endings, find, findByKey, history, list, readCursor } from "./jobs/list.ts";
import { overview, setPaused } from "./jobs/overview.ts";
import { settle } from "./jobs/settle.ts";
import { isSweepable, sweep } from "./jobs/sweep.ts";
import { update } from "./jobs/update.ts";
import { confirm } from "./limits/grants.ts";
import { SqliteLimits } from "./limits/limit-storage.ts";
import { SqliteRates } from "./rates.ts";
import { Store } from "./store.ts";
import { liveWorkers, register, unhandled } from "./workers.ts";

export interface SqliteStorageOptions {
  /**
   * Create or update the tables on first use. Default: true. With false, a database whose tables are missing or older is
   * an error.
   */
  readonly migrate?: boolean | undefined;
  /**
   * What a commit waits for. `"normal"` (the default): it survives the end of the process, however sudden; a power failure
   * may take the last moments with it. `"full"`: it survives that as well, and takes longer. A connection of your own keeps
   * its setting unless this is given.
   */
  readonly synchronous?: "normal" | "full" | undefined;
  /** Where the time comes from. Default: the clocks of the system. */
  readonly clock?: Clock | undefined;
  /** Where chance comes from, for the waits between attempts to get a lock. */
  readonly random?: Random | undefined;
}

const yesOrNo: Check<boolean> = {
  expected: "true or false",
  read: (value) => (typeof value === "boolean" ? value : undefined),
};

export const OPTIONS = {
  migrate: optional(yesOrNo, true),
  synchronous: optional(oneOf("normal", "full"), undefined),
  clock: optional(clock, systemClock),
  random: optional(random, systemRandom),
};

const OWNER = "SqliteStorage";

/**
 * Keeps jobs and limits in a SQLite database, for one process or many on one computer.
 *
 * Give it a path, or a connection of your own (`node:sqlite`, or better-sqlite3 13 or later): that one is never closed,
 * keeps its settings, and while a transaction of yours is open on it, the storage waits. The file itself is switched to WAL
 * mode when the tables are created; beside it the storage keeps a file that ends in `-hint`, through which processes wake
 * each other.
 */
export class SqliteStorage implements JobStorage {
  readonly limits: LimitStorage;
  readonly rates: ConfirmingRateLimiterStorage;
  readonly #store: Store;
  readonly #hub: Hub;
  readonly #adding: Adding;

  constructor(database: string | SqliteConnection, options: SqliteStorageOptions = {}) {
    this.#store = new Store(readTarget(OWNER, database), readOptions(OWNER, OPTIONS, options));
    this.#hub = new Hub(this.#store);
    this.#adding = new Adding(this.#store);
    this.limits = new SqliteLimits(this.#store);
    this.rates = new SqliteRates(this.#store, OWNER);
  }

  /** A shared limit, for code outside of the queue: one quota for both. */
  limiter(name: string, options: Omit<SharedLimiterOptions, "clock"> = {}): SharedLimiter {
    return sharedLimiter(this, name, options, this.#store.clock);
  }

  setup(): Promise<void> {
    return this.#store.setup();
  }

  async close(): Promise<void> {
    await Promise.all([closeConfirmations(this, this.rates), closeRegistrar(this)]);
    await this.#adding.done();
    this.#hub.close();
    this.#store.close();
    closeWaiters(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    refuseTransaction(OWNER, tx);
    return this.#adding.add(jobs);
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const time = this.#store.clock;
    const askedAt = time.now();
    // A claim that would get nothing takes no lock.
    const writes = request.settle.length > 0 || (request.confirm ?? []).length > 0;
    const seen = writes ? undefined : await this.#store.read((step) => glance(step, request));
    if (seen !== undefined) return seen;
    const { answer, decidedAt } = await this.#store.write(
      (step) => ({ decidedAt: time.now(), answer: claim(step, request) }),
      askedAt,
    );
    // Counted from now, and not from when the lock was taken: the rest of the step takes its time.
    const { nextInMs } = answer;
    return nextInMs === null ? answer : { ...answer, nextInMs: Math.max(0, nextInMs - (time.now() - decidedAt)) };
  }

  confirm(confirmations: readonly Confirmation[]): Promise<void> {
    return this.#store.write((step) => confirm(step, confirmations));
  }

  settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    return this.#store.write((step) => settle(step, outcomes));
  }

  heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat> {
    return this.#store.write((step) => heartbeat(step, leases, leaseMs));
  }

  report(reports: readonly Report[]): Promise<readonly string[]> {
    return this.#store.write((step) => report(step, reports));
  }

  async sweep(): Promise<Sweep> {
    if (!(await this.#store.read(isSweepable))) return { stalled: 0, deleted: 0, more: false };
    return this.#store.write(sweep);
  }

  register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered> {
    return this.#store.write((step) => register(step, workers, ttlMs, gone));
  }

  workers(queue?: string): Promise<readonly WorkerRecord[]> {
    return this.#store.read((step) => liveWorkers(step, queue));
  }

  unhandled(): Promise<readonly UnhandledType[]> {
    return this.#store.read(unhandled);
  }

  endings(ids: readonly string[]): Promise<Endings> {
    return this.#store.read((step) => endings(step, ids));
  }

  find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]> {
    return findKeepable(ids, (keepable) => this.#store.read((step) => find(step, keepable)));
  }

  async findByKey(queue: string, key: string): Promise<JobRecord | undefined> {
    return this.#store.read((step) => (isKeepable(queue) && isKeepable(key) ? findByKey(step, queue, key) : undefined));
  }

  history(id: string): Promise<JobHistory> {
    return this.#store.read((step) => (isKeepable(id) ? history(step, id) : { attempts: [], log: [] }));
  }

  async list(query: ListQuery): Promise<JobPage> {
    if (query.cursor !== null) readCursor(query.cursor);
    if (isListable(query)) await this.#promote(query.queue);
    return this.#store.read((step) => (isListable(query) ? list(step, query) : { jobs: [], cursor: null }));
  }

  async overview(queue?: string): Promise<readonly QueueOverview[]> {
    const views = await this.#store.read((step) => (isKeepable(queue ?? null) ? overview(step, queue) : []));
    let stale = false;
    for (const view of views) {
      if (view.counts.scheduled > 0) stale = (await this.#promote(view.queue)) || stale;
    }
    return stale ? this.#store.read((step) => overview(step, queue)) : views;
  }

  async explain(id: string): Promise<StartConditions | undefined> {
    const found = await this.#store.read((step) => (isKeepable(id) ? explain(step, id) : undefined));
    if (found === undefined || !(await this.#promote(found.job.queue))) return found;
    return this.#store.read((step) => explain(step, id));
  }

  async backlog(queue: string): Promise<Backlog> {
    await this.#promote(queue);
    return this.#store.read((step) => backlog(step, queue));
  }

  change(wanted: Change): Promise<readonly string[]> {
    const keepable = keepableChange(wanted);
    return this.#store.write((step) => (keepable === undefined ? [] : change(step, keepable)));
  }

  update(wanted: JobUpdate): Promise<Updated> {
    return this.#store.write((step) => (isUpdatable(wanted) ? update(step, wanted) : { updated: false, state: null }));
  }

  setPaused(queue: string, type: string | null, paused: boolean): Promise<void> {
    return this.#store.write((step) => setPaused(step, queue, type, paused));
  }

  subscribe(subscriber: Subscriber): () => void {
    if (this.#store.closed) throw new StorageError("the storage is closed");
    return this.#hub.subscribe(subscriber);
  }

  async publish(event: JobEvent): Promise<void> {
    // Most of the time no process listens, and nothing need be written.
    if (await this.#store.isHeard()) await this.#store.write((step) => step.event(event));
  }

  /** Jobs that have come due are shown as such, whether or not a claim came since. */
  async #promote(queue: string): Promise<boolean> {
    if (!(await this.#store.read((step) => isAnyDue(step, queue)))) return false;
    await this.#store.write((step) => promoteDue(step, queue));
    return true;
  }
}
