import { type Clock, dateIn, systemClock } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import { LimitNotFoundError, OptionsError } from "../../core/errors.ts";
import { GROUP } from "../../core/job-keys.ts";
import type { LimitChanged } from "../../core/limit-change.ts";
import { nameText } from "../../core/names.ts";
import {
  clock,
  count,
  countOrZero,
  optional,
  positiveDuration,
  readArgument,
  readOptions,
} from "../../core/options.ts";
import {
  checkWindow,
  DEFINE_OPTIONS,
  type DefinedLimits,
  limitName,
  quotaFrom,
  readLimits,
  tooSmall,
} from "../../limits/define.ts";
import type { DefineLimitsOptions, LimitDefinitions } from "../../limits/definition.ts";
import { type LimitRule, namesOf } from "../../limits/rule.ts";
import type { LimitHistoryEntry, LimitsDeclared, LimitState, LimitStorage } from "../../storage/limit-storage.ts";
import { dateAt } from "../../storage/span.ts";
import type { HeaderSource } from "../headers.ts";
import { type LimitInfo, limitInfo } from "./limit-info.ts";
import {
  checkedValue,
  isGiven,
  KEY_OPTIONS,
  type LimitKey,
  type LimitKeyOptions,
  namesGiven,
  valueBy,
} from "./limit-target.ts";
import { type SharedLimitStorage, sharedLimitStorage } from "./limit-wake-ups.ts";
import { holdOf, type Remaining, reportOn } from "./sync.ts";

export interface LimitsOptions {
  /** The clock for dates. Default: the system's clock. */
  readonly clock?: Clock | undefined;
  /** The author recorded in the history of limits: the name of a person or a program. Default: none. */
  readonly by?: string | undefined;
}

export interface LimitHistoryOptions {
  /** So many changes at the most. Default 100. */
  readonly limit?: number | undefined;
}

/** One change of a limit, as its history keeps it. */
export interface LimitHistoryItem extends LimitChanged {
  readonly at: Date;
}

/** Other numbers for a limit. At least one; what is left out stays. 0 lets nothing start. */
export interface LimitNumbersChange {
  readonly max?: number | undefined;
  /** The whole window: a `guard` is not added to it. */
  readonly per?: Duration | undefined;
  readonly concurrency?: number | undefined;
  readonly every?: Duration | undefined;
}

export interface PauseOptions extends LimitKeyOptions {
  /** For so long; it only ever extends. Default: until it is resumed. */
  readonly for?: Duration | undefined;
}

/** What a service reported, and what was applied. */
export interface SyncResult {
  /** How much remains, as reported; undefined: not reported. */
  readonly remaining: number | undefined;
  /** Until when that holds. */
  readonly resetAt: Date | undefined;
  /** The end of the hold that it asked for. */
  readonly heldUntil: Date | undefined;
}

const OWNER = "Limits";
const PAUSE = { ...KEY_OPTIONS, for: optional(positiveDuration) };
const DEFINE = { ...DEFINE_OPTIONS, onConflict: optional(DEFINE_OPTIONS.onConflict.check, undefined) };
const HISTORY = { limit: optional(count, 100) };
const NUMBERS = {
  max: optional(countOrZero),
  per: optional(positiveDuration),
  concurrency: optional(countOrZero),
  every: optional(positiveDuration),
};
/** The hold for a service that refuses without saying for how long. */
const UNSAID_HOLD_MS = 1_000;

/**
 * The shared limits of a storage, to read and change while workers run. A change takes effect at once,
 * in every process. A limit that does not exist is a `LimitNotFoundError`.
 */
export class Limits {
  readonly #limits: LimitStorage;
  readonly #clock: Clock;
  readonly #by: string | null;

  constructor(storage: SharedLimitStorage, options: LimitsOptions = {}) {
    this.#limits = readArgument(OWNER, "storage", sharedLimitStorage, storage).limits;
    const read = readOptions(OWNER, { clock: optional(clock, systemClock), by: optional(nameText) }, options);
    this.#clock = read.clock;
    this.#by = read.by ?? null;
  }

  /**
   * Declares limits, all of them or none. Where a stored declaration differs the newest holds, unless
   * the options, or else those of `defineLimits`, say otherwise. The answer says what was changed, and what was left as it
   * is because a newer version is stored.
   */
  async define(limits: DefinedLimits | LimitDefinitions, options: DefineLimitsOptions = {}): Promise<LimitsDeclared> {
    const read = readLimits("define", limits);
    const {
      onConflict = read.onConflict,
      version = read.version,
      owner = read.owner,
    } = readOptions("define", DEFINE, options);
    return this.#limits.define(read.rules, { onConflict, version, owner, by: this.#by });
  }

