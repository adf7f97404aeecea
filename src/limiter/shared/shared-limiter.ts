import { type Clock, dateIn, systemClock } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import { LimitNotFoundError } from "../../core/errors.ts";
import { nameText } from "../../core/names.ts";
import { clock, date, optional, positiveDuration, readArgument, readOptions } from "../../core/options.ts";
import { limitName } from "../../limits/define.ts";
import { type LimitRule, mostOf, type Quota, quotaOf, weighed } from "../../limits/rule.ts";
import type { GroupState } from "../../storage/limit-storage.ts";
import type { Permit } from "../limiter.ts";
import { LineLimiter } from "../line-limiter.ts";
import { type SharedLimitStorage, sharedLimitStorage } from "./place.ts";
import { SharedPart } from "./shared-part.ts";

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

/**
 * A shared limit, for code outside of the queue: what it grants counts with what workers start, exactly, in all processes.
 * `storage.limiter(name)` makes one.
 *
 * A start for which no weight is given counts for what the limit estimates. If nobody has declared the limit, everything
 * that asks it fails with a `LimitNotFoundError`.
 */
export class SharedLimiter extends LineLimiter {
  /** The name of the limit. */
  readonly name: string;
  readonly group: string | undefined;
  readonly #storage: SharedLimitStorage;
  readonly #clock: Clock;
  /** Starts that were recorded without a permit, and have not ended yet; the oldest first. */
  readonly #recorded: Permit[] = [];

  constructor(storage: SharedLimitStorage, name: string, options: SharedLimiterOptions = {}) {
    const read = readOptions(OWNER, RULES, options);
    const from = readArgument(OWNER, "storage", sharedLimitStorage, storage);
    const limit = readArgument(OWNER, "name", limitName, name);
    const { ttl: ttlMs, grantTtl, group = null } = read;
    const part = new SharedPart(from, { limit, group, ttlMs, grantTtl, clock: read.clock });
    super(() => [part]);
    this.name = limit;
    this.group = read.group;
    this.#storage = from;
    this.#clock = read.clock;
  }

  /** Would one more be let through now, for what the limit estimates? Takes nothing. */
  async canProceed(): Promise<boolean> {
    const { rule, quota, state } = await this.#look();
    if (this.waiting > 0) return false;
    return state === undefined || (state.nextInMs === 0 && fits(rule, quota, state));
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
    const { state } = await this.#look();
    if (state === undefined) return dateIn(this.#clock, 0);
    const { nextInMs, reason, heldForMs } = state;
    return dateIn(this.#clock, nextInMs === null || reason === "concurrency" ? heldForMs : nextInMs);
  }

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

  /** The limit as it is. No state: nothing was counted for the group. */
  async #look(): Promise<{ rule: LimitRule; quota: Quota; state: GroupState | undefined }> {
    const asked = this.group ?? null;
    const [found] = await this.#storage.limits.read({ name: this.name, group: asked });
    if (found === undefined) throw new LimitNotFoundError(this.name);
    const { rule, states } = found;
    const group = rule.byGroup ? asked : null;
    return { rule, quota: quotaOf(rule, group), state: states.find((state) => state.group === group) };
  }
}

/** Does what the limit estimates fit beside what is counted? */
function fits({ estimate, weight }: LimitRule, quota: Quota, { used, held }: GroupState): boolean {
  if (weight === null) return true;
  const charge = weighed(quota, estimate);
  const { max, concurrency } = quota;
  return (
    mostOf(quota, charge) === undefined &&
    (max === null || used + charge.weight <= max) &&
    (concurrency === null || held + charge.slots <= concurrency)
  );
}
