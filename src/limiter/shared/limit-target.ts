import { OptionsError } from "../../core/errors.ts";
import { GROUP, jobKeys, someKeys } from "../../core/job-keys.ts";
import type { JobKeys } from "../../core/job.ts";
import { nameText } from "../../core/names.ts";
import { optional, type OptionsRead } from "../../core/options.ts";
import { type LimitRule, namesOf, valueOf } from "../../limits/rule.ts";
import { textOfKeys } from "../../storage/kept.ts";
import type { LimitStorage, LimitTake, LimitTaken } from "../../storage/limit-storage.ts";

/** Which state of a limit is meant, where the limit is by group or keys: that of jobs with this group and these keys. */
export interface LimitKeyOptions {
  /** Of a limit `by: "group"`, or by the group and keys. */
  readonly group?: string | undefined;
  /** Of a limit by keys, such as `by: "tenant"`: `{ tenant: "acme" }`. */
  readonly keys?: JobKeys | undefined;
}

export const KEY_OPTIONS = { group: optional(nameText), keys: optional(jobKeys) };

/** The checked options. */
export type LimitKey = OptionsRead<typeof KEY_OPTIONS>;

/** Were a group or keys given? */
export const isGiven = ({ group, keys }: LimitKey): boolean => group !== undefined || someKeys(keys) !== undefined;

/** The value of a limit that is by these names; null: the limit is by none, or nothing of it was given. */
export function valueBy(names: readonly string[], { group, keys }: LimitKey): string | null {
  return valueOf({ byGroup: names.length > 0, by: names }, { group: group ?? null, keys });
}

/** The names that were given: the limit is probably by these. */
export function namesGiven({ group, keys = {} }: LimitKey): readonly string[] {
  return [...(group === undefined ? [] : [GROUP]), ...Object.keys(keys)];
}

/** Refuses a group or a key that the limit is not by: another state than the meant one would be used. */
export function refuseOthers(
  owner: string,
  limit: string,
  names: readonly string[],
  { group, keys = {} }: LimitKey,
): void {
  const expected = `left out: the limit "${limit}" is ${names.length === 0 ? "not by group or keys" : `by ${names.join(", ")}`}`;
  if (group !== undefined && !names.includes(GROUP)) throw new OptionsError(owner, "group", group, expected);
  for (const [name, value] of Object.entries(keys)) {
    if (!names.includes(name)) throw new OptionsError(owner, `keys.${name}`, value, expected);
  }
}

/** The value under a rule, of options that fit it. */
export function checkedValue(owner: string, rule: LimitRule, given: LimitKey): string | null {
  refuseOthers(owner, rule.name, namesOf(rule), given);
  return valueBy(namesOf(rule), given);
}

/**
 * The state of a limit that a limiter uses. A storage is asked for a value; which names it is made from is known only to the storage, and
 * may change: it says so where it was asked for the value of other names.
 */
export class LimitTarget {
  readonly limit: string;
  readonly given: LimitKey;
  readonly #owner: string;
  #names: readonly string[];

  constructor(owner: string, limit: string, given: LimitKey) {
    this.#owner = owner;
    this.limit = limit;
    this.given = { group: given.group, keys: someKeys(given.keys) };
    this.#names = namesGiven(this.given);
  }

  /** The value, as far as it is known by which names the limit is. */
  get value(): string | null {
    return valueBy(this.#names, this.given);
  }

  /** The same for the same limit, group and keys. */
  get id(): string {
    const { group, keys } = this.given;
    return JSON.stringify([this.limit, group, keys && textOfKeys(keys)]);
  }

  async take(limits: LimitStorage, request: Omit<LimitTake, "name" | "group" | "by">): Promise<LimitTaken> {
    const name = this.limit;
    if (!isGiven(this.given)) return limits.take({ ...request, name, group: null });
    const ask = () => limits.take({ ...request, name, group: this.value, by: this.#names });
    const taken = await ask();
    if (taken.granted || taken.by === undefined) return taken;
    this.#learn(taken.by);
    return ask();
  }

  /** The value, of which the storage is asked where a group or keys were given. */
  async found(limits: LimitStorage): Promise<string | null> {
    if (isGiven(this.given)) await this.take(limits, { weight: 0, dry: true, ttlMs: 1 });
    return this.value;
  }

  #learn(names: readonly string[]): void {
    // A group means nothing to a limit that has one state for all, and is ignored.
    const { keys } = this.given;
    refuseOthers(this.#owner, this.limit, names, names.length === 0 ? { group: undefined, keys } : this.given);
    this.#names = names;
  }
}
