import { type Clock, systemClock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { StorageError } from "../../core/errors.ts";
import {
  carriedBy,
  cutOff,
  GOODBYE_MS,
  ignoreErrors,
  listened,
  type OwnClient,
  type PoolTraits,
  type PostgresClient,
  type PostgresExecutor,
  type PostgresPool,
} from "./driver.ts";
import { closedError } from "./failures.ts";
import { ConnectionQueue, type ConnectionWaiter } from "./connection-queue.ts";
import { connectBeside, Reserve } from "./reserve.ts";
import { openPool } from "./target.ts";

/**
 * How long a call waits for the pool before it takes a connection of the reserve. In a pool of our own only steps hold connections,
 * and they end soon.
 */
const POOL_WAIT_MS = 20;
const OWN_POOL_WAIT_MS = 250;

/** So often a connection is used again before it is given back to the pool, which may want to end it. */
const MOST_USES = 100;

/** With a URL, so many connections at most, unless the options say otherwise. */
const CONNECTIONS = 10;
/** Beside a pool of the user. Two: one may wait for a lock, and a heartbeat must not wait for it. */
const RESERVED = 2;

/** A connection for one step. `broken`: it is not to be used again. */
export interface Held {
  readonly client: PostgresExecutor;
  /** How many bytes it has carried: it grows while something is sent or received. */
  carried(): number;
  /** It has not answered: connections that have not answered since it was asked may be broken, too. */
  suspect(): void;
  free(broken: boolean): void;
}

/** A connection of the pool. `listenAgain`: stops ignoring its errors. */
interface Pooled {
  readonly client: PostgresClient;
  readonly listenAgain: () => void;
  /** How often it was used again without being given back. */
  uses: number;
}

export interface ConnectionsOptions {
  readonly connections: number | undefined;
  /** How long connecting may take. */
  readonly timeout: number;
  readonly clock: Clock;
}

/** The connections of a storage: those of a pool, and a few beside it for when the pool has none left. */
export class Connections {
  readonly #target: string | PostgresPool;
  readonly #connections: number | undefined;
  readonly #timeout: number;
  readonly #clock: Clock;
  #pool: PostgresPool | undefined;
  #opening: Promise<PostgresPool> | undefined;
  readonly #listeners: (() => void)[] = [];
  #reserve: Reserve | undefined;
  readonly #fromPool: ConnectionQueue<PostgresClient>;
  readonly #fromReserve: { readonly first: ConnectionQueue<OwnClient>; readonly others: ConnectionQueue<OwnClient> };
  /** When each connection last answered. */
  readonly #answeredAt = new WeakMap<object, number>();
  /** The connections of a pool of our own, and those beside it. */
  readonly #open = new Set<OwnClient>();
  /** The pool emits an event for connections that it makes. */
  #emitsConnect = false;
  /** Connections that have not answered since may be broken. */
  #suspectedAt = Number.NEGATIVE_INFINITY;
  /** How many connections of the pool are in use by steps. */
  #ours = 0;
  /** The connection that was used last, until the end of this turn of the event loop: the next step takes it. */
  #kept: Pooled | undefined;
  #cancelKept = (): void => {};
  #openedAt = 0;
  readonly #closed = new AbortController();

  constructor(target: string | PostgresPool, options: ConnectionsOptions) {
    this.#target = target;
    this.#connections = options.connections;
    this.#timeout = options.timeout;
    this.#clock = options.clock;
    this.#fromPool = new ConnectionQueue(
      async () => releasable(await (this.#pool ?? (await this.#opened())).connect()),
      (client) => released(client, false),
    );
    const fromReserve = (first: boolean) =>
      new ConnectionQueue(
        () => this.#reserve!.take(first),
        (client) => this.#reserve!.give(client, false),
      );
    this.#fromReserve = { first: fromReserve(true), others: fromReserve(false) };
  }

  /** Can connections prepare statements by name? Those of `pg` can; of others it is not known. */
  get prepares(): boolean {
    return (this.#pool as PoolTraits | undefined)?.Client !== undefined;
  }

  /** A connection, within so many milliseconds. `first`: before other calls that wait. */
  hold(withinMs: number, first: boolean): Promise<Held> {
    const kept = this.#taken();
    if (kept !== undefined) return Promise.resolve(this.#pooled(kept));
    const poolWaitMs = typeof this.#target === "string" ? OWN_POOL_WAIT_MS : POOL_WAIT_MS;
    const fromReserve = first ? this.#fromReserve.first : this.#fromReserve.others;
    return new Promise((resolve, reject) => {
      const deadline = this.#clock.now() + withinMs;
      let over = false;
      const end = (settle: () => void, late = false): void => {
        over = true;
        cancelWait();
        this.#fromPool.leave(pooled, late);
        fromReserve.leave(reserved, late);
        settle();
      };
      const refused = (error: unknown): void => end(() => reject(error));
      const pooled: ConnectionWaiter<PostgresClient> = {
        taken: (client) => {
          if (!this.#isSuspect(client))
            return end(() => resolve(this.#pooled({ client, listenAgain: ignoreErrors(client), uses: 0 })));
          released(client, true);
          this.#fromPool.join(pooled, true);
        },
        refused,
      };
      const reserved: ConnectionWaiter<OwnClient> = {
        taken: (client) => {
          if (!this.#isSuspect(client)) return end(() => resolve(this.#reserved(client)));
          this.#reserve?.give(client, true);
          fromReserve.join(reserved, true);
        },
        refused,
      };
      const late = (): void => {
        const message = `there was no connection to the database for ${Math.round(withinMs) / 1_000} s`;
        end(() => reject(new StorageError(message)), true);
      };
      let cancelWait = (): void => {};
      /** One timer at a time, for the reserve and for the end. */
      const wait = (): void => {
        if (over) return;
        const left = deadline - this.#clock.now();
        if (left <= 0) return late();
        const full = this.#isFull();
        if (full) fromReserve.join(reserved, first);
        if (!over) cancelWait = this.#clock.after(full ? left : Math.min(left, poolWaitMs), full ? late : wait);
      };
      this.#fromPool.join(pooled, first);
      // If the application has all of them, it is unknown for how long.
      if (this.#ours === 0 && this.#isFull()) wait();
      else cancelWait = this.#clock.after(Math.min(withinMs, poolWaitMs), wait);
      this.#reserve?.tidy();
    });
  }

  /** A connection outside of the pool; undefined where the pool cannot make one. */
  async own(signal = this.#closed.signal): Promise<OwnClient | undefined> {
    const pool = (this.#pool ?? (await this.#opened())) as PoolTraits;
    return connectBeside(pool, { withinMs: this.#timeout, clock: this.#clock, signal });
  }

  /** Gives out no more connections. Resolves when those that are not of the user have ended. */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(closedError());
    const kept = this.#taken();
    if (kept !== undefined) givenBack(kept, false);
    for (const queue of [this.#fromPool, this.#fromReserve.first, this.#fromReserve.others]) queue.close(closedError());
    const pool = (await this.#opening?.catch(() => undefined)) as PoolTraits | undefined;
    const isOwn = typeof this.#target === "string";
    // A connection that has not answered by then must not keep the process from ending.
    const cancel = this.#clock.after(GOODBYE_MS, () => {
      for (const client of this.#open) cutOff(client);
    });
    // `pool.end()` does not wait for idle connections.
    const gone = Array.from(this.#open, (client) => new Promise<void>((resolve) => client.on("end", resolve)));
    const ended = () => Promise.all([this.#reserve?.close(), isOwn ? pool?.end?.() : undefined, ...gone]);
    await inTime(this.#clock, ended, { withinMs: GOODBYE_MS * 2 }).catch(() => {});
    cancel();
    // A pool of our own may still emit errors.
    if (!isOwn) for (const leave of this.#listeners) leave();
  }

  /** Is there a reserve, and are all connections of the pool in use? While the pool connects, no call waits in it. */
  #isFull(): boolean {
    const { totalCount = 0, idleCount, waitingCount = 0, options } = (this.#pool ?? {}) as PoolTraits;
    if (this.#reserve === undefined || options?.max === undefined) return false;
    return idleCount === 0 && waitingCount > 0 && totalCount >= options.max;
  }

  /** Has it not answered since another one did not? A connection that was never used counts only if the pool emits `connect`. */
  #isSuspect(client: object): boolean {
    const answeredAt = this.#answeredAt.get(client);
    return answeredAt === undefined
      ? this.#emitsConnect && this.#suspectedAt > this.#openedAt
      : answeredAt < this.#suspectedAt;
  }

  #held(client: PostgresExecutor, give: (broken: boolean) => void): Held {
    const since = this.#clock.now();
    return {
      client,
      carried: () => carriedBy(client),
      suspect: () => {
        this.#suspectedAt = Math.max(this.#suspectedAt, since);
      },
      free: (broken) => {
        if (!broken) this.#answeredAt.set(client, this.#clock.now());
        give(broken);
      },
    };
  }

  #pooled(pooled: Pooled): Held {
    this.#ours += 1;
    return this.#held(pooled.client, (broken) => {
      this.#ours -= 1;
      if (!broken && this.#mayKeep(pooled)) this.#keep(pooled);
      else givenBack(pooled, broken);
    });
  }

  /** Does no other call wait for a connection? Only where the pool shows it; and after many uses it is given back anyway. */
  #mayKeep({ uses }: Pooled): boolean {
    const { waitingCount } = (this.#pool ?? {}) as PoolTraits;
    return waitingCount === 0 && uses < MOST_USES && this.#kept === undefined && !this.#closed.signal.aborted;
  }

  #keep(pooled: Pooled): void {
    this.#kept = pooled;
    // By the event loop of this process, whatever clock the storage uses.
    this.#cancelKept = systemClock.after(0, () => {
      const kept = this.#taken();
      if (kept !== undefined) givenBack(kept, false);
    });
  }

  /** Takes the connection that is kept, if any. */
  #taken(): Pooled | undefined {
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    this.#kept = undefined;
    this.#cancelKept();
    kept.uses += 1;
    if (!this.#isSuspect(kept.client)) return kept;
    givenBack(kept, true);
    return undefined;
  }

  #reserved(client: OwnClient): Held {
    return this.#held(client, (broken) => this.#reserve?.give(client, broken));
  }

  async #opened(): Promise<PostgresPool> {
    this.#closed.signal.throwIfAborted();
    this.#opening ??= this.#make().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #make(): Promise<PostgresPool> {
    const target = this.#target;
    const pool =
      typeof target === "string"
        ? await openPool(target, Math.max(1, this.#connections ?? CONNECTIONS), this.#timeout, this.#open)
        : target;
    this.#pool = pool;
    this.#openedAt = this.#clock.now();
    this.#watch(pool);
    const { Client, options } = pool as PoolTraits;
    const most = typeof target === "string" ? RESERVED : (this.#connections ?? RESERVED);
    if (Client !== undefined && options !== undefined && most > 0) {
      const make = async () => {
        const client = (await this.own())!;
        this.#answeredAt.set(client, this.#clock.now());
        return client;
      };
      this.#reserve = new Reserve(make, most, this.#clock);
    }
    return pool;
  }

  #watch(pool: PostgresPool): void {
    const connected = listened(pool, "connect", (client) => {
      this.#answeredAt.set(client, this.#clock.now());
      this.#emitsConnect = true;
    });
    this.#listeners.push(ignoreErrors(pool), ...(connected === undefined ? [] : [connected]));
  }
}

/** A pool gives clients that can be released; an object that connects itself is no pool. */
function releasable(client: PostgresClient | undefined): PostgresClient {
  if (typeof client?.release === "function" && typeof client.query === "function") return client;
  throw new StorageError("the pool gave no client that can be released: a pool of `pg` is needed");
}

function givenBack({ client, listenAgain }: Pooled, broken: boolean): void {
  released(client, broken);
  listenAgain();
}

/** A listener of the pool may throw; the connection is released all the same. */
function released(client: PostgresClient, broken: boolean): void {
  try {
    client.release(broken);
  } catch {
    // Nothing can be done about it here.
  }
}
