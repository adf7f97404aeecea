import type { Clock } from "../../core/clock.ts";
import { JobError, StorageError } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import { Connection, type ConnectionOptions, failed } from "./connection.ts";
import { isBusy, type SqliteConnection, valuesOf } from "./driver.ts";
import { moveInstants } from "./instants.ts";
import { wakeReleased } from "./limits/release.ts";
import { machineOf } from "./machine.ts";
import { isMigrated, newerSchema, SCHEMA_VERSION } from "./migrations.ts";
import { NO_SETTINGS, readSettings, type Settings } from "./settings.ts";
import { Step } from "./step.ts";
import { type ClockState, StorageClock } from "./time.ts";

export interface StoreOptions extends ConnectionOptions {
  readonly clock: Clock;
  readonly random: Random;
}

/** A lock that another process has for longer than this is an error. */
const LOCK_DEADLINE_MS = 30_000;

/** Waits between attempts, without blocking: short ones, for a transaction takes less than a millisecond as a rule. */
const SHORTEST_WAIT_MS = 1;
const LONGEST_WAIT_MS = 25;

/** The one row of `sluice_meta`. */
interface Meta extends ClockState {
  readonly version: number;
  readonly settings: number;
  readonly listeners: number;
}

/** Until when other processes want wake-ups, and events; as they stood when they had this number. */
interface Listeners {
  readonly number: number;
  readonly others: number;
  readonly hearing: number;
}

const META = `SELECT version, last, skew, sequence, repairs, boot, awake, asleep, settings, listeners
  FROM sluice_meta`;
const LISTENERS = `SELECT max(until) AS others, max(iif(events, until, NULL)) AS hearing FROM sluice_processes
  WHERE origin <> ?`;
const REMEMBER = "UPDATE sluice_meta SET last = ?, skew = ?, boot = ?, awake = ?, asleep = ?";
const WAKE_UPS = "UPDATE sluice_meta SET news = news + 1";
const KEEP_EVENT = "INSERT INTO sluice_events (at, origin, event) VALUES (?, ?, ?)";

/** What wants to know about committed steps. */
export interface StepObserver {
  readonly hearsEvents: boolean;
  /** `elsewhere`: other processes listen too, and need a hint. */
  committed(step: Step, elsewhere: boolean): void;
}

/** The transactions of a connection: they wait for their turn, never fail for a lock, and never overlap. */
export class Store {
  readonly clock: Clock;
  /** Distinguishes this storage object from every other one, in any process. */
  readonly origin: string;
  observer: StepObserver | undefined;
  readonly #open: () => Connection;
  readonly #random: Random;
  readonly #time: StorageClock;
  /** As they were read last; read again when their number has changed. */
  #settings: Settings = NO_SETTINGS;
  #listeners: Listeners = { number: 0, others: 0, hearing: 0 };
  #connection: Connection | undefined;
  #closed = false;
  /** While a transaction waits for a lock, later ones wait behind it. */
  #waiting: Promise<void> | undefined;
  #stopWaiting: () => void = () => {};

