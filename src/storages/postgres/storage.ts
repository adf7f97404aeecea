import { type Clock, systemClock } from "../../core/clock.ts";
import type { JobEvent } from "../../core/events.ts";
import type { JobRecord } from "../../core/job.ts";
import {
  type Check,
  clock,
  optional,
  positiveDuration,
  random,
  readOptions,
  smallCountOrZero,
} from "../../core/options.ts";
import { type Random, systemRandom } from "../../core/random.ts";
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
import { findKeepable, isKeepable, isListable, isUpdatable, keepableChange } from "../../storage/keepable.ts";
import { closeConfirmations } from "../../storage/confirmations.ts";
import { closeRegistrar } from "../../storage/registrar.ts";
import type { Registered, UnhandledType, WorkerEntry, WorkerRecord } from "../../storage/workers.ts";
import { closeWaiters } from "../../storage/waiters.ts";
import type { Confirmation } from "../../storage/grants.ts";
import type { Backlog, LimitStorage, StartConditions } from "../../storage/limit-storage.ts";
import type { ConfirmingRateLimiterStorage } from "../../storage/rate-limiter-storage.ts";
import { Adding } from "./adding.ts";
import { PostgresDatabase } from "./database.ts";
import type { PostgresPool } from "./driver.ts";
import { confirm } from "./grants.ts";
import { Hub } from "./hub.ts";
import { addInside } from "./jobs/add.ts";
import { backlog } from "./jobs/backlog.ts";
import { change } from "./jobs/change.ts";
import { explain } from "./jobs/explain.ts";
import { heartbeat, report } from "./jobs/heartbeat.ts";
import { endings, find, findByKey, history, list } from "./jobs/list.ts";
import { overview, setPaused } from "./jobs/overview.ts";
import { settle } from "./jobs/settle.ts";
import { sweep } from "./jobs/sweep.ts";
import { PlannedClaims } from "./jobs/take.ts";
import { update } from "./jobs/update.ts";
import { PostgresLimits } from "./limits/limit-storage.ts";
import { PostgresRates } from "./rates.ts";
import { readTarget, schemaName } from "./target.ts";
import { inTransaction } from "./tx.ts";
import { liveWorkers, register, unhandled } from "./workers.ts";

export interface PostgresStorageOptions {
  /** The schema that everything is kept in, and nothing else. Default: `"sluice"`. */
  readonly schema?: string | undefined;
  /**
   * Create or update the schema on first use. Default: true. With false, one that is missing or older is an error, and
   * `sluice migrate` has to be run by hand.
   */
  readonly migrate?: boolean | undefined;
  /**
   * How long a call may take, all attempts together, before it fails. Default: 10 s. Only creating or updating the schema may
   * take a minute, for it waits for other processes that do.
   */
  readonly timeout?: number | string | undefined;
  /**
   * How many connections the storage makes itself, at most. With a URL: in its pool (default 10), and two more for when all
   * of these are busy. Beside a pool of yours: for when all of its connections are taken for longer than a moment (default
   * 2, of which one is only for heartbeats, settling and sweeps; 0: none). One more listens.
   */
  readonly connections?: number | undefined;
  /** Where the time for timers and deadlines comes from; decisions go by the clock of the server. */
  readonly clock?: Clock | undefined;
  /** Where chance comes from, for the waits between attempts. */
  readonly random?: Random | undefined;
}

const yesOrNo: Check<boolean> = {
  expected: "true or false",
  read: (value) => (typeof value === "boolean" ? value : undefined),
};

export const OPTIONS = {
  schema: optional(schemaName, "sluice"),
  migrate: optional(yesOrNo, true),
  timeout: optional(positiveDuration, 10_000),
  connections: optional(smallCountOrZero, undefined),
  clock: optional(clock, systemClock),
  random: optional(random, systemRandom),
};

const OWNER = "PostgresStorage";

/**
 * Keeps jobs and limits in a Postgres database (14 or later), for any number of processes on any number of machines.
 *
 * Give it a pool of `pg`, which is used and never closed, or a URL, with which it makes a pool of its own. Everything is
 * kept in one schema. Only the clock of the server decides.
 */
export class PostgresStorage implements JobStorage {
  readonly limits: LimitStorage;
  readonly rates: ConfirmingRateLimiterStorage;
  readonly #database: PostgresDatabase;
  readonly #hub: Hub;
  readonly #adding: Adding;
  readonly #claims: PlannedClaims;
  #closing: Promise<void> | undefined;

