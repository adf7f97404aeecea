import { type Clock, dateIn, systemClock } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import { nameText } from "../../core/names.ts";
import { clock, date, optional, positiveDuration, readArgument, readOptions } from "../../core/options.ts";
import { limitName } from "../../limits/define.ts";
import { quotaOf, weighed } from "../../limits/rule.ts";
import type { LimitTaken } from "../../storage/limit-storage.ts";
import type { Permit } from "../limiter.ts";
import { LineLimiter } from "../line-limiter.ts";
import { type Place, placeOf, type SharedLimitStorage, sharedLimitStorage } from "./place.ts";
import { SharedPart, type SharedSettings } from "./shared-part.ts";

export interface SharedLimiterOptions {
  /** Of a limit `by: "group"`: the group that is counted for. Default: that of jobs without a group. */
  readonly group?: string | undefined;
  /**
   * What a permit holds of `concurrency` comes back by itself after this if the process dies; while it lives it renews
   * itself. Default 30 s.
   */
  readonly ttl?: Duration | undefined;
  /**
   * A grant that took longer than this, from the request to its use, was met by a paused process: it is dropped, stays
   * counted, and is asked for again. Default 2 s.
   */
  readonly grantTtl?: Duration | undefined;
  /** Where waiting takes its time from. Default: the system's clock. */
  readonly clock?: Clock | undefined;
}

const OWNER = "SharedLimiter";

const RULES = {
  group: optional(nameText, undefined),
  ttl: optional(positiveDuration, 30_000),
  grantTtl: optional(positiveDuration, 2_000),
  clock: optional(clock, systemClock),
};

function readSettings(storage: SharedLimitStorage, name: string, options: SharedLimiterOptions): SharedSettings {
  const { ttl: ttlMs, group = null, ...rest } = readOptions(OWNER, RULES, options);
  readArgument(OWNER, "storage", sharedLimitStorage, storage);
  return { limit: readArgument(OWNER, "name", limitName, name), group, ttlMs, ...rest };
}

/**
 * The limiter of this limit and group: one and the same for all in this process who ask for it in the same words, as long as
 * somebody uses it, so that they stand in one line.
 */
export function sharedLimiter(
  storage: SharedLimitStorage,
  name: string,
  options: SharedLimiterOptions = {},
): SharedLimiter {
  const { limit, group, ttlMs, grantTtl, clock: time } = readSettings(storage, name, options);
  const place = placeOf(storage, limit, group, time);
  let limiters = limitersOf.get(place);
  if (limiters === undefined) limitersOf.set(place, (limiters = new Map()));
  const words = `${ttlMs} ${grantTtl}`;
  let limiter = limiters.get(words);
  if (limiter === undefined) limiters.set(words, (limiter = new SharedLimiter(storage, name, options)));
  return limiter;
}

/** By place: that is kept as long as one of its limiters is, or somebody waits for one of them. */
const limitersOf = new WeakMap<Place, Map<string, SharedLimiter>>();

/**
 * A shared limit, for code outside of the queue: what it grants counts with what workers start, exactly, in all processes.
 * `storage.limiter(name)` makes one.
 *
 * A start for which no weight is given counts for what the limit estimates. If nobody has declared the limit, everything
 * that asks it fails with a `LimitNotFoundError`.
 *
 * Whoever waits in `acquire` has a place in line in this process: one that weighs much is not passed by lighter ones. Between
 * processes there is no such place: what others take while it waits may leave too little room for it, again and again.
 */
export class SharedLimiter extends LineLimiter {
  /** The name of the limit. */
  readonly name: string;
  readonly group: string | undefined;
  readonly #storage: SharedLimitStorage;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  /** Starts that were recorded without a permit, and have not ended yet; the oldest first. */
  readonly #recorded: Permit[] = [];

  constructor(storage: SharedLimitStorage, name: string, options: SharedLimiterOptions = {}) {
    const settings = readSettings(storage, name, options);
    const part = new SharedPart(storage, settings);
    super(() => [part], SharedLimiter);
    this.name = settings.limit;
    this.group = settings.group ?? undefined;
    this.#storage = storage;
    this.#clock = settings.clock;
    this.#ttlMs = settings.ttlMs;
  }

  /** Would `tryAcquire()` be granted now, for what the limit estimates? Takes nothing. */
  async canProceed(): Promise<boolean> {
    const { granted } = await this.#ask();
    return granted && this.waiting === 0;
  }

  /**
   * Takes as `acquire` does: what is shared is never taken past the limit, so a start for which there is no room waits here
   * until there is.
   */
  async recordJobStart(): Promise<void> {
    this.#recorded.push(await this.acquire());
  }

  /** The oldest of the starts that were recorded, and have not ended, has. */
  async recordJobCompletion(): Promise<void> {
    await this.#recorded.shift()?.release();
  }

  /** Where only somebody can tell, who gives back what is held or resumes what is paused: now, or the end of a hold. */
  async getNextAvailableTime(): Promise<Date> {
    const asked = await this.#ask();
    return dateIn(this.#clock, asked.granted ? 0 : await this.#knownWait(asked.retryInMs));
  }

  /** Nothing starts before, for anybody: in its group, if it has one, else in all groups. */
  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    const holdMs = Math.max(0, until.getTime() - this.#clock.wall());
    await this.#storage.limits.change(this.name, { holdMs, group: this.group ?? null });
  }

  /**
   * Forgets what was counted under the limit, for everybody: of its group, if it has one, else of all groups. What is held
   * stays held.
   */
  async clear(): Promise<void> {
    await this.#storage.limits.change(this.name, { reset: true, group: this.group ?? null });
  }

  /** What `tryAcquire()` would be answered. */
  #ask(): Promise<LimitTaken> {
    const group = this.group ?? null;
    return this.#storage.limits.take({ name: this.name, group, weight: null, dry: true, ttlMs: this.#ttlMs });
  }

  /** What is held comes back when somebody gives it back; that it would run out by itself some day says nothing. */
  async #knownWait(retryInMs: number | null): Promise<number> {
    const asked = this.group ?? null;
    const [found] = await this.#storage.limits.read({ name: this.name, group: asked });
    const group = found?.rule.byGroup === true ? asked : null;
    const state = found?.states.find((one) => one.group === group);
    if (found === undefined || state === undefined) return retryInMs ?? 0;
    const { rule } = found;
    const { heldForMs, nextInMs, reason, held } = state;
    const { concurrency } = quotaOf(rule, group);
    const slots = rule.weight === null ? 1 : weighed(rule.quota, rule.estimate).slots;
    if (concurrency === null || held + slots <= concurrency) return retryInMs ?? heldForMs;
    return reason === null || reason === "concurrency" ? heldForMs : (nextInMs ?? heldForMs);
  }
}
