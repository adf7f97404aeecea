import { getOrMake } from "../core/get-or-make.ts";
import type { Clock } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import { JobError } from "../core/errors.ts";
import type { JobStorage } from "./job-storage.ts";
import type { UnhandledType, WorkerEntry } from "./workers.ts";

/** One heartbeat for all workers of the process; a worker is shown for three of them. */
const EVERY_MS = 15_000;
const TTL_MS = 45_000;
/** A heartbeat that is not answered by then has failed. */
const WITHIN_MS = 10_000;
/** After a failure the call is tried again, each time after twice as long. */
const FIRST_RETRY_MS = 500;
/**
 * Every second heartbeat looks for types that no live worker handles, and a type that two looks in a row have found is published, so that
 * a deploy raises no alarm. A little less than two heartbeats, since timers may fire early.
 */
const LOOK_EVERY_MS = 1.9 * EVERY_MS;

/** A running worker. */
export interface LiveWorker {
  readonly entry: () => WorkerEntry;
  /** Is called with an error if the worker cannot be registered for long. */
  readonly report: (error: unknown) => void;
}

type Registry = Pick<JobStorage, "register" | "unhandled" | "publish">;

/**
 * Keeps the workers of this process registered in one storage by heartbeats, one call for all. Only a worker that stops waits for it. The
 * process of the oldest worker also watches for types that no live worker handles.
 */
export class Registrar {
  readonly #storage: Registry;
  readonly #clock: Clock;
  readonly #live = new Set<LiveWorker>();
  /** Workers that the next call registers; it also removes those that are gone. */
  #due = new Set<LiveWorker>();
  #gone: string[] = [];
  #sending: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #failures = 0;
  #registeredAt = 0;
  #reported = false;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** The unhandled types of the latest look, and whether each was published. */
  #unhandled = new Map<string, "seen" | "published">();

  constructor(storage: Registry, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Registers a worker with the next call. The returned function removes the worker; it rejects if that fails. */
  add(worker: LiveWorker): () => Promise<void> {
    if (this.#live.size === 0) this.#registeredAt = this.#clock.now();
    this.#live.add(worker);
    this.#due.add(worker);
    this.#flush().catch(() => {});
    return () => this.#remove(worker);
  }

  /** The storage is about to close: its workers are removed, and no timer is left. Undefined: there is nothing to do. */
  close(): Promise<void> | undefined {
    if (this.#live.size === 0) return undefined;
    this.#gone.push(...Array.from(this.#live, ({ entry }) => entry().id));
    this.#live.clear();
    this.#due.clear();
    this.#stopTimer();
    return this.#flush().catch(() => {});
  }

  async #remove(worker: LiveWorker): Promise<void> {
    if (!this.#live.delete(worker)) return;
    this.#due.delete(worker);
    this.#gone.push(worker.entry().id);
    await this.#flush();
  }

  /** One call at a time: workers that come while one is under way go with the next. */
  async #flush(): Promise<void> {
    // Workers that start or stop in the same turn go together.
    await Promise.resolve();
    while (this.#sending !== undefined) await this.#sending.catch(() => {});
    if (this.#due.size === 0 && this.#gone.length === 0) return;
    this.#sending = this.#send();
    try {
      await this.#sending;
    } finally {
      this.#sending = undefined;
    }
  }

  async #send(): Promise<void> {
    const due = [...this.#due];
    const gone = this.#gone;
    this.#due = new Set();
    this.#gone = [];
    const entries = due.map(({ entry }) => entry());
    // Otherwise the call is only for workers that start or stop, and the heartbeat of the others comes in its own time.
    const ofAll = due.length > 0 && due.length === this.#live.size;
    const register = () => this.#storage.register(entries, TTL_MS, gone);
    try {
      const { first } = await inTime(this.#clock, register, { withinMs: WITHIN_MS });
      this.#failures = 0;
      if (ofAll) {
        this.#reported = false;
        this.#registeredAt = this.#clock.now();
        await this.#watch(first);
      }
    } catch (error) {
      for (const one of due) if (this.#live.has(one)) this.#due.add(one);
      // Without live workers the call is not repeated: removed workers expire by themselves.
      if (this.#live.size > 0) this.#gone.push(...gone);
      this.#failed(error);
      throw error;
    } finally {
      this.#setTimer();
    }
  }

  /** A failure is reported once, when the workers are no longer shown as live. */
  #failed(error: unknown): void {
    this.#failures += 1;
    if (this.#reported || this.#clock.now() - this.#registeredAt < TTL_MS) return;
    this.#reported = true;
    const message = `the worker could not be registered for ${TTL_MS / 1_000} s, and is not shown as live: it works all the same`;
    for (const { report } of this.#live) report(new JobError(message, { cause: error }));
  }

  #setTimer(): void {
    if (this.#live.size === 0 || this.#failures > 0) this.#stopTimer();
    if (this.#live.size === 0 || this.#cancelTimer !== undefined) return;
    const ms = this.#failures === 0 ? EVERY_MS : Math.min(EVERY_MS, FIRST_RETRY_MS * 2 ** (this.#failures - 1));
    this.#cancelTimer = this.#clock.after(ms, () => {
      this.#cancelTimer = undefined;
      this.#due = new Set(this.#live);
      this.#flush().catch(() => {});
    });
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** Looks for types that no live worker handles, and publishes each once, for as long as that lasts. */
  async #watch(first: boolean): Promise<void> {
    const now = this.#clock.now();
    if (!first) {
      this.#lookedAt = Number.NEGATIVE_INFINITY;
      this.#unhandled.clear();
    }
    if (!first || now - this.#lookedAt < LOOK_EVERY_MS) return;
    const look = () => this.#storage.unhandled();
    const found = await inTime(this.#clock, look, { withinMs: WITHIN_MS }).catch(() => undefined);
    // The next heartbeat looks again.
    if (found === undefined) return;
    this.#lookedAt = now;
    const before = this.#unhandled;
    this.#unhandled = new Map(found.map((one) => [keyOf(one), before.get(keyOf(one)) ?? "seen"]));
    for (const one of found) if (before.get(keyOf(one)) === "seen") this.#publish(one);
  }

  #publish({ queue, type }: UnhandledType): void {
    const key = keyOf({ queue, type });
    this.#unhandled.set(key, "published");
    this.#storage.publish({ event: "unhandled", queue, type }).catch(() => {
      if (this.#unhandled.has(key)) this.#unhandled.set(key, "seen");
    });
  }
}

const keyOf = ({ queue, type }: UnhandledType) => JSON.stringify([queue, type]);

const ofStorages = new WeakMap<object, Registrar>();

/** The registrar of this storage: one instance for all workers of the process. */
export function registrarOf(storage: Registry, clock: Clock): Registrar {
  return getOrMake(ofStorages, storage, () => new Registrar(storage, clock));
}

/** For a storage that is about to close. Undefined: there is nothing to do. */
export function closeRegistrar(storage: object): Promise<void> | undefined {
  return ofStorages.get(storage)?.close();
}
