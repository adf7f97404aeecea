import type { JobEvent } from "../../core/events.ts";
import type { Subscriber } from "../../storage/job-storage.ts";
import { Subscribers } from "../../storage/subscribers.ts";
import { HintFile } from "./hints.ts";
import type { Step } from "./step.ts";
import type { StepObserver, Store } from "./store.ts";

/** How often a process that listens checks whether others have written, if no hint came. */
const LOOK_EVERY_MS = 1_000;
/** A registration as a listener lasts so long, and is renewed so often. */
const LISTENING_MS = 30_000;
const RENEW_MS = 10_000;

const LISTEN = `INSERT INTO sluice_processes (origin, until, events) VALUES (?, ?, ?)
  ON CONFLICT (origin) DO UPDATE SET until = excluded.until, events = excluded.events`;
const LEAVE = "DELETE FROM sluice_processes WHERE origin = ?";
const LATEST_EVENT = "SELECT max(seq) AS seq FROM sluice_events";
const EVENTS = "SELECT seq, origin, event FROM sluice_events WHERE seq > ? ORDER BY seq LIMIT 1000";
const WAKE_UPS = "SELECT news AS wakeUps FROM sluice_meta";
const STOPPING = "SELECT queue, id FROM sluice_jobs WHERE state = 'active' AND cancel_requested = 1";

/**
 * The subscribers of a storage, and the hints between processes. Subscribers in this process are notified as soon as a step is committed;
 * other processes get a hint and look: at the version of the database, which changes when another process wrote, then at what is new.
 */
export class Hub implements StepObserver {
  readonly #store: Store;
  readonly #subscribers = new Subscribers();
  /** How many listen to each queue. */
  readonly #queues = new Map<string | null, number>();
  #hints: HintFile | undefined;
  #version: number | undefined;
  /** The counter of steps, in any process, that wake up blocked workers, as it was last read. Undefined: every write wakes them up. */
  #wakeUps: number | undefined;
  /** The newest event of other processes that was read. Undefined: no event before now is wanted. */
  #heard: number | undefined;
  #stopLooking: (() => void) | undefined;
  #registeredAt = Number.NEGATIVE_INFINITY;
  #registeredEvents = false;

  constructor(store: Store) {
    this.#store = store;
    store.observer = this;
  }

  get hearsEvents(): boolean {
    return this.#subscribers.hearEvents;
  }

  subscribe(subscriber: Subscriber): () => void {
    const leave = this.#subscribers.add(subscriber);
    const { queue } = subscriber;
    this.#queues.set(queue, (this.#queues.get(queue) ?? 0) + 1);
    this.#register();
    this.#stopLooking ??= this.#store.clock.after(LOOK_EVERY_MS, this.#look);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave();
      const others = this.#queues.get(queue)! - 1;
      if (others === 0) this.#queues.delete(queue);
      else this.#queues.set(queue, others);
      if (!this.hearsEvents) {
        // The next subscriber wants only events from then on.
        this.#heard = undefined;
        this.#registeredEvents = false;
      }
      if (this.#subscribers.size === 0) this.#quiet();
    };
  }

  committed(step: Step, elsewhere: boolean): void {
    for (const event of step.events) this.#subscribers.event(event);
    for (const { queue, id } of step.stopping) this.#subscribers.cancelled(queue, id);
    for (const [queue, mayStart] of step.woken) this.#subscribers.wake(queue, mayStart);
    if (step.wakesAll) this.#wakeAll(true);
    this.#subscribers.notify();
    if (elsewhere) this.#hintFile()?.notify();
  }

  /** Removes all subscribers; a hint that is pending is written. */
  close(): void {
    this.#subscribers.clear();
    this.#queues.clear();
    this.#quiet();
    this.#hints?.close();
  }

  readonly #look = (): void => {
    this.#stopLooking = this.#store.clock.after(LOOK_EVERY_MS, this.#look);
    if (this.#store.clock.now() - this.#registeredAt >= RENEW_MS) this.#register();
    this.#hear();
  };

  /** Looks whether others have written, and passes on what is new. */
  readonly #hear = (): void => {
    const connection = this.#store.idle;
    if (connection === undefined || this.#subscribers.size === 0) return;
    try {
      const { data_version: version } = connection.statements.get("PRAGMA data_version").get() as {
        readonly data_version: number;
      };
      if (version === this.#version) return;
      this.#version = version;
      this.#readEvents();
      for (const { queue, id } of connection.statements.get(STOPPING).all() as { queue: string; id: string }[]) {
        this.#subscribers.cancelled(queue, id);
      }
      const { wakeUps } = connection.statements.get(WAKE_UPS).get() as { readonly wakeUps: number };
      const before = this.#wakeUps;
      this.#wakeUps = wakeUps;
      this.#wakeAll(wakeUps !== before);
    } catch {
      // A lock is in the way: the next look finds the same.
      this.#version = undefined;
    }
    this.#subscribers.notify();
  };

  #readEvents(): void {
    const connection = this.#store.idle;
    if (connection === undefined || !this.hearsEvents || this.#heard === undefined) return;
    for (;;) {
      const rows = connection.statements.get(EVENTS).all(this.#heard) as {
        readonly seq: number;
        readonly origin: string;
        readonly event: string;
      }[];
      for (const { seq, origin, event } of rows) {
        this.#heard = seq;
        if (origin !== this.#store.origin) this.#subscribers.event(JSON.parse(event) as JobEvent);
      }
      if (rows.length === 0) return;
    }
  }

  #wakeAll(mayStart: boolean): void {
    // A name that no queue has reaches the listeners of all queues.
    for (const queue of this.#queues.keys()) this.#subscribers.wake(queue ?? "", mayStart);
  }

  /** Registers this process as a listener: now if the lock is free, else as soon as it is. */
  #register(): void {
    const { clock } = this.#store;
    const fresh = clock.now() - this.#registeredAt < RENEW_MS;
    if (fresh && (this.#registeredEvents || !this.hearsEvents)) return;
    this.#registeredAt = clock.now();
    this.#registeredEvents = this.hearsEvents;
    const write = (step: Step): void => {
      const { origin } = this.#store;
      step.sql(LISTEN).run(origin, step.now + LISTENING_MS, this.hearsEvents ? 1 : 0);
      this.#wakeUps ??= (step.sql(WAKE_UPS).get() as { readonly wakeUps: number }).wakeUps;
      if (this.hearsEvents) this.#heard ??= (step.sql(LATEST_EVENT).get() as { seq: number | null }).seq ?? 0;
    };
    if (this.#store.writeNow(write)) {
      this.#watch();
      return;
    }
    this.#store.write(write).then(
      () => this.#watch(),
      () => {
        // The next look tries again.
        this.#registeredAt = Number.NEGATIVE_INFINITY;
      },
    );
  }

  #watch(): void {
    if (this.#subscribers.size > 0) this.#hintFile()?.watch(this.#hear);
  }

  #quiet(): void {
    this.#stopLooking?.();
    this.#stopLooking = undefined;
    this.#hints?.unwatch();
    this.#heard = undefined;
    this.#wakeUps = undefined;
    if (this.#registeredAt === Number.NEGATIVE_INFINITY) return;
    this.#registeredAt = Number.NEGATIVE_INFINITY;
    this.#registeredEvents = false;
    this.#store.writeNow((step) => step.sql(LEAVE).run(this.#store.origin));
  }

  #hintFile(): HintFile | undefined {
    const file = this.#store.idle?.file;
    if (file !== undefined) this.#hints ??= new HintFile(file, this.#store.clock);
    return this.#hints;
  }
}