  constructor(database: string | PostgresPool, options: PostgresStorageOptions = {}) {
    const target = readTarget(OWNER, database);
    const settings = readOptions(OWNER, OPTIONS, options);
    this.#database = new PostgresDatabase(target, settings);
    this.#hub = new Hub(this.#database, settings.schema);
    this.#adding = new Adding(this.#database);
    this.#claims = new PlannedClaims(settings.clock);
    this.limits = new PostgresLimits(this.#database);
    this.rates = new PostgresRates(this.#database, OWNER);
  }

  /** How often a call was tried again, because of a conflict or a broken connection. */
  get retries(): number {
    return this.#database.retries;
  }

  /** A shared limit, for code outside of the queue: one quota for both. */
  limiter(name: string, options: Omit<SharedLimiterOptions, "clock"> = {}): SharedLimiter {
    return sharedLimiter(this, name, options, this.#database.clock);
  }

  setup(): Promise<void> {
    return this.#database.setup();
  }

  close(): Promise<void> {
    this.#closing ??= closed(this.#hub, this.#database, [closeConfirmations(this, this.rates), closeRegistrar(this)]);
    closeWaiters(this);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    const database = this.#open();
    return tx === undefined ? this.#adding.add(jobs) : addInside(inTransaction(tx, database), jobs);
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const database = this.#open();
    return this.#claims.claim(database, request);
  }

  async confirm(confirmations: readonly Confirmation[]): Promise<void> {
    return confirm(this.#open(), confirmations);
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    return settle(this.#open(), outcomes);
  }

  async heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat> {
    return heartbeat(this.#open(), leases, leaseMs);
  }

  async report(reports: readonly Report[]): Promise<readonly string[]> {
    return report(this.#open(), reports);
  }

  async sweep(): Promise<Sweep> {
    return sweep(this.#open());
  }

  async register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered> {
    return register(this.#open(), workers, ttlMs, gone);
  }

  async workers(queue?: string): Promise<readonly WorkerRecord[]> {
    return liveWorkers(this.#open(), queue);
  }

  async unhandled(): Promise<readonly UnhandledType[]> {
    return unhandled(this.#open());
  }

  async endings(ids: readonly string[]): Promise<Endings> {
    return endings(this.#open(), ids);
  }

  async find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]> {
    const database = this.#open();
    return findKeepable(ids, (keepable) => find(database, keepable));
  }

  async findByKey(queue: string, key: string): Promise<JobRecord | undefined> {
    const database = this.#open();
    return isKeepable(queue) && isKeepable(key) ? findByKey(database, queue, key) : undefined;
  }

  async history(id: string): Promise<JobHistory> {
    const database = this.#open();
    return isKeepable(id) ? history(database, id) : { attempts: [], log: [] };
  }

  async list(query: ListQuery): Promise<JobPage> {
    const database = this.#open();
    return isListable(query) ? list(database, query) : { jobs: [], cursor: null };
  }

  async overview(queue?: string): Promise<readonly QueueOverview[]> {
    const database = this.#open();
    return isKeepable(queue ?? null) ? overview(database, queue) : [];
  }

  async explain(id: string): Promise<StartConditions | undefined> {
    const database = this.#open();
    return isKeepable(id) ? explain(database, id) : undefined;
  }

  async backlog(queue: string): Promise<Backlog> {
    return backlog(this.#open(), queue);
  }

  async change(wanted: Change): Promise<readonly string[]> {
    const database = this.#open();
    const keepable = keepableChange(wanted);
    return keepable === undefined ? [] : change(database, keepable);
  }

  async update(wanted: JobUpdate): Promise<Updated> {
    const database = this.#open();
    return isUpdatable(wanted) ? update(database, wanted) : { updated: false, state: null };
  }

  async setPaused(queue: string, type: string | null, paused: boolean): Promise<void> {
    return setPaused(this.#open(), queue, type, paused);
  }

  subscribe(subscriber: Subscriber): () => void {
    this.#database.check();
    return this.#hub.subscribe(subscriber);
  }

  async publish(event: JobEvent): Promise<void> {
    await this.#database.call("publish", JSON.stringify(event));
  }

  /** The database, unless it is closed. */
  #open(): PostgresDatabase {
    this.#database.check();
    return this.#database;
  }
}

/** Begins no new call, waits for open calls, sends pending notifications, and then gives back the connections. */
export async function closed(
  hub: Hub,
  database: PostgresDatabase,
  last: readonly (Promise<unknown> | undefined)[] = [],
): Promise<void> {
  const underWay = last.filter((one) => one !== undefined);
  if (underWay.length > 0) await Promise.all(underWay);
  await database.refuse();
  await hub.close();
  await database.close();
}
