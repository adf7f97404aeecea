import { OptionsError } from "../core/errors.ts";
import { GROUP } from "../core/job-keys.ts";
import { nameText } from "../core/names.ts";
import {
  anything,
  type Check,
  countOrZero,
  durationOrZero,
  isPlain,
  oneOf,
  optional,
  type OptionsRead,
  positiveDuration,
  readArgument,
  readOptions,
  required,
  smallCount,
  weight,
  yes,
} from "../core/options.ts";
import type { DefineLimitsOptions, LimitDefinitions } from "./definition.ts";
import {
  areSameNames,
  type BreakerRule,
  type GroupRule,
  type LimitRule,
  mostOf,
  namesOf,
  type Quota,
  quotaOf,
  weighed,
} from "./rule.ts";

/** Limits that were checked, ready to be given to a storage, a worker or a queue. */
export interface DefinedLimits {
  readonly rules: readonly LimitRule[];
  readonly onConflict: "update" | "keep" | "reject";
  /** null: none. */
  readonly version: number | null;
  /** null: none. */
  readonly owner: string | null;
}

/** What `defineLimits` has made. Nothing else has been checked. */
const made = new WeakSet<object>();

/**
 * Checks limits, all of them. Nothing is kept yet: give what this returns to a worker or a queue (`limits`), or to
 * `Limits.define`. From then on they bind every worker of that storage.
 */
export function defineLimits(definitions: LimitDefinitions, options: DefineLimitsOptions = {}): DefinedLimits {
  const owner = "defineLimits";
  const { onConflict, version = null, owner: whose = null } = readOptions(owner, DEFINE_OPTIONS, options);
  return defined(owner, definitions, { onConflict, version, owner: whose });
}

/** Reads the `limits` option: the result of `defineLimits`, or plain definitions. */
export function readLimits(owner: string, value: unknown): DefinedLimits {
  if (typeof value === "object" && value !== null && made.has(value)) return value as DefinedLimits;
  return defined(owner, value, { onConflict: "update", version: null, owner: null });
}

/** The check of that option. */
export const limitsOption = (owner: string): Check<DefinedLimits> => ({
  expected: "what defineLimits() gives, or an object of limits by name",
  read: (value) => (typeof value === "object" && value !== null ? readLimits(owner, value) : undefined),
});

/** Limits that this process has declared already. */
const declaredAlready = new WeakSet<DefinedLimits>();

/**
 * The same limits for a further worker of a process that has declared them. The worker knows their names and declares nothing,
 * because a second declaration would undo changes made since.
 */
export function alreadyDeclared(limits: DefinedLimits): DefinedLimits {
  const known = Object.freeze({ ...limits });
  made.add(known);
  declaredAlready.add(known);
  return known;
}

export function isDeclared(limits: DefinedLimits): boolean {
  return declaredAlready.has(limits);
}

/** Names that begin like this belong to the `{ max, duration }` of workers. */
const RESERVED = "queue:";

/** The name of a limit. */
export const limitName: Check<string> = {
  expected: `${nameText.expected}, that does not begin with "${RESERVED}"`,
  read: (value) => {
    const read = nameText.read(value);
    return read?.startsWith(RESERVED) ? undefined : read;
  },
};

/** Names in whatever order, each once: the same words are the same declaration. */
const names: Check<readonly string[]> = {
  expected: `an array of names, at least one (each ${nameText.expected})`,
  read: (value) => {
    if (!Array.isArray(value) || value.length === 0) return undefined;
    const read = Array.from(value, (one: unknown) => nameText.read(one));
    const right = read.filter((one) => one !== undefined);
    return right.length === read.length ? [...new Set(right)].toSorted() : undefined;
  },
};

/** So many names a limit is by at the most. */
const MOST_NAMES = 8;

/** What a limit is by, in the order in which it was given: values are joined in that order. */
const by: Check<readonly string[]> = {
  expected: `"${GROUP}", the name of a key of jobs, or an array of 1 to ${MOST_NAMES} different names (each ${nameText.expected})`,
  read: (value) => {
    const given: readonly unknown[] = Array.isArray(value) ? value : [value];
    const read = Array.from(given, (one) => nameText.read(one)).filter((one) => one !== undefined);
    const right = read.length === given.length && new Set(read).size === read.length;
    return right && read.length >= 1 && read.length <= MOST_NAMES ? read : undefined;
  },
};

