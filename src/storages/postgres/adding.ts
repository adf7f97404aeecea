import { StorageError } from "../../core/errors.ts";
import type { Added, NewJob } from "../../storage/job-storage.ts";
import type { PostgresDatabase, Steps } from "./database.ts";
import { kindOf, sqlStateOf } from "./failures.ts";
import { add } from "./jobs/add.ts";

interface Call {
  readonly jobs: readonly NewJob[];
  readonly resolve: (added: readonly Added[]) => void;
  readonly reject: (error: unknown) => void;
}

/** No more jobs than this in one transaction, nor more characters of data: no call may wait for long. */
const MOST = 1_000;
const MOST_CHARACTERS = 1_000_000;
/** With so many jobs of its own a call has little to gain: a commit costs no more than some jobs. */
const FEW = 100;
/** Calls do not wait for a transaction that takes longer than this: its connection may be broken, or its server far away. */
const PATIENCE_MS = 20;
/** A caller that was answered just now, and adds the next job at once, has called again after so many turns. */
const TURNS = 8;

/**
 * Calls that add jobs at the same time share a transaction: a round trip and a commit cost as much as several jobs. A call
 * that comes alone is sent at once. Each call adds all of its jobs or none, whatever becomes of the others.
 */
export class Adding {
  readonly #database: PostgresDatabase;
  /** Calls that were begun may still be sent while the storage closes. */
  readonly #steps: Steps;
  readonly #calls: Call[] = [];
  /** Calls gather, and are sent when the transaction before has ended. */
  #waiting = false;
  /** Bounds how long calls wait for the transaction before. */
  #watch: (() => void) | undefined;

  constructor(database: PostgresDatabase) {
    this.#database = database;
    this.#steps = {
      call: (name, ...args) => database.step(name, args),
      once: (name, args, once = {}) => database.step(name, args, once),
    };
  }

  add(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    return this.#database.together(() => this.#add(jobs));
  }

  async #add(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    const { observer } = this.#database;
    if (!this.#database.isReady) await this.#database.setup();
    if (observer?.registering !== undefined) await observer.registering;
    if (!canShare(jobs)) return this.#addNow(jobs);
    return new Promise((resolve, reject) => {
      this.#calls.push({ jobs, resolve, reject });
      this.#go();
    });
  }

  #go(): void {
    if (this.#calls.length === 0) return;
    if (this.#waiting) {
      this.#watch?.();
      return;
    }
    this.#waiting = true;
    void this.#sendNext();
  }

  async #sendNext(): Promise<void> {
    for (let turns = 0; turns < TURNS; turns++) await Promise.resolve();
    const { clock } = this.#database;
    const since = clock.now();
    let over = false;
    let cancel: (() => void) | undefined;
    const goOn = (): void => {
      if (over) return;
      over = true;
      cancel?.();
      this.#watch = undefined;
      this.#waiting = false;
      this.#go();
    };
    // The timer starts only when a call waits.
    this.#watch = () => {
      cancel ??= clock.after(Math.max(0, since + PATIENCE_MS - clock.now()), goOn);
    };
    const sent = this.#send(this.#calls.splice(0, fitting(this.#calls)));
    if (this.#calls.length > 0) this.#watch();
    await sent;
    goOn();
  }

  async #send(calls: readonly Call[]): Promise<void> {
    if (calls.length === 1) return this.#sendAlone(calls[0]!);
    try {
      const added = await this.#addNow(calls.flatMap(({ jobs }) => jobs));
      let from = 0;
      for (const { jobs, resolve } of calls) resolve(added.slice(from, (from += jobs.length)));
    } catch (error) {
      if (isForAll(error)) for (const { reject } of calls) reject(error);
      // Nothing was added. Each call is sent alone, so that only the wrong one fails.
      else await Promise.all(calls.map((call) => this.#sendAlone(call)));
    }
  }

  async #sendAlone({ jobs, resolve, reject }: Call): Promise<void> {
    await this.#addNow(jobs).then(resolve, reject);
  }

  #addNow(jobs: readonly NewJob[]): Promise<Added[]> {
    return add(this.#steps, jobs, this.#database.observer?.notifyingOrigin() ?? null);
  }
}

/** Calls with idempotency keys do not share: a refused key is common, and all calls of the transaction would be sent again. */
function canShare(jobs: readonly NewJob[]): boolean {
  return jobs.length <= FEW && sizeOf(jobs) < MOST_CHARACTERS && jobs.every(({ idempotency }) => idempotency === null);
}

/** How many of the calls go into one transaction: one at least. */
function fitting(calls: readonly Call[]): number {
  let jobs = 0;
  let characters = 0;
  let count = 0;
  for (const call of calls) {
    jobs += call.jobs.length;
    characters += sizeOf(call.jobs);
    if (count > 0 && (jobs > MOST || characters > MOST_CHARACTERS)) break;
    count += 1;
  }
  return count;
}

function sizeOf(jobs: readonly NewJob[]): number {
  return jobs.reduce((characters, { data }) => characters + data.length, 0);
}

/** Is it about the server and the way to it, rather than about one of the jobs? Then it is unknown what was added. */
function isForAll(error: unknown): boolean {
  return error instanceof StorageError && (sqlStateOf(error) === undefined || kindOf(error.cause) !== "final");
}
