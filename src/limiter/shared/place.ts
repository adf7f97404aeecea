import type { Clock } from "../../core/clock.ts";
import { type Check, hasMethods } from "../../core/options.ts";
import { WakeUps } from "../../limits/wake-ups.ts";
import type { JobStorage } from "../../storage/job-storage.ts";

/** What is needed of a storage to go by its limits. */
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

/** News is listened to for so long after the last one who waited has gone: the next one may come at once. */
const LINGER_MS = 1_000;
/** Looks that news leads to and that are in vain come ever less often, down to one in so long. */
const LONGEST_GAP_MS = 64;

/**
 * One limit of one storage, for one group: whoever waits for it in this process hears of room here. What is given back in
 * this process is told at once; what others give back is heard from the storage, for as long as somebody waits.
 */
export class Place extends WakeUps {
  readonly #storage: SharedLimitStorage;
  readonly #clock: Clock;
  #waiting = 0;
  #unsubscribe: (() => void) | undefined;
  #cancelLinger: (() => void) | undefined;
  #cancelGap: (() => void) | undefined;
  /** How often news has led to a look since something was last granted. */
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

  /** Something was granted: what was heard was worth a look. */
  granted(): void {
    this.#vain = 0;
    this.#quietUntil = Number.NEGATIVE_INFINITY;
  }

  #subscribe(): void {
    if (this.#unsubscribe !== undefined) return;
    try {
      this.#unsubscribe = this.#storage.subscribe({ queue: null, wake: (news) => news && this.#hear() });
    } catch {
      // Of a storage that is closed the next look will say so, to the one who looks.
      return;
    }
    // What was given back between the refusal and this moment nobody has told us.
    queueMicrotask(() => this.notify());
  }

  #end(): void {
    this.#cancelLinger = undefined;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#cancelGap?.();
    this.#cancelGap = undefined;
  }

  /** The storage says that something has room which had none. It does not say what: it may be another limit. */
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

interface Places {
  readonly byName: Map<string, WeakRef<Place>>;
  readonly gone: FinalizationRegistry<string>;
}

/** Kept as long as somebody uses them: there may be a group for every visitor of a site. */
const placesOf = new WeakMap<SharedLimitStorage, Places>();

/** The one place of this limit and group in this process. */
export function placeOf(storage: SharedLimitStorage, name: string, group: string | null, clock: Clock): Place {
  let places = placesOf.get(storage);
  if (places === undefined) {
    const byName: Places["byName"] = new Map();
    const forget = (key: string) => byName.get(key)?.deref() === undefined && byName.delete(key);
    placesOf.set(storage, (places = { byName, gone: new FinalizationRegistry(forget) }));
  }
  const key = JSON.stringify([name, group]);
  let place = places.byName.get(key)?.deref();
  if (place === undefined) {
    place = new Place(storage, clock);
    places.byName.set(key, new WeakRef(place));
    places.gone.register(place, key);
  }
  return place;
}
