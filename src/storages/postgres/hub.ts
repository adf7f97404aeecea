import { afterAnswers, inTime } from "../../core/deadline.ts";
import type { Subscriber } from "../../storage/job-storage.ts";
import { Subscribers } from "../../storage/subscribers.ts";
import type { PostgresDatabase, StepObserver } from "./database.ts";
import { Events } from "./events.ts";
import { type Heartbeat, Listening } from "./listening.ts";
import { Notifier, readHints } from "./notifier.ts";
import { hasHints, type StepHints } from "./step-hints.ts";

/** How often a storage that listens sends a heartbeat. */
const HEARTBEAT_MS = 5_000;
/** If a heartbeat is not answered in this time, all subscribers look. */
const ANSWER_MS = 1_000;
/** A heartbeat is received soon after it is answered. If not within this time, notifications may be missed: all subscribers look. */
const RECEIVED_MS = 250;
/** Notifications may be lost: all subscribers look so often, whatever was received. */
const LOOK_MS = 30_000;
/** How long steps wait until other processes know that this one listens. */
const REGISTER_MS = 1_000;
/** So many jobs that are to be cancelled are looked up together; the next heartbeat names the others. */
const MOST_HINTED = 1_000;
/** Ends of jobs that steps of this process wrote are read together: its own workers have resolved their waiters. */
const ENDS_MS = 50;
/** After the last subscriber has left it listens on for a moment: another one may come. */
const LINGER_MS = 1_000;

/**
 * The subscribers of a storage, and the notifications between processes. Subscribers in this process are notified as soon as a step is
 * committed; other processes on a channel of the database (notifier.ts), on which each listens (listening.ts). All of that is hints. The
 * guarantee is a slow poll: every few seconds while notifications are not known to be received, every half minute otherwise.
 */
export class Hub implements StepObserver {
  readonly #database: PostgresDatabase;
  readonly #subscribers = new Subscribers();
  /** Distinguishes this storage object from every other one, in any process. */
  readonly #origin = globalThis.crypto.randomUUID();
  readonly #channel: string;
  readonly #notifier: Notifier;
  readonly #events: Events;
  #listening: Listening | undefined;
  #registering: Promise<void> | undefined;
  #cancelHeartbeat: (() => void) | undefined;
  #cancelStop: (() => void) | undefined;
  /** Ends the wait for the answer to a heartbeat, or until it is received. */
  #cancelCheck: (() => void) | undefined;
  /** Ends all waiting for answers. */
  readonly #closed = new AbortController();
  #lookedAt = 0;
  #stamp: string | undefined;
  /** How many releases have woken up what waits for a limit, by the latest heartbeat. */
  #releases: number | null = null;
  /** Jobs that are to be cancelled, by notifications that are not confirmed yet. */
  readonly #hinted = new Set<string>();
  #confirming = false;
  /** The registration as a listener is being removed. */
  #leaving: Promise<unknown> = Promise.resolve();

