import { getOrMake } from "../../core/get-or-make.ts";
import { type Clock, dateIn, systemClock } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import type { JobKeys } from "../../core/job.ts";
import { clock, date, optional, positiveDuration, readArgument, readOptions } from "../../core/options.ts";
import { limitName } from "../../limits/define.ts";
import { quotaOf, weighed } from "../../limits/rule.ts";
import type { LimitTaken } from "../../storage/limit-storage.ts";
import type { Permit } from "../limiter.ts";
import { LineLimiter } from "../line-limiter.ts";
import { KEY_OPTIONS, type LimitKeyOptions, LimitTarget } from "./limit-target.ts";
import { type LimitWakeUps, limitWakeUpsOf, type SharedLimitStorage, sharedLimitStorage } from "./limit-wake-ups.ts";
import { SharedPart, type SharedSettings } from "./shared-part.ts";

/**
 * `group` and `keys` say what is counted for, as of a job. Default: that of jobs without them. A group or a key that the limit is not by is an
 * `OptionsError` when the limiter is used; only a group is ignored where the limit has one state for all.
 */
export interface SharedLimiterOptions extends LimitKeyOptions {
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
  ...KEY_OPTIONS,
  ttl: optional(positiveDuration, 30_000),
  grantTtl: optional(positiveDuration, 2_000),
  clock: optional(clock, systemClock),
};

function readSettings(storage: SharedLimitStorage, name: string, options: SharedLimiterOptions): SharedSettings {
  const { ttl: ttlMs, group, keys, ...rest } = readOptions(OWNER, RULES, options);
  readArgument(OWNER, "storage", sharedLimitStorage, storage);
  const target = new LimitTarget(OWNER, readArgument(OWNER, "name", limitName, name), { group, keys });
  return { target, ttlMs, ...rest };
}

/**
 * The limiter of this limit, group and keys. Calls with the same options return the same instance, as long as it is in use, so that
 * its callers wait in one line.
 */
export function sharedLimiter(
  storage: SharedLimitStorage,
  name: string,
  given: Omit<SharedLimiterOptions, "clock">,
  time: Clock,
): SharedLimiter {
  // A value that is no options object is refused.
  const options =
    typeof given === "object" && given !== null && !Array.isArray(given) ? { ...given, clock: time } : given;
  const { target, ttlMs, grantTtl } = readSettings(storage, name, options);
  const wakeUps = limitWakeUpsOf(storage, target.id, time);
  const limiters = getOrMake(limitersOf, wakeUps, () => new Map());
  return getOrMake(limiters, `${ttlMs} ${grantTtl}`, () => new SharedLimiter(storage, name, options));
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
  readonly keys: JobKeys | undefined;
  readonly #target: LimitTarget;
  readonly #storage: SharedLimitStorage;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  /** Starts that were recorded without a permit, and have not ended yet; the oldest first. */
  readonly #recorded: Permit[] = [];

  constructor(storage: SharedLimitStorage, name: string, options: SharedLimiterOptions = {}) {
    const settings = readSettings(storage, name, options);
    const part = new SharedPart(storage, settings);
    super(() => [part], SharedLimiter);
    this.#target = settings.target;
    this.name = this.#target.limit;
    this.group = this.#target.given.group;
    this.keys = this.#target.given.keys;
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

  /** Nothing starts before, in any process: for its group or keys, if it has any, else for all. */
  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    const holdMs = Math.max(0, until.getTime() - this.#clock.wall());
    const { limits } = this.#storage;
    await limits.change(this.name, { holdMs, group: await this.#target.found(limits) });
  }

  /**
   * Resets what was counted under the limit, in all processes: of its group or keys, if it has any, else of all. Slots in
   * use stay in use.
   */
  async clear(): Promise<void> {
    const { limits } = this.#storage;
    await limits.change(this.name, { reset: true, group: await this.#target.found(limits) });
  }

  /** The answer that `tryAcquire()` would get. */
  #ask(): Promise<LimitTaken> {
    return this.#target.take(this.#storage.limits, { weight: null, dry: true, ttlMs: this.#ttlMs });
  }

  /** A slot in use returns with its release; the instant of its expiry is no estimate of that. */
  async #knownWait(retryInMs: number | null): Promise<number> {
    const asked = this.#target.value;
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