  constructor(target: string | SqliteConnection, options: StoreOptions) {
    this.clock = options.clock;
    this.#random = options.random;
    this.origin = globalThis.crypto.randomUUID();
    this.#time = new StorageClock(options.clock, machineOf(options.clock));
    this.#open = () => new Connection(target, options);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The connection, if it is ready and no transaction of the user is open on it. */
  get idle(): Connection | undefined {
    const connection = this.#connection;
    try {
      return connection !== undefined && !this.#closed && connection.ready && !connection.taken
        ? connection
        : undefined;
    } catch {
      // The user has closed it.
      return undefined;
    }
  }

  /**
   * Runs `work` in a write transaction. It may run more than once, and does nothing but read and write through its step.
   * `askedAt`: when it was asked for, on the monotonic clock.
   */
  write<T>(work: (step: Step) => T, askedAt: number = this.clock.now()): Promise<T> {
    return this.#retried(() => this.#write(work, askedAt));
  }

  /** Runs `work` on one consistent state, without any lock. */
  read<T>(work: (step: Step) => T): Promise<T> {
    return this.#retried(() => this.#read(work));
  }

  /** Does a subscriber want events, here or elsewhere? */
  async isHeard(): Promise<boolean> {
    if (this.observer?.hearsEvents === true) return true;
    return this.#retried(() => {
      const connection = this.#prepared();
      const meta = this.#meta(connection);
      return this.#listenersOf(connection, meta).hearing > this.#time.read(meta).now;
    });
  }

  /** Makes everything ready. */
  setup(): Promise<void> {
    return this.#retried(() => void this.#prepared());
  }

  /** As `write`, if it can be done at once. */
  writeNow(work: (step: Step) => void): boolean {
    if (this.idle === undefined || this.#waiting !== undefined) return false;
    try {
      this.#write(work, this.clock.now());
      return true;
    } catch {
      return false;
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWaiting();
    this.#connection?.close();
  }

  async #retried<T>(attempt: () => T): Promise<T> {
    let since: number | undefined;
    for (let tries = 0; ; tries++) {
      while (this.#waiting !== undefined) await this.#waiting;
      if (this.#closed) throw new StorageError("the storage is closed");
      try {
        return attempt();
      } catch (error) {
        if (error instanceof JobError && !(error instanceof TransactionOpen)) throw error;
        if (!(error instanceof TransactionOpen) && !isBusy(error)) throw failed(error);
        const now = this.clock.now();
        since ??= now;
        if (now - since > LOCK_DEADLINE_MS) {
          throw new StorageError(
            `the database was locked for ${LOCK_DEADLINE_MS / 1_000} s: ${(error as Error).message}`,
            {
              cause: error,
            },
          );
        }
        this.#wait(tries);
      }
    }
  }

  #wait(tries: number): void {
    const longest = Math.min(LONGEST_WAIT_MS, SHORTEST_WAIT_MS * 2 ** Math.min(tries, 10));
    this.#waiting = new Promise((resolve) => {
      const over = () => {
        this.#waiting = undefined;
        resolve();
      };
      const cancel = this.clock.after(longest * (0.5 + this.#random() / 2), over);
      this.#stopWaiting = () => {
        cancel();
        over();
      };
    });
  }

  /** The connection, made ready. */
  #prepared(): Connection {
    const connection = (this.#connection ??= this.#open());
    if (connection.taken)
      throw new TransactionOpen("a transaction is open on the connection that the storage was given");
    connection.check(this.clock.now());
    connection.prepare();
    return connection;
  }

  #write<T>(work: (step: Step) => T, askedAt: number): T {
    const connection = this.#prepared();
    connection.statements.get("BEGIN IMMEDIATE").run();
    let done: { readonly answer: T; readonly step: Step; readonly elsewhere: boolean };
    try {
      const meta = this.#meta(connection);
      // Read before the time: a step that seems to have been asked for later than it was does no harm.
      const waitedMs = this.clock.now() - askedAt;
      const time = this.#time.read(meta);
      const { now, error, skew, sequence, last, boot, awake, asleep } = time;
      const set = skew !== meta.skew;
      if (set || last !== meta.last) connection.statements.get(REMEMBER).run(last, skew, boot, awake, asleep);
      const moved = set && moveInstants(connection.statements, skew);
      const { others, hearing } = this.#listenersOf(connection, meta);
      const heardElsewhere = hearing > now;
      const heardHere = this.observer?.hearsEvents ?? false;
      const elsewhere = others > now;
      const step = new Step(
        connection.statements,
        { now, asked: now + error - waitedMs, error, skew, sequence, boot, awake },
        this.#settingsOf(connection, meta),
        heardHere || heardElsewhere,
      );
      step.wakesAll = moved;
      const answer = work(step);
      if (step.released.size > 0) wakeReleased(step);
      if (elsewhere && step.wakesBlocked) step.sql(WAKE_UPS).run();
      if (heardElsewhere) {
        for (const event of step.events) step.sql(KEEP_EVENT).run(step.now, this.origin, JSON.stringify(event));
      }
      connection.statements.get("COMMIT").run();
      done = { answer, step, elsewhere };
    } catch (error) {
      connection.rollback();
      throw error;
    }
    this.#time.granted(done.step.sequence);
    if (done.step.hasHints) this.observer?.committed(done.step, done.elsewhere);
    return done.answer;
  }

  /** `noted`: a wall clock that was set has been written down, as far as that is possible. */
  #read<T>(work: (step: Step) => T, noted = false): T {
    const connection = this.#prepared();
    connection.statements.get("BEGIN").run();
    try {
      const meta = this.#meta(connection);
      const { now, error, skew, sequence, boot, awake } = this.#time.read(meta);
      if (noted || skew === meta.skew) {
        const time = { now, asked: now + error, error, skew, sequence, boot, awake };
        return work(new Step(connection.statements, time, this.#settingsOf(connection, meta), false));
      }
    } finally {
      connection.statements.get("ROLLBACK").run();
    }
    // Instants that follow the wall clock move before they are read. Where nothing can be written, they are read as they are.
    this.writeNow(() => undefined);
    return this.#read(work, true);
  }

  #settingsOf({ statements }: Connection, { settings: number }: Meta): Settings {
    if (this.#settings.number !== number) this.#settings = readSettings(statements, number);
    return this.#settings;
  }

  #listenersOf({ statements }: Connection, { listeners: number }: Meta): Listeners {
    if (this.#listeners.number !== number) {
      const row = statements.get(LISTENERS).get(this.origin) as { others: number | null; hearing: number | null };
      this.#listeners = { number, others: row.others ?? 0, hearing: row.hearing ?? 0 };
    }
    return this.#listeners;
  }

  /** Every transaction begins with it, so one that finds tables of a later version, migrated since they were opened, changes nothing. */
  #meta(connection: Connection): Meta {
    let meta: Meta;
    try {
      meta = metaOf(connection.statements.arrays(META).get());
    } catch (error) {
      // They need not even have these columns any more.
      isMigrated(connection.raw);
      throw error;
    }
    if (meta.version !== SCHEMA_VERSION) throw newerSchema(meta.version);
    return meta;
  }
}

/** Every transaction reads it: an array takes half the time of an object. */
function metaOf(row: unknown): Meta {
  const v = valuesOf(row) as never[];
  return {
    version: v[0]!,
    last: v[1]!,
    skew: v[2]!,
    sequence: v[3]!,
    repairs: v[4]!,
    boot: v[5]!,
    awake: v[6]!,
    asleep: v[7]!,
    settings: v[8]!,
    listeners: v[9]!,
  };
}

/** The user's own transaction is in the way: it is waited for as a lock would be. */
class TransactionOpen extends StorageError {}
