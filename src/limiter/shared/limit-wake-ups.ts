import type { Clock } from "../../core/clock.ts";
import { type Check, hasMethods } from "../../core/options.ts";
import { WakeUps } from "../../limits/wake-ups.ts";
import type { JobStorage } from "../../storage/job-storage.ts";

/** The parts of a storage that a shared limiter needs. */
export type SharedLimitStorage = Pick<JobStorage, "limits" | "subscribe" | "confirm">;

const LIMIT_METHODS = ["define", "remove", "change", "read", "take", "give", "renew"] as const;

export const sharedLimitStorage: Check<SharedLimitStorage> = {
  expected: "a storage with shared limits, such as new MemoryStorage() or new SqliteStorage(path)",
  read: (value) => {
    const right =
      hasMethods(value, ["subscribe", "confirm"]) && "limits" in value && hasMethods(value.limits, LIMIT_METHODS);
    return right ? (value as unknown as SharedLimitStorage) : undefined;
  },
};

/** The subscription is kept for so long after the last waiter has left, because the next may come at once. */
const LINGER_MS = 1_000;
/** Wake-ups that lead to no grant are passed on ever less often, down to one in so long. */
const LONGEST_GAP_MS = 64;

/**
 * The wake-ups of one limit of one storage, for one group or set of keys, in this process. A release in
 * this process notifies at once; the storage notifies of a release elsewhere, for as long as there are waiters.
 */
export class LimitWakeUps extends WakeUps {
  readonly #storage: SharedLimitStorage;
  readonly #clock: Clock;
  #waiting = 0;
  #unsubscribe: (() => void) | undefined;
  #cancelLinger: (() => void) | undefined;
  #cancelGap: (() => void) | undefined;
  /** How many wake-ups were passed on since the latest grant. */
  #vain = 0;
  #quietUntil = Number.NEGATIVE_INFINITY;

  constructor(storage: SharedLimitStorage, clock: Clock) {
    super();
    this.#storage = storage;
    this.#clock = clock;
  }

  override listen(listener: () => void): () => void {
    const leave = super.listen(listener);
    this.#waiting += 1;
    this.#cancelLinger?.();
    this.#cancelLinger = undefined;
    this.#subscribe();
    return () => {
      leave();
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#cancelLinger ??= this.#clock.after(LINGER_MS, () => this.#end());
    };
  }

  /** A start was granted, so the wake-up was useful. */
  granted(): void {
    this.#vain = 0;
    this.#quietUntil = Number.NEGATIVE_INFINITY;
  }

  #subscribe(): void {
    if (this.#unsubscribe !== undefined) return;
    try {
      this.#unsubscribe = this.#storage.subscribe({ queue: null, wake: (mayStart) => mayStart && this.#hear() });
    } catch {
      // If the storage is closed, the next request fails and reports it.
      return;
    }
    // A release between the refusal and this moment was not notified.
    queueMicrotask(() => this.notify());
  }

  #end(): void {
    this.#cancelLinger = undefined;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#cancelGap?.();
    this.#cancelGap = undefined;
  }

  /** The storage says that a full limit has capacity again. It does not say which: it may be another one. */
  #hear(): void {
    if (this.#cancelGap !== undefined) return;
    const wait = this.#quietUntil - this.#clock.now();
    if (wait <= 0) return this.#look();
    this.#cancelGap = this.#clock.after(wait, () => {
      this.#cancelGap = undefined;
      this.#look();
    });
  }

  #look(): void {
    this.#quietUntil = this.#clock.now() + Math.min(2 ** this.#vain, LONGEST_GAP_MS);
    this.#vain += 1;
    this.notify();
  }
}

interface Instances {
  readonly byName: Map<string, WeakRef<LimitWakeUps>>;
  readonly gone: FinalizationRegistry<string>;
}

/** Weakly held: there may be a group for every visitor of a site. */
const instancesOf = new WeakMap<SharedLimitStorage, Instances>();

/** The one instance for this limit, group and keys in this process: `id` is `LimitTarget.id`. */
export function limitWakeUpsOf(storage: SharedLimitStorage, id: string, clock: Clock): LimitWakeUps {
  let instances = instancesOf.get(storage);
  if (instances === undefined) {
    const byName: Instances["byName"] = new Map();
    const forget = (key: string) => byName.get(key)?.deref() === undefined && byName.delete(key);
    instancesOf.set(storage, (instances = { byName, gone: new FinalizationRegistry(forget) }));
  }
  let wakeUps = instances.byName.get(id)?.deref();
  if (wakeUps === undefined) {
    wakeUps = new LimitWakeUps(storage, clock);
    instances.byName.set(id, new WeakRef(wakeUps));
    instances.gone.register(wakeUps, id);
  }
  return wakeUps;
}
