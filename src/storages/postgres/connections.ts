import { type Clock, systemClock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { StorageError } from "../../core/errors.ts";
import {
  carriedBy,
  cutOff,
  GOODBYE_MS,
  hushed,
  listened,
  type OwnClient,
  type PoolTraits,
  type PostgresClient,
  type PostgresExecutor,
  type PostgresPool,
} from "./driver.ts";
import { closedError } from "./failures.ts";
import { Line, type LimitWakeUps } from "./line.ts";
import { connectBeside, Reserve } from "./reserve.ts";
import { openPool } from "./target.ts";

/**
 * How long the pool has to give a connection before one of the reserve is used. In a pool of our own there are only steps
 * of ours, and they end soon.
 */
const PATIENCE_MS = 20;
const OWN_PATIENCE_MS = 250;

/** So often a connection is used again before the pool has it back: it may want to end it. */
const MOST_USES = 100;

/** With a URL, so many connections at most, unless the options say otherwise. */
const CONNECTIONS = 10;
/** Beside a pool of the user's. Two: one that waits for a lock must not hold up a heartbeat, which has the other. */
const RESERVED = 2;

/** A connection for one step. `broken`: it is not to be used again. */
export interface Held {
  readonly client: PostgresExecutor;
  /** How many bytes it has carried: it grows while something is sent or received. */
  carried(): number;
  /** It has not answered: nor may others that have not since it was asked. */
  doubt(): void;
  free(broken: boolean): void;
}

/** A connection of the pool. `hush`: lets the pool hear of its errors again. */
interface Pooled {
  readonly client: PostgresClient;
  readonly hush: () => void;
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
  readonly #ears: (() => void)[] = [];
  #reserve: Reserve | undefined;
  readonly #fromPool: Line<PostgresClient>;
  readonly #fromReserve: { readonly first: Line<OwnClient>; readonly others: Line<OwnClient> };
  /** When each was last known to lead somewhere. */
  readonly #heardAt = new WeakMap<object, number>();
  /** Those of a pool of our own, and beside it. */
  readonly #open = new Set<OwnClient>();
  /** The pool tells of those that it makes. */
  #births = false;
  /** Who was not heard since may lead nowhere. */
  #doubtedAt = Number.NEGATIVE_INFINITY;
  /** How many of the pool are ours at the moment. */
  #ours = 0;
  /** The one that was used last, until the end of this turn: whoever has the next step needs no other. */
  #kept: Pooled | undefined;
  #cancelKept = (): void => {};
  #openedAt = 0;
  readonly #closed = new AbortController();

  constructor(target: string | PostgresPool, options: ConnectionsOptions) {
    this.#target = target;
    this.#connections = options.connections;
    this.#timeout = options.timeout;
    this.#clock = options.clock;
    this.#fromPool = new Line(
      async () => releasable(await (this.#pool ?? (await this.#opened())).connect()),
      (client) => released(client, false),
    );
    const fromReserve = (first: boolean) =>
      new Line(
        () => this.#reserve!.take(first),
        (client) => this.#reserve!.give(client, false),
      );
    this.#fromReserve = { first: fromReserve(true), others: fromReserve(false) };
  }

  /** Do connections remember statements by their names? Those of `pg` do; of others it is not known. */
  get remember(): boolean {
    return (this.#pool as PoolTraits | undefined)?.Client !== undefined;
  }

  /** A connection, within so many milliseconds. `first`: before others who wait. */
  hold(withinMs: number, first: boolean): Promise<Held> {
    const kept = this.#taken();
    if (kept !== undefined) return Promise.resolve(this.#pooled(kept));
    const patience = typeof this.#target === "string" ? OWN_PATIENCE_MS : PATIENCE_MS;
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
      const pooled: LimitWakeUps<PostgresClient> = {
        taken: (client) => {
          if (!this.#isDoubtful(client))
            return end(() => resolve(this.#pooled({ client, hush: hushed(client), uses: 0 })));
          released(client, true);
          this.#fromPool.join(pooled, true);
        },
        refused,
      };
      const reserved: LimitWakeUps<OwnClient> = {
        taken: (client) => {
          if (!this.#isDoubtful(client)) return end(() => resolve(this.#reserved(client)));
          this.#reserve?.give(client, true);
          fromReserve.join(reserved, true);
        },
        refused,
      };
      const late = (): void => {
        const words = `there was no connection to the database for ${Math.round(withinMs) / 1_000} s`;
        end(() => reject(new StorageError(words)), true);
      };
      let cancelWait = (): void => {};
      /** One timer at a time, for the reserve and for the end. */
      const wait = (): void => {
        if (over) return;
        const left = deadline - this.#clock.now();
        if (left <= 0) return late();
        const full = this.#isFull();
        if (full) fromReserve.join(reserved, first);
        if (!over) cancelWait = this.#clock.after(full ? left : Math.min(left, patience), full ? late : wait);
      };
      this.#fromPool.join(pooled, first);
      // Where others have all of them there is no telling for how long.
      if (this.#ours === 0 && this.#isFull()) wait();
      else cancelWait = this.#clock.after(Math.min(withinMs, patience), wait);
      this.#reserve?.tidy();
    });
  }

  /** A connection outside of the pool; undefined where the pool cannot make one. */
  async own(signal = this.#closed.signal): Promise<OwnClient | undefined> {
    const pool = (this.#pool ?? (await this.#opened())) as PoolTraits;
    return connectBeside(pool, { withinMs: this.#timeout, clock: this.#clock, signal });
  }

  /** Nobody gets one any more. Resolves when those that are not the user's have ended. */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(closedError());
    const kept = this.#taken();
    if (kept !== undefined) givenBack(kept, false);
    for (const line of [this.#fromPool, this.#fromReserve.first, this.#fromReserve.others]) line.close(closedError());
    const pool = (await this.#opening?.catch(() => undefined)) as PoolTraits | undefined;
    const isOwn = typeof this.#target === "string";
    // Whoever has not answered by then keeps no process from ending.
    const cancel = this.#clock.after(GOODBYE_MS, () => {
      for (const client of this.#open) cutOff(client);
    });
    // A pool forgets idle ones before they have ended.
    const gone = Array.from(this.#open, (client) => new Promise<void>((resolve) => client.on("end", resolve)));
    const ended = () => Promise.all([this.#reserve?.close(), isOwn ? pool?.end?.() : undefined, ...gone]);
    await inTime(this.#clock, ended, { withinMs: GOODBYE_MS * 2 }).catch(() => {});
    cancel();
    // A pool of our own may still complain.
    if (!isOwn) for (const leave of this.#ears) leave();
  }

  /** Is there a reserve, and has the pool nothing to give? While it connects for us nobody waits in it. */
  #isFull(): boolean {
    const { totalCount = 0, idleCount, waitingCount = 0, options } = (this.#pool ?? {}) as PoolTraits;
    if (this.#reserve === undefined || options?.max === undefined) return false;
    return idleCount === 0 && waitingCount > 0 && totalCount >= options.max;
  }

  /** Has it not been heard since another one fell silent? Of one that was never seen only a pool that tells of births knows. */
  #isDoubtful(client: object): boolean {
    const heardAt = this.#heardAt.get(client);
    return heardAt === undefined ? this.#births && this.#doubtedAt > this.#openedAt : heardAt < this.#doubtedAt;
  }

  #held(client: PostgresExecutor, give: (broken: boolean) => void): Held {
    const since = this.#clock.now();
    return {
      client,
      carried: () => carriedBy(client),
      doubt: () => {
        this.#doubtedAt = Math.max(this.#doubtedAt, since);
      },
      free: (broken) => {
        if (!broken) this.#heardAt.set(client, this.#clock.now());
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

  /** Does nobody else wait for a connection? Only pools that tell are asked; and now and then it is given back anyway. */
  #mayKeep({ uses }: Pooled): boolean {
    const { waitingCount } = (this.#pool ?? {}) as PoolTraits;
    return waitingCount === 0 && uses < MOST_USES && this.#kept === undefined && !this.#closed.signal.aborted;
  }

  #keep(pooled: Pooled): void {
    this.#kept = pooled;
    // By the turns of this process, whatever clock the storage goes by.
    this.#cancelKept = systemClock.after(0, () => {
      const kept = this.#taken();
      if (kept !== undefined) givenBack(kept, false);
    });
  }

  /** The one that is kept, if any: it is the caller's now. */
  #taken(): Pooled | undefined {
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    this.#kept = undefined;
    this.#cancelKept();
    kept.uses += 1;
    if (!this.#isDoubtful(kept.client)) return kept;
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
        this.#heardAt.set(client, this.#clock.now());
        return client;
      };
      this.#reserve = new Reserve(make, most, this.#clock);
    }
    return pool;
  }

  #watch(pool: PostgresPool): void {
    const born = listened(pool, "connect", (client) => {
      this.#heardAt.set(client, this.#clock.now());
      this.#births = true;
    });
    this.#ears.push(hushed(pool), ...(born === undefined ? [] : [born]));
  }
}

/** What a pool gives can be given back; something that connects itself is no pool. */
function releasable(client: PostgresClient | undefined): PostgresClient {
  if (typeof client?.release === "function" && typeof client.query === "function") return client;
  throw new StorageError("the pool gave no client that can be released: a pool of `pg` is needed");
}

function givenBack({ client, hush }: Pooled, broken: boolean): void {
  released(client, broken);
  hush();
}

/** Whoever else listens to that may fail; it is released all the same. */
function released(client: PostgresClient, broken: boolean): void {
  try {
    client.release(broken);
  } catch {
    // Nobody here can do anything about it.
  }
}
