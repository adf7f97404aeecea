import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import type { PostgresDatabase } from "./database.ts";
import { discard, type OwnClient } from "./driver.ts";

/** Who has not heard himself for so long is deaf: that is, by the next beat. */
const DEAF_MS = 4_500;
/** So long may the server take to let it listen. */
const LISTEN_MS = 4_500;
/** Waits before it is tried again, doubled each time: a pooler that does not pass on notifications never will. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 60_000;

/** What a beat answers (sql/events.sql: beat). */
export interface Beat {
  readonly event: number | null;
  readonly stamp: string;
  readonly stopping: readonly (readonly [string, string])[] | null;
}

interface Notification {
  readonly channel: string;
  readonly payload?: string;
}

/**
 * A connection that listens, outside of the pool. It is known to hear for as long as it hears its own beats: a connection
 * can be half open, or lead to a pooler that forgets who listens. When it is silent or breaks it is made again.
 */
export class Listening {
  readonly #database: PostgresDatabase;
  readonly #clock: Clock;
  readonly #channel: string;
  /** The channel for its own beats. */
  readonly #ear: string;
  readonly #hear: (text: string | undefined) => void;
  /** It listens, and did not for a while. */
  readonly #again: () => void;
  #client: OwnClient | undefined;
  #connecting: Promise<void> | undefined;
  /** The one before is being ended. */
  #goodbye: Promise<void> | undefined;
  #everConnected = false;
  /** When it last heard a beat. */
  #heardAt: number | undefined;
  /** When the first beat was made that it did not hear. */
  #unheardSince: number | undefined;
  #failures = 0;
  #cancelTimer: (() => void) | undefined;
  /** Ends all waiting for answers. */
  readonly #closed = new AbortController();

  constructor(
    database: PostgresDatabase,
    names: { readonly channel: string; readonly ear: string },
    hear: (text: string | undefined) => void,
    again: () => void,
  ) {
    this.#database = database;
    this.#clock = database.clock;
    this.#channel = names.channel;
    this.#ear = names.ear;
    this.#hear = hear;
    this.#again = again;
  }

  /** Is it known that whatever is told is heard? */
  get hearing(): boolean {
    return this.#heardAt !== undefined && this.#unheardSince === undefined;
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
   * Says that it listens. Not over its own connection, but over one that works: so the answer, which tells what is new, does
   * not wait for one that leads nowhere.
   */
  async beat(origin: string, wants: { readonly events: boolean; readonly ends: boolean }): Promise<Beat> {
    const client = this.#client;
    const start = this.#clock.now();
    const beat = await this.#database.quietly<Beat>("beat", [origin, wants.events, wants.ends, this.#ear]);
    const heard = this.#heardAt !== undefined && this.#heardAt >= start;
    if (client !== undefined && client === this.#client && !heard) this.#missed(client);
    return beat;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const client = this.#client;
    this.#client = undefined;
    const goodbye = client === undefined ? undefined : discard(client, true, this.#clock);
    await Promise.all([goodbye, this.#goodbye, this.#connecting]);
  }

  async #connect(): Promise<void> {
    const { signal } = this.#closed;
    let client: OwnClient | undefined;
    try {
      client = await this.#database.own(signal);
      // A pool that makes no connections for us: then it is looked now and then, and that is all.
      if (client === undefined) return;
      const made = client;
      made.on("notification", (said: Notification) => this.#notified(made, said));
      made.on("error", () => this.#lose(made));
      made.on("end", () => this.#lose(made));
      const listen = `LISTEN "${this.#channel}"; LISTEN "${this.#ear}"`;
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
    if (channel !== this.#ear) {
      this.#hear(payload);
      return;
    }
    this.#heardAt = this.#clock.now();
    this.#unheardSince = undefined;
    this.#failures = 0;
  }

  /** There was something to hear. It may still come, but not after the next one. */
  #missed(client: OwnClient): void {
    const now = this.#clock.now();
    this.#unheardSince ??= now;
    if (now - this.#unheardSince >= DEAF_MS) this.#lose(client);
  }

  #lose(client: OwnClient): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    this.#heardAt = undefined;
    this.#unheardSince = undefined;
    this.#goodbye = discard(client, false, this.#clock);
    this.#retry();
  }

  #retry(): void {
    // What is told meanwhile is missed: when it listens again everybody has to look.
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
