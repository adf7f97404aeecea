import { type Clock, dateIn, systemClock } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import { nameText } from "../../core/names.ts";
import { clock, date, optional, positiveDuration, readArgument, readOptions } from "../../core/options.ts";
import { limitName } from "../../limits/define.ts";
import { quotaOf, weighed } from "../../limits/rule.ts";
import type { LimitTaken } from "../../storage/limit-storage.ts";
import type { Permit } from "../limiter.ts";
import { LineLimiter } from "../line-limiter.ts";
import { type LimitWakeUps, limitWakeUpsOf, type SharedLimitStorage, sharedLimitStorage } from "./limit-wake-ups.ts";
import { SharedPart, type SharedSettings } from "./shared-part.ts";

export interface SharedLimiterOptions {
  /** Of a limit `by: "group"`: the group that is counted for. Default: that of jobs without a group. */
  readonly group?: string | undefined;
  /**
   * The slots of a permit return by themselves after this if the process dies; while it lives it renews
   * them. Default 30 s.
   */
  readonly ttl?: Duration | undefined;
  /**
   * A grant that took longer than this from the request to its use is dropped (the process was suspended): it stays
   * counted, and a new one is requested. Default 2 s.
   */
  readonly grantTtl?: Duration | undefined;
  /** The clock that waiting uses. Default: the system's clock. */
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
 * The limiter of this limit and group. Calls with the same options return the same instance, as long as it is in use, so that
 * its callers wait in one line.
 */
export function sharedLimiter(
  storage: SharedLimitStorage,
  name: string,
  options: SharedLimiterOptions = {},
): SharedLimiter {
  const { limit, group, ttlMs, grantTtl, clock: time } = readSettings(storage, name, options);
  const wakeUps = limitWakeUpsOf(storage, limit, group, time);
  let limiters = limitersOf.get(wakeUps);
  if (limiters === undefined) limitersOf.set(wakeUps, (limiters = new Map()));
  const words = `${ttlMs} ${grantTtl}`;
  let limiter = limiters.get(words);
  if (limiter === undefined) limiters.set(words, (limiter = new SharedLimiter(storage, name, options)));
  return limiter;
}

/** By their wake-ups, which live as long as one of the limiters, or a waiter for one of them. */
const limitersOf = new WeakMap<LimitWakeUps, Map<string, SharedLimiter>>();

/**
 * A shared limit, for code outside of the queue: what it grants counts with what workers start, exactly, in all processes.
 * `storage.limiter(name)` makes one.
 *
 * A start for which no weight is given counts for what the limit estimates. If the limit is not declared, everything
 * that uses it fails with a `LimitNotFoundError`.
 *
 * A caller that waits in `acquire` has a place in line in this process: a heavy one is not passed by lighter ones. Between
 * processes there is no such order: starts of others while it waits may leave too little available for it, again and again.
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

  /** Would `tryAcquire()` be granted now, with the estimate of the limit? Charges nothing. */
  async canProceed(): Promise<boolean> {
    const { granted } = await this.#ask();
    return granted && this.waiting === 0;
  }

  /**
   * Charges as `acquire` does: a shared limit is never exceeded, so a start that does not fit waits here
   * until it fits.
   */
  async recordJobStart(): Promise<void> {
    this.#recorded.push(await this.acquire());
  }

  /** Ends the oldest recorded start that has not ended. */
  async recordJobCompletion(): Promise<void> {
    await this.#recorded.shift()?.release();
  }

  /** Where the next start depends on a release or a resume: now, or the end of a hold. */
  async getNextAvailableTime(): Promise<Date> {
    const asked = await this.#ask();
    return dateIn(this.#clock, asked.granted ? 0 : await this.#knownWait(asked.retryInMs));
  }

  /** Nothing starts before, in any process: in its group, if it has one, else in all groups. */
  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    const holdMs = Math.max(0, until.getTime() - this.#clock.wall());
    await this.#storage.limits.change(this.name, { holdMs, group: this.group ?? null });
  }

  /**
   * Resets what was counted under the limit, in all processes: of its group, if it has one, else of all groups. Slots in use
   * stay in use.
   */
  async clear(): Promise<void> {
    await this.#storage.limits.change(this.name, { reset: true, group: this.group ?? null });
  }

  /** The answer that `tryAcquire()` would get. */
  #ask(): Promise<LimitTaken> {
    const group = this.group ?? null;
    return this.#storage.limits.take({ name: this.name, group, weight: null, dry: true, ttlMs: this.#ttlMs });
  }

  /** A slot in use returns with its release; the instant of its expiry is no estimate of that. */
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