export const DEFINE_OPTIONS = {
  onConflict: optional(oneOf("update", "keep", "reject"), "update"),
  version: optional(countOrZero),
  owner: optional(nameText),
};

const NUMBERS = {
  max: optional(countOrZero),
  per: optional(positiveDuration),
  concurrency: optional(countOrZero),
  every: optional(positiveDuration),
};

const RULES = {
  ...NUMBERS,
  guard: optional(durationOrZero),
  types: optional(names),
  queues: optional(names),
  by: optional(by),
  all: optional(yes),
  weight: optional(nameText),
  estimate: optional(weight),
  overrides: optional(anything),
  breaker: optional(anything),
};

const OVERRIDE = { ...NUMBERS, share: optional(smallCount) };

const BREAKER = {
  failures: required(smallCount),
  open: required(positiveDuration),
  probes: optional(smallCount, 1),
  kinds: optional(names),
};

type Read = OptionsRead<typeof RULES>;

function defined(owner: string, definitions: unknown, options: Omit<DefinedLimits, "rules">): DefinedLimits {
  const expected = "what defineLimits() gives, or a plain object of limits by name";
  const rules = entriesOf(owner, "limits", definitions, expected).map(([name, definition]) =>
    ruleOf(owner, readArgument(owner, "name of a limit", limitName, name), definition),
  );
  const limits = frozen({ rules, ...options });
  made.add(limits);
  return limits;
}

function ruleOf(within: string, name: string, definition: unknown): LimitRule {
  const owner = `${within} limits.${name}`;
  const read = readOptions(owner, RULES, definition);
  checkAmount(owner, read);
  checkScope(owner, read);
  const { types = null, queues = null, by: counted, weight: weighs = null, estimate = 1, overrides, breaker } = read;
  if (read.estimate !== undefined && weighs === null) {
    throw new OptionsError(owner, "estimate", estimate, "left out where there is no `weight`");
  }
  const rule: LimitRule = {
    name,
    quota: {
      max: read.max ?? null,
      windowMs: read.per === undefined ? null : read.per + (read.guard ?? 0),
      concurrency: read.concurrency ?? null,
      everyMs: read.every ?? null,
    },
    types,
    queues,
    byGroup: counted !== undefined,
    // By the group alone is said by `byGroup`, so that it is the same declaration however it is written.
    ...(counted !== undefined && !areSameNames(counted, [GROUP]) && { by: counted }),
    groups: overrides === undefined ? {} : groupsOf(owner, overrides, read),
    weight: weighs,
    estimate,
    breaker: breaker === undefined ? null : breakerOf(owner, breaker),
    paused: false,
  };
  for (const group of [null, ...Object.keys(rule.groups)]) checkEstimate(owner, rule, group);
  return rule;
}

/** The most that can ever fit, if the estimate exceeds it; undefined: the estimate fits. */
export function tooSmall(rule: LimitRule, group: string | null): number | undefined {
  return rule.weight === null ? undefined : mostOf(quotaOf(rule, group), weighed(rule.quota, rule.estimate));
}

function checkEstimate(owner: string, rule: LimitRule, group: string | null): void {
  const most = tooSmall(rule, group);
  if (most === undefined) return;
  const where = group === null ? "" : ` for the ${namesOf(rule).join(", ")} "${group}"`;
  throw new OptionsError(owner, "estimate", rule.estimate, `at most ${most}, all that ever fits${where}`);
}

function checkAmount(owner: string, { max, per, guard, concurrency, every, weight: weighs }: Read): void {
  if (max !== undefined && per === undefined) {
    throw new OptionsError(
      owner,
      "per",
      per,
      "given together with `max`: at most so much in any window of this length",
    );
  }
  if (per !== undefined && max === undefined) {
    throw new OptionsError(
      owner,
      "max",
      max,
      "given together with `per`: at most so much in any window of that length",
    );
  }
  if (max === undefined && concurrency === undefined && every === undefined) {
    throw new OptionsError(owner, "max", max, "given together with `per`, or else `concurrency` or `every`");
  }
  if (guard !== undefined && max === undefined) {
    throw new OptionsError(owner, "guard", guard, "left out where there is no window (`max` and `per`)");
  }
  if (weighs !== undefined && max === undefined && concurrency === undefined) {
    throw new OptionsError(owner, "weight", weighs, "left out where there is neither `max` nor `concurrency` to weigh");
  }
}

