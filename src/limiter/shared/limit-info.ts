import { type Clock, dateIn } from "../../core/clock.ts";
import type { Reason } from "../../limits/key-state.ts";
import { type GroupRule, type LimitRule, namesOf, type Quota, quotaOf } from "../../limits/rule.ts";
import type { GroupState, LimitState } from "../../storage/limit-storage.ts";

/** The numbers of a limit. undefined: not limited in this way. */
export interface LimitNumbers {
  /** At most so much … */
  readonly max: number | undefined;
  /** … in any window of so many milliseconds, `guard` included. */
  readonly per: number | undefined;
  /** At most so much at the same time. */
  readonly concurrency: number | undefined;
  /** At least so many milliseconds from one start to the next. */
  readonly every: number | undefined;
}

/** How much of a limit is in use: by one group or value of its keys, or by all. */
export interface LimitUse extends LimitNumbers {
  /**
   * What is counted for: the group, or of a limit by keys the value of the key; of several their values, joined by commas in the order of
   * `by`. undefined: the limit is not by group or keys, or these are the jobs without any.
   */
  readonly group: string | undefined;
  /** How much of the window is in use. */
  readonly used: number;
  /** How many slots of `concurrency` are in use. */
  readonly held: number;
  /** How much could start at once: 0 if there is any blocker; Infinity: no bound. */
  readonly free: number;
  /** When one more could start. undefined: when something is released, resumed or changed. */
  readonly availableAt: Date | undefined;
  /** The reason that blocks one more the longest; undefined: none. */
  readonly blockedBy: Reason | undefined;
  /** The end of a hold, set by a service or by hand; undefined: there is none. */
  readonly pausedUntil: Date | undefined;
  readonly breaker: "closed" | "open" | "half-open";
}

/**
 * A limit, as it is now. Use is that of the requested group or keys; of a limit by group or keys, where none were requested, that
 * of the fullest of `groups`.
 */
export interface LimitInfo extends LimitUse {
  readonly name: string;
  /** Paused by an operator until it is resumed. */
  readonly paused: boolean;
  /** How many jobs wait that it applies to. */
  readonly waiting: number;
  /** It holds for jobs of these types; undefined: of any. */
  readonly types: readonly string[] | undefined;
  /** It holds for jobs of these queues; undefined: of any. */
  readonly queues: readonly string[] | undefined;
  /** Every group (`"group"`), every value of a key (its name), or every combination of several has the whole limit for itself. */
  readonly by: string | readonly string[] | undefined;
  /** What a start counts for is what its job says under this name; undefined: one. */
  readonly weight: string | undefined;
  /** What a start without a weight counts for. */
  readonly estimate: number;
  /** What is different for some groups, or values of the key. */
  readonly overrides: Readonly<Record<string, LimitNumbers & { readonly share: number }>>;
  /** The numbers as they were declared. */
  readonly declared: LimitNumbers;
  /** Has a number been changed by hand, and not restored? */
  readonly changed: boolean;
  /** How often it was declared anew or changed; 1 at first. */
  readonly revision: number;
  /** The `version` of its declaration; undefined: it has none. */
  readonly version: number | undefined;
  /** The owners that declare it; none: only `remove` ends it. */
  readonly owners: readonly string[];
  /** How many groups or values have a limit state; 1 for a limit that is for all and was used. */
  readonly groupCount: number;
  /** Of a limit by group or keys: the values that were used last, at most a hundred, or the requested one. */
  readonly groups: readonly LimitUse[];
}

/** The public view of a stored limit. */
export function limitInfo(state: LimitState, clock: Clock, asked: string | null): LimitInfo {
  const { rule, declared, revision, version, owners, waiting } = state;
  const group = rule.byGroup ? asked : null;
  const uses = state.states.map((one) => useOf(rule, one, clock));
  const own = uses.find((use) => use.group === (group ?? undefined));
  const use = (rule.byGroup && asked === null ? fullest(uses) : own) ?? useOf(rule, idle(rule, group), clock);
  return {
    ...use,
    name: rule.name,
    paused: rule.paused,
    waiting,
    types: rule.types ?? undefined,
    queues: rule.queues ?? undefined,
    by: byOf(rule),
    weight: rule.weight ?? undefined,
    estimate: rule.estimate,
    overrides: overridesOf(rule),
    declared: numbersOf(declared.quota),
    changed: isChanged(state),
    revision,
    version: version ?? undefined,
    owners,
    groupCount: state.groups,
    groups: rule.byGroup ? uses : [],
  };
}

/** As it is declared. */
function byOf(rule: LimitRule): LimitInfo["by"] {
  const names = namesOf(rule);
  return names.length > 1 ? names : names[0];
}

function useOf(rule: LimitRule, state: GroupState, clock: Clock): LimitUse {
  const { group, used, held, free, nextInMs, reason, heldForMs, breaker } = state;
  return {
    ...numbersOf(quotaOf(rule, group)),
    group: group ?? undefined,
    used,
    held,
    free: free ?? Number.POSITIVE_INFINITY,
    // A slot in use returns with its release; the instant of its expiry is no estimate of that.
    availableAt: nextInMs === null || reason === "concurrency" ? undefined : dateIn(clock, nextInMs),
    blockedBy: reason ?? undefined,
    pausedUntil: heldForMs > 0 ? dateIn(clock, heldForMs) : undefined,
    breaker,
  };
}

function numbersOf({ max, windowMs, concurrency, everyMs }: Quota): LimitNumbers {
  return {
    max: max ?? undefined,
    per: windowMs ?? undefined,
    concurrency: concurrency ?? undefined,
    every: everyMs ?? undefined,
  };
}

function overridesOf(rule: LimitRule): LimitInfo["overrides"] {
  const entries = Object.entries(rule.groups).map(([group, { share = 1 }]: [string, GroupRule]) => {
    return [group, { ...numbersOf(quotaOf(rule, group)), share }] as const;
  });
  return Object.fromEntries(entries);
}

/** Was a number changed by hand, for all or for one group, and not restored? */
export function isChanged({ rule, declared }: LimitState): boolean {
  const groups = new Set([...Object.keys(rule.groups), ...Object.keys(declared.groups)]);
  return [null, ...groups].some((group) => {
    const [is, was] = [quotaOf(rule, group), quotaOf(declared, group)];
    return (Object.keys(is) as (keyof Quota)[]).some((key) => is[key] !== was[key]);
  });
}

/** The state that is closest to its limit. */
function fullest(uses: readonly LimitUse[]): LimitUse | undefined {
  const fullness = ({ max, concurrency, used, held, blockedBy }: LimitUse) =>
    (blockedBy === undefined ? 0 : 1) + Math.max(max ? used / max : 0, concurrency ? held / concurrency : 0);
  return uses.toSorted((a, b) => fullness(b) - fullness(a))[0];
}

/** The view of a group for which nothing was counted. */
function idle(rule: LimitRule, group: string | null): GroupState {
  const { max, concurrency, everyMs } = quotaOf(rule, group);
  const free = rule.paused ? 0 : (max ?? concurrency ?? (everyMs === null ? null : 1));
  const stopped = free === 0;
  return {
    group,
    used: 0,
    held: 0,
    free,
    nextInMs: stopped ? null : 0,
    reason: rule.paused ? "paused" : stopped ? (max === 0 ? "window" : "concurrency") : null,
    heldForMs: 0,
    breaker: "closed",
  };
}
