import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { discard, holdProcess, hushed, type OwnClient, type PoolTraits } from "./driver.ts";

/** A connection of the reserve that was not needed for so long is ended when somebody looks. */
const IDLE_MS = 10_000;

/**
 * A few connections of our own beside the pool, made when all of the pool are taken for longer than a moment. Handlers may
 * hold every connection of a pool for as long as they run; leases must be renewed, jobs settled and added all the same, or
 * whoever waits for that holds them for ever. The last one is only for what keeps leases alive: the others may all wait for
 * somebody's lock.
 */
export class Reserve {
  readonly #make: () => Promise<OwnClient>;
  readonly #clock: Clock;
  readonly #most: number;
  readonly #idle: OwnClient[] = [];
  /** Those who wait: who goes first, and the others. */
  readonly #urgent: ((client: Promise<OwnClient>) => void)[] = [];
  readonly #waiting: ((client: Promise<OwnClient>) => void)[] = [];
  #used = 0;
  #usedAt = 0;
  #closed = false;

  /** `make`: connects. */
  constructor(make: () => Promise<OwnClient>, most: number, clock: Clock) {
    this.#make = make;
    this.#most = most;
    this.#clock = clock;
  }

  take(first: boolean): Promise<OwnClient> {
    if (this.#isRoom(first)) return this.#ready();
    return new Promise((resolve) => (first ? this.#urgent : this.#waiting).push(resolve));
  }

  give(client: OwnClient, broken: boolean): void {
    this.#usedAt = this.#clock.now();
    if (broken || this.#closed) {
      void discard(client, !broken, this.#clock);
    } else {
      holdProcess(client, false);
      this.#idle.push(client);
    }
    this.#giveNext();
  }

  /** Ends what has not been needed for a while. */
  tidy(): void {
    if (this.#idle.length > 0 && this.#clock.now() - this.#usedAt >= IDLE_MS) void this.#drop();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #drop(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((client) => discard(client, true, this.#clock)));
  }

  #isRoom(first: boolean): boolean {
    return this.#used < (first ? this.#most : Math.max(1, this.#most - 1));
  }

  /** One is no longer used, or was never made: whoever waits gets another one in its place. */
  #giveNext(): void {
    this.#used -= 1;
    if (this.#closed) return;
    const next = this.#urgent.shift() ?? (this.#isRoom(false) ? this.#waiting.shift() : undefined);
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

/**
 * A connection like those of the pool, but outside of it, within so many milliseconds; undefined where the pool cannot make
 * one. What the user does with every new connection of his pool is done with this one too, as `pg` does it: a role or a
 * search path that is set there must hold here.
 */
export async function connectBeside(pool: PoolTraits, withinMs: number, clock: Clock): Promise<OwnClient | undefined> {
  const { Client, options } = pool;
  if (Client === undefined || options === undefined) return undefined;
  const client = new Client(options);
  hushed(client);
  const connect = async (): Promise<void> => {
    await client.connect();
    await options.onConnect?.(client);
  };
  try {
    await inTime(clock, connect, { withinMs, who: "the database" });
    client.on("end", () => pool.emit?.("remove", client));
    // Statements that listeners begin go before ours: a connection does one after the other.
    pool.emit?.("connect", client);
    return client;
  } catch (error) {
    void discard(client, false, clock);
    throw error;
  }
}
