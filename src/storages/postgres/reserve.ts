import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { discard, holdProcess, ignoreErrors, type OwnClient, type PoolTraits } from "./driver.ts";

/** A connection of the reserve that was not used for so long is ended at the next call. */
const IDLE_MS = 10_000;

/**
 * A few connections of our own beside the pool, made when all connections of the pool are in use for longer than a moment. Handlers may
 * hold every connection of a pool for as long as they run; leases must be renewed, jobs settled and added all the same, or a handler
 * that waits for such a job holds its connection for ever. The last connection is only for steps that keep leases alive: the others
 * may all wait for a lock.
 */
export class Reserve {
  readonly #make: () => Promise<OwnClient>;
  readonly #clock: Clock;
  readonly #most: number;
  readonly #idle: OwnClient[] = [];
  /** Calls that wait: those that go first, and the others. */
  readonly #urgent: ((client: Promise<OwnClient>) => void)[] = [];
  readonly #waiting: ((client: Promise<OwnClient>) => void)[] = [];
  #used = 0;
  /** How many connections are being ended. */
  #leaving = 0;
  #usedAt = 0;
  #closed = false;
  /** Resolves `close` when there are none. */
  #whenNone = (): void => {};

  /** `make`: connects. */
  constructor(make: () => Promise<OwnClient>, most: number, clock: Clock) {
    this.#make = make;
    this.#most = most;
    this.#clock = clock;
  }

  take(first: boolean): Promise<OwnClient> {
    if (this.#isFree(first)) return this.#ready();
    return new Promise((resolve) => (first ? this.#urgent : this.#waiting).push(resolve));
  }

  give(client: OwnClient, broken: boolean): void {
    this.#usedAt = this.#clock.now();
    if (broken || this.#closed) {
      this.#end(client, !broken);
    } else {
      holdProcess(client, false);
      this.#idle.push(client);
    }
    this.#giveNext();
  }

  /** Ends connections that have not been used for a while. */
  tidy(): void {
    if (this.#idle.length > 0 && this.#clock.now() - this.#usedAt >= IDLE_MS) this.#drop();
  }

  /** Resolves when all are back, and have ended. */
  close(): Promise<void> {
    this.#closed = true;
    this.#drop();
    return new Promise((resolve) => {
      this.#whenNone = resolve;
      this.#checkEmpty();
    });
  }

  #drop(): void {
    for (const client of this.#idle.splice(0)) this.#end(client, true);
  }

  #end(client: OwnClient, politely: boolean): void {
    this.#leaving += 1;
    void discard(client, politely, this.#clock).then(() => {
      this.#leaving -= 1;
      this.#checkEmpty();
    });
  }

  #checkEmpty(): void {
    if (this.#closed && this.#used === 0 && this.#leaving === 0) this.#whenNone();
  }

  #isFree(first: boolean): boolean {
    return this.#used < (first ? this.#most : Math.max(1, this.#most - 1));
  }

  /** A connection is no longer used, or could not be made: the next call that waits gets one in its place. */
  #giveNext(): void {
    this.#used -= 1;
    if (this.#closed) return this.#checkEmpty();
    const next = this.#urgent.shift() ?? (this.#isFree(false) ? this.#waiting.shift() : undefined);
    next?.(this.#ready());
  }

  async #ready(): Promise<OwnClient> {
    this.#used += 1;
    const client = this.#idle.pop();
    if (client !== undefined) {
      holdProcess(client, true);
      return client;
    }
    try {
      return await this.#make();
    } catch (error) {
      this.#giveNext();
      throw error;
    }
  }
}

/** How long connecting may take, and what else ends it. */
export interface Connecting {
  readonly withinMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A connection like those of the pool, but outside of it; undefined where the pool cannot make one. What the user does with
 * every new connection of the pool is done with this one too, as `pg` does it: a role or a search path that is set there must be
 * set here.
 */
export async function connectBeside(pool: PoolTraits, connecting: Connecting): Promise<OwnClient | undefined> {
  const { Client, options } = pool;
  const { clock, ...waiting } = connecting;
  waiting.signal?.throwIfAborted();
  if (Client === undefined || options === undefined) return undefined;
  const client = new Client(options);
  ignoreErrors(client);
  const connect = async (): Promise<void> => {
    await client.connect();
    await options.onConnect?.(client);
  };
  try {
    await inTime(clock, connect, { ...waiting, who: "the database" });
    client.on("end", () => pool.emit?.("remove", client));
    // Statements that listeners begin run before ours: a connection runs one after the other.
    pool.emit?.("connect", client);
    return client;
  } catch (error) {
    await discard(client, false, clock);
    throw error;
  }
}