  /** What was changed about a limit, or about all of them, the newest first: the latest 100 of each are kept. */
  async history(name?: string, options: LimitHistoryOptions = {}): Promise<readonly LimitHistoryItem[]> {
    const limit = name === undefined ? null : readArgument("history", "name", limitName, name);
    const entries = await this.#limits.history({ name: limit, ...readOptions("history", HISTORY, options) });
    return entries.map((entry) => historyItem(entry));
  }

  /** All there are, by name. */
  async list(): Promise<readonly LimitInfo[]> {
    const states = await this.#limits.read({ name: null, group: null });
    const seen = await Promise.all(states.map((state) => this.#seen(state)));
    return seen.map((state) => limitInfo(state, this.#clock, null));
  }

  /** One of them, of a limit by group or keys for one of these; undefined: there is none of this name. */
  async get(name: string, options: LimitKeyOptions = {}): Promise<LimitInfo | undefined> {
    const limit = readArgument("get", "name", limitName, name);
    const found = await this.#read("get", limit, readOptions("get", KEY_OPTIONS, options));
    return found && limitInfo(await this.#seen(found.state), this.#clock, found.value);
  }

  /**
   * Sets other numbers, for all, or for one group or the given keys, until `restore`, or until a declaration has other numbers than before:
   * a process that restarts with the same declaration changes nothing.
   */
  async change(name: string, numbers: LimitNumbersChange, options: LimitKeyOptions = {}): Promise<void> {
    const read = readOptions("change", NUMBERS, numbers);
    const quota = quotaFrom(read);
    if (Object.keys(quota).length === 0) {
      throw new OptionsError("change", "max", undefined, "given, or else `per`, `concurrency` or `every`");
    }
    const { rule, value: group } = await this.#find("change", name, readOptions("change", KEY_OPTIONS, options));
    checkWindow("change", { window: rule.quota.max !== null, weighs: rule.weight !== null }, read);
    if (tooSmall(changedRule(rule, quota, group), group) !== undefined) {
      const [option, value] = quota.max === undefined ? ["concurrency", quota.concurrency] : ["max", quota.max];
      const expected = `0, or at least ${rule.estimate}: what a start counts for that says nothing (\`estimate\`)`;
      throw new OptionsError("change", option, value, expected);
    }
    await this.#limits.change(rule.name, { quota, group }, this.#by);
  }

  /** Restores the declared numbers, for all groups and values. */
  async restore(name: string): Promise<void> {
    await this.#limits.change(readArgument("restore", "name", limitName, name), { restore: true }, this.#by);
  }

  /**
   * Nothing starts under it until it is resumed; with `for`, for so long, and then `group` or `keys` may say for which. Without them
   * a limit by group or keys is paused for all of them. Running jobs continue.
   */
  async pause(name: string, options: PauseOptions = {}): Promise<void> {
    const limit = readArgument("pause", "name", limitName, name);
    const { for: holdMs, ...given } = readOptions("pause", PAUSE, options);
    if (holdMs === undefined && isGiven(given)) {
      const [option, value, all] =
        given.group === undefined ? ["keys", given.keys, "values"] : ["group", given.group, "groups"];
      const expected = `left out where there is no \`for\`: all ${all} are paused together`;
      throw new OptionsError("pause", option, value, expected);
    }
    if (holdMs === undefined) await this.#limits.change(limit, { paused: true }, this.#by);
    else await this.#limits.change(limit, { holdMs, group: await this.#value("pause", limit, given) });
  }

  /** Ends a pause, a hold, or the open state of the breaker. */
  async resume(name: string): Promise<void> {
    await this.#limits.change(readArgument("resume", "name", limitName, name), { paused: false }, this.#by);
  }

  /**
   * Nothing starts until then: an instant, so long from now, or what a response asks for (a second if it does not say). It
   * only ever extends. Of a limit by group or keys: for the given ones, or without any for all of them. Returns that instant.
   */
  async hold(name: string, retry: Date | Duration | HeaderSource, options: LimitKeyOptions = {}): Promise<Date> {
    const limit = readArgument("hold", "name", limitName, name);
    const given = readOptions("hold", KEY_OPTIONS, options);
    const said = holdOf(retry, this.#clock.wall());
    if (said === undefined) {
      throw new OptionsError("hold", "retry", retry, "a Date, a duration >= 0, a Response or Headers");
    }
    const holdMs = said === 0 && typeof retry === "object" && !(retry instanceof Date) ? UNSAID_HOLD_MS : said;
    await this.#limits.change(limit, { holdMs, group: await this.#value("hold", limit, given) });
    return dateIn(this.#clock, holdMs);
  }

  /**
   * Tightens the limit to what the service says remains, from the headers of a response: of the quota named like what the
   * limit weighs, or else of requests. Where the response asks to wait, nothing starts for so long. For a limit by group
   * or keys, `group` or `keys` say for which the service answered.
   */
  async sync(name: string, source: HeaderSource | Remaining, options: LimitKeyOptions = {}): Promise<SyncResult> {
    const { rule, value: group } = await this.#find("sync", name, readOptions("sync", KEY_OPTIONS, options));
    if (rule.byGroup && group === null) {
      const names = namesOf(rule);
      const option = names.includes(GROUP) ? "group" : "keys";
      throw new OptionsError("sync", option, undefined, `given: the limit "${rule.name}" is by ${names.join(", ")}`);
    }
    const { remaining, resetMs, holdMs } = reportOn(rule, group, source, this.#clock.wall());
    const known = remaining !== undefined && resetMs !== undefined;
    if (known) await this.#limits.change(rule.name, { remaining, resetMs, group });
    if (holdMs > 0) await this.#limits.change(rule.name, { holdMs, group });
    return {
      remaining,
      resetAt: known ? dateIn(this.#clock, resetMs) : undefined,
      heldUntil: holdMs > 0 ? dateIn(this.#clock, holdMs) : undefined,
    };
  }

  /** Resets the counts and holds of one group, of the given keys or of all, but not `pause`. Slots in use stay in use. */
  async reset(name: string, options: LimitKeyOptions = {}): Promise<void> {
    const limit = readArgument("reset", "name", limitName, name);
    const given = readOptions("reset", KEY_OPTIONS, options);
    await this.#limits.change(limit, { reset: true, group: await this.#value("reset", limit, given) });
  }

  /** Removes the limit and its state. Running jobs continue. False: there was none. */
  async remove(name: string): Promise<boolean> {
    return this.#limits.remove(readArgument("remove", "name", limitName, name), this.#by);
  }

  /** A hold of all groups shows in each of them. Where none was used, an unknown one is read. */
  async #seen(state: LimitState): Promise<LimitState> {
    const { rule, states } = state;
    if (states.length > 0 || (rule.heldUntil === undefined && rule.blindUntil === undefined)) return state;
    const [again] = await this.#limits.read({ name: rule.name, group: "nobody" });
    const seen = again?.states[0];
    return seen === undefined ? state : { ...state, states: [{ ...seen, group: null }] };
  }

  /** The limit with the state of what was given. Undefined: there is no such limit. */
  async #read(owner: string, name: string, given: LimitKey): Promise<Found | undefined> {
    const guess = valueBy(namesGiven(given), given);
    const [state] = await this.#limits.read({ name, group: guess });
    if (state === undefined) return undefined;
    const value = checkedValue(owner, state.rule, given);
    // The limit is by the given keys in another order, or by more of them.
    const [own] = value === guess ? [state] : await this.#limits.read({ name, group: value });
    return own && { state: own, value };
  }

  async #find(owner: string, name: string, given: LimitKey): Promise<{ rule: LimitRule; value: string | null }> {
    const limit = readArgument(owner, "name", limitName, name);
    const found = await this.#read(owner, limit, given);
    if (found === undefined) throw new LimitNotFoundError(limit);
    return { rule: found.state.rule, value: found.value };
  }

  /** The checked value; the limit is read only where a group or keys were given. */
  async #value(owner: string, name: string, given: LimitKey): Promise<string | null> {
    return isGiven(given) ? (await this.#find(owner, name, given)).value : null;
  }
}

interface Found {
  readonly state: LimitState;
  /** The value that was asked for; null: none. */
  readonly value: string | null;
}

/** The rule with these numbers, to check it. */
function changedRule(rule: LimitRule, quota: Partial<LimitRule["quota"]>, group: string | null): LimitRule {
  if (group === null) return { ...rule, quota: { ...rule.quota, ...quota } };
  const own = Object.hasOwn(rule.groups, group) ? rule.groups[group] : undefined;
  return { ...rule, groups: { ...rule.groups, [group]: { ...own, ...quota } } };
}

function historyItem(entry: LimitHistoryEntry): LimitHistoryItem {
  return { ...entry, at: dateAt(entry.at) };
}
