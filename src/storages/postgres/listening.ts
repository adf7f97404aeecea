import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import type { PostgresDatabase } from "./database.ts";
import { discard, type OwnClient } from "./driver.ts";

/** A connection that has not received its own heartbeat for so long is replaced: that is, at the next heartbeat. */
const SILENT_MS = 4_500;
/** LISTEN may take so long. */
const LISTEN_MS = 4_500;
/** Waits before it connects again, doubled each time: a pooler that does not pass on notifications never will. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 60_000;

/** The answer of a heartbeat (sql/events.sql: listener_heartbeat). */
export interface Heartbeat {
  readonly event: number | null;
  readonly stamp: string;
  readonly releases: number | null;
  readonly stopping: readonly (readonly [string, string])[] | null;
}

interface Notification {
  readonly channel: string;
  readonly payload?: string;
}

/**
 * A connection that listens, outside of the pool. It is known to receive notifications while it receives its own heartbeats: a
 * connection can be half open, or lead to a pooler that drops LISTEN. When it is silent or breaks, it is replaced.
 */
export class Listening {
  readonly #database: PostgresDatabase;
  readonly #clock: Clock;
  readonly #channel: string;
  /** The channel for its own heartbeats. */
  readonly #ownChannel: string;
  readonly #receive: (text: string | undefined) => void;
  /** Is called when it listens again: notifications may have been missed. */
  readonly #again: () => void;
  #client: OwnClient | undefined;
  #connecting: Promise<void> | undefined;
  /** The connection before is being ended. */
  #ending: Promise<void> | undefined;
  #everConnected = false;
  /** When it last received a heartbeat. */
  #receivedAt: number | undefined;
  /** When the first heartbeat was sent that it did not receive. */
  #missedSince: number | undefined;
  #failures = 0;
  #cancelTimer: (() => void) | undefined;
  /** Ends all waiting for answers. */
  readonly #closed = new AbortController();

  constructor(
    database: PostgresDatabase,
    names: { readonly channel: string; readonly ownChannel: string },
    receive: (text: string | undefined) => void,
    again: () => void,
  ) {
    this.#database = database;
    this.#clock = database.clock;
    this.#channel = names.channel;
    this.#ownChannel = names.ownChannel;
    this.#receive = receive;
    this.#again = again;
  }

  /** Is it known that notifications are received? */
  get receiving(): boolean {
    return this.#receivedAt !== undefined && this.#missedSince === undefined;
  }

  /** Makes the connection, if there is none. Resolves when it listens, or when that has failed for now. */
  start(): Promise<void> {
    if (this.#client !== undefined || this.#cancelTimer !== undefined) return Promise.resolve();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  /**
   * Registers that this storage listens, and notifies its own channel. Over the pool, not over the connection that listens: its answer,
   * which says what is new, does not wait for a broken connection.
   */
  async heartbeat(origin: string, wants: { readonly events: boolean; readonly ends: boolean }): Promise<Heartbeat> {
    const client = this.#client;
    const start = this.#clock.now();
    const answer = await this.#database.quietly<Heartbeat>("listener_heartbeat", [
      origin,
      wants.events,
      wants.ends,
      this.#ownChannel,
    ]);
    const received = this.#receivedAt !== undefined && this.#receivedAt >= start;
    if (client !== undefined && client === this.#client && !received) this.#missed(client);
    return answer;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const client = this.#client;
    this.#client = undefined;
    const ending = client === undefined ? undefined : discard(client, true, this.#clock);
    await Promise.all([ending, this.#ending, this.#connecting]);
  }

  async #connect(): Promise<void> {
    const { signal } = this.#closed;
    let client: OwnClient | undefined;
    try {
      client = await this.#database.own(signal);
      // The pool cannot make a connection: then subscribers only poll.
      if (client === undefined) return;
      const made = client;
      made.on("notification", (notification: Notification) => this.#notified(made, notification));
      made.on("error", () => this.#lose(made));
      made.on("end", () => this.#lose(made));
      const listen = `LISTEN "${this.#channel}"; LISTEN "${this.#ownChannel}"`;
      await inTime(this.#clock, () => made.query(listen), { withinMs: LISTEN_MS, signal });
      signal.throwIfAborted();
      this.#client = made;
      if (this.#everConnected) this.#again();
      this.#everConnected = true;
    } catch {
      if (client !== undefined) await discard(client, false, this.#clock);
      this.#retry();
    }
  }

  #notified(client: OwnClient, { channel, payload }: Notification): void {
    if (client !== this.#client) return;
    if (channel !== this.#ownChannel) {
      this.#receive(payload);
      return;
    }
    this.#receivedAt = this.#clock.now();
    this.#missedSince = undefined;
    this.#failures = 0;
  }

  /** A heartbeat was not received. It may still come, but not after the next one. */
  #missed(client: OwnClient): void {
    const now = this.#clock.now();
    this.#missedSince ??= now;
    if (now - this.#missedSince >= SILENT_MS) this.#lose(client);
  }

  #lose(client: OwnClient): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    this.#receivedAt = undefined;
    this.#missedSince = undefined;
    this.#ending = discard(client, false, this.#clock);
    this.#retry();
  }

  #retry(): void {
    // Notifications are missed meanwhile: when it listens again, all subscribers have to look.
    this.#everConnected = true;
    if (this.#closed.signal.aborted || this.#cancelTimer !== undefined) return;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(this.#failures, 10));
    this.#failures += 1;
    this.#cancelTimer = this.#clock.after(wait, () => {
      this.#cancelTimer = undefined;
      void this.start();
    });
  }
}