function checkScope(owner: string, { all, types, queues, by: counted, overrides }: Read): void {
  const scoped = types !== undefined || queues !== undefined || counted !== undefined;
  if (all === undefined && !scoped) {
    throw new OptionsError(
      owner,
      "all",
      all,
      "true where none of `types`, `queues` and `by` says for which jobs it holds",
    );
  }
  if (all !== undefined && scoped) {
    throw new OptionsError(owner, "all", all, "left out where `types`, `queues` or `by` says for which jobs it holds");
  }
  if (overrides !== undefined && counted?.length !== 1) {
    const where = counted === undefined ? 'is no `by`, such as `by: "group"`' : "are several names in `by`";
    throw new OptionsError(owner, "overrides", overrides, `left out where there ${where}`);
  }
}

function groupsOf(owner: string, overrides: unknown, base: Read): Readonly<Record<string, GroupRule>> {
  const of = base.by![0]!;
  const groups = entriesOf(owner, "overrides", overrides, "a plain object of names").map(
    ([name, given]): [string, GroupRule] => {
      const group = readArgument(owner, `name of a ${of} in \`overrides\``, nameText, name);
      const own = `${owner}.overrides.${group}`;
      const read = readOptions(own, OVERRIDE, given);
      if (Object.values(read).every((value) => value === undefined)) {
        throw new OptionsError(own, "max", undefined, "given, or else `per`, `concurrency`, `every` or `share`");
      }
      if (read.share !== undefined && of !== GROUP) {
        throw new OptionsError(
          own,
          "share",
          read.share,
          'left out where it is not `by: "group"`: only groups take turns',
        );
      }
      checkWindow(own, { window: base.max !== undefined, weighs: base.weight !== undefined }, read);
      const per = read.per === undefined ? undefined : read.per + (base.guard ?? 0);
      const share = read.share === undefined ? {} : { share: read.share };
      return [group, { ...quotaFrom({ ...read, per }), ...share }];
    },
  );
  return Object.fromEntries(groups);
}

/** Numbers for a window, where the limit may have none of its own. */
export function checkWindow(
  owner: string,
  limit: { readonly window: boolean; readonly weighs: boolean },
  { max, per }: { readonly max: number | undefined; readonly per: number | undefined },
): void {
  if (limit.window || (max === undefined && per === undefined)) return;
  if (limit.weighs) {
    const [option, value] = max === undefined ? ["per", per] : ["max", max];
    throw new OptionsError(owner, option, value, "left out where it is the concurrency that is weighed");
  }
  if (max === undefined || per === undefined) {
    const option = max === undefined ? "max" : "per";
    throw new OptionsError(owner, option, undefined, "given too: the limit has no window of its own");
  }
}

/** Only what is given. */
export function quotaFrom(read: {
  readonly max: number | undefined;
  readonly per: number | undefined;
  readonly concurrency: number | undefined;
  readonly every: number | undefined;
}): Partial<Quota> {
  const quota = { max: read.max, windowMs: read.per, concurrency: read.concurrency, everyMs: read.every };
  return Object.fromEntries(Object.entries(quota).filter(([, value]) => value !== undefined));
}

function breakerOf(owner: string, given: unknown): BreakerRule {
  const { failures, open, probes, kinds } = readOptions(`${owner}.breaker`, BREAKER, given);
  return { failures, openMs: open, probes, kinds: kinds ?? null };
}

/** The entries of an object whose keys are names chosen by the user. */
function entriesOf(owner: string, option: string, given: unknown, expected: string): [string, unknown][] {
  if (!isPlain(given) || Symbol.iterator in given) throw new OptionsError(owner, option, given, expected);
  return Object.entries(given);
}

/** Deep-frozen, so that checked limits cannot be changed later. */
function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}