  constructor(database: PostgresDatabase, schema: string) {
    this.#database = database;
    this.#channel = `sluice:${schema}`;
    this.#notifier = new Notifier(database, this.#origin);
    this.#events = new Events(
      database,
      (event) => {
        if (event.event === "ended") this.#subscribers.ended(event.ids);
        else this.#subscribers.event(event);
      },
      () => this.#subscribers.notify(),
    );
    database.observer = this;
  }

  get registering(): Promise<void> | undefined {
    return this.#registering;
  }

  subscribe(subscriber: Subscriber): () => void {
    const { events, ends } = this.#wants;
    const leave = this.#subscribers.add(subscriber);
    this.#cancelStop?.();
    this.#cancelStop = undefined;
    const more = (this.#wants.events && !events) || (this.#wants.ends && !ends);
    if (this.#listening === undefined || more) this.#register();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave();
      if (!this.#subscribers.hearEvents) this.#events.end();
      if (this.#subscribers.size > 0 || this.#listening === undefined) return;
      this.#cancelStop ??= this.#database.clock.after(LINGER_MS, () => this.#stopListening());
    };
  }

  /** What steps have to write for the subscribers of this process. */
  get #wants() {
    return { events: this.#subscribers.hearAll, ends: this.#subscribers.hearEnds };
  }

  committed(hints: StepHints): void {
    if (!hasHints(hints)) return;
    this.#pass(hints);
    if (hints.notified === true) this.#notifier.stepNotified();
    else this.#notifier.notify(hints);
  }

  notifyingOrigin(): string | undefined {
    return this.#notifier.stepMayNotify() ? this.#origin : undefined;
  }

  /** Removes all subscribers, and sends pending notifications. */
  async close(): Promise<void> {
    this.#subscribers.clear();
    this.#events.end();
    this.#stopListening();
    const last = () => Promise.all([this.#notifier.close(), this.#leaving]);
    await inTime(this.#database.clock, last, { withinMs: REGISTER_MS }).catch(() => {});
    this.#closed.abort();
  }

  #pass({ woken, wakeAll, stopping, events, ends }: StepHints): void {
    for (const [queue, id] of stopping ?? []) this.#subscribers.cancelled(queue, id);
    for (const [queue, mayStart] of woken ?? []) this.#subscribers.wake(queue, mayStart);
    if (wakeAll === true) this.#subscribers.wakeAll(true);
    if (events === true && this.#subscribers.hearEvents) this.#events.read();
    else if (ends === true && this.#subscribers.hearEvents) this.#events.readIn(ENDS_MS);
    this.#subscribers.notify();
  }

  readonly #receive = (text: string | undefined): void => {
    const hints = readHints(text);
    if (hints === undefined || hints.origin === this.#origin) return;
    const { queues, wakeAll, events } = hints;
    this.#pass({ woken: queues ?? [], wakeAll: wakeAll === true, events: events === true });
    for (const [, id] of hints.stopping ?? []) if (this.#hinted.size < MOST_HINTED) this.#hinted.add(id);
    if (this.#hinted.size > 0 && !this.#confirming) void this.#confirm();
  };

  /** Every role that may connect can send a notification that a job is to be cancelled: only the table decides. */
  async #confirm(): Promise<void> {
    this.#confirming = true;
    while (this.#hinted.size > 0) {
      const ids = JSON.stringify([...this.#hinted]);
      this.#hinted.clear();
      const stopping = await this.#database
        .quietly<readonly (readonly [string, string])[]>("asked_to_stop", [ids])
        // The next heartbeat names them.
        .catch(() => []);
      this.#pass({ stopping });
    }
    this.#confirming = false;
  }

  /** Registers this process as a listener. Steps wait for it, for a moment. */
  #register(): void {
    this.#listening ??= new Listening(
      this.#database,
      { channel: this.#channel, ownChannel: `sluice:${this.#origin}` },
      this.#receive,
      () => this.#look(true),
    );
    if (this.#cancelHeartbeat === undefined) {
      this.#lookedAt = this.#database.clock.now();
      this.#cancelHeartbeat = this.#database.clock.after(HEARTBEAT_MS, this.#tick);
    }
    const listening = this.#listening;
    let late = false;
    const register = async (): Promise<void> => {
      await this.#database.setup();
      await listening.start();
      // A registration before that would be removed at once.
      await this.#leaving;
      if (listening !== this.#listening) return;
      const heartbeat = await listening.heartbeat(this.#origin, this.#wants);
      const known = this.#stamp;
      const released = known !== undefined && this.#releases !== heartbeat.releases;
      this.#apply(heartbeat);
      // Steps did not wait, and other processes may have made steps without a notification.
      if (late || released) this.#look(true);
      else if (known !== undefined && known !== heartbeat.stamp) this.#look(false);
    };
    const registering = inTime(this.#database.clock, register, { withinMs: REGISTER_MS, signal: this.#closed.signal })
      // The next heartbeat tries again.
      .catch(() => {
        late = true;
      })
      .finally(() => {
        if (this.#registering === registering) this.#registering = undefined;
      });
    this.#registering = registering;
  }

  readonly #tick = (): void => {
    this.#cancelHeartbeat = this.#database.clock.after(HEARTBEAT_MS, this.#tick);
    const listening = this.#listening;
    if (listening === undefined) return;
    const wasReceiving = listening.receiving;
    void listening.start();
    this.#check(ANSWER_MS, () => this.#look(true));
    listening.heartbeat(this.#origin, this.#wants).then(
      (heartbeat) => {
        if (listening !== this.#listening) return;
        const stamp = this.#stamp;
        // The process that released may have been killed before it notified others, and none of them notifies of that again.
        const released = this.#releases !== heartbeat.releases;
        this.#apply(heartbeat);
        this.#cancelCheck?.();
        if (!wasReceiving || this.#database.clock.now() - this.#lookedAt >= LOOK_MS) {
          this.#look(true);
          return;
        }
        if (released) this.#look(true);
        else if (heartbeat.stamp !== stamp) this.#look(false);
        this.#check(RECEIVED_MS, () => {
          if (!listening.receiving) this.#look(true);
        });
      },
      () => {
        this.#cancelCheck?.();
        this.#look(true);
      },
    );
  };

  /** Calls `overdue` after a while, unless the check is cancelled. */
  #check(ms: number, overdue: () => void): void {
    this.#cancelCheck?.();
    this.#cancelCheck = afterAnswers(this.#database.clock, ms, overdue);
  }

  #apply({ event, stamp, releases, stopping }: Heartbeat): void {
    this.#stamp = stamp;
    this.#releases = releases;
    if (this.#subscribers.hearEvents) {
      this.#events.begin(event ?? 0);
      this.#events.read();
    }
    for (const [queue, id] of stopping ?? []) this.#subscribers.cancelled(queue, id);
    this.#subscribers.notify();
  }

  /** Wakes up all subscribers. `mayStart`: also workers that a limit blocks. */
  #look(mayStart: boolean): void {
    if (mayStart) this.#lookedAt = this.#database.clock.now();
    if (this.#subscribers.hearEvents) this.#events.read();
    this.#subscribers.wakeAll(mayStart);
    this.#subscribers.notify();
  }

  #stopListening(): void {
    this.#cancelHeartbeat?.();
    this.#cancelHeartbeat = undefined;
    this.#cancelStop?.();
    this.#cancelStop = undefined;
    this.#cancelCheck?.();
    const listening = this.#listening;
    if (listening === undefined) return;
    this.#listening = undefined;
    this.#stamp = undefined;
    const closed = listening.close();
    const left = this.#database.quietly("leave", [this.#origin]).catch(() => {});
    this.#leaving = Promise.all([left, closed]);
  }
}
