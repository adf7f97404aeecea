import type { Duration } from "../core/duration.ts";

/** Limits by name, as written in user code. */
export type LimitDefinitions = Readonly<Record<string, LimitDefinition>>;

/**
 * One limit, as written in user code: how much may happen (`max` and `per`, `concurrency`, `every`, or several of them), for
 * which jobs (`types`, `queues`, `by`, or `all: true`), and what a start counts for (`weight`).
 */
export type LimitDefinition = LimitAmount & LimitScope & { readonly breaker?: BreakerDefinition | undefined };

/** The same with every property optional. */
type Maybe<T> = { readonly [Key in keyof T]?: T[Key] | undefined };

/** How much may happen: at least one of a window, concurrency and spacing. */
export type LimitAmount =
  | (WindowAmount & Maybe<ConcurrentAmount> & Maybe<SpacedAmount> & LimitWeight)
  | (NoWindow & ConcurrentAmount & Maybe<SpacedAmount> & LimitWeight)
  | (NoWindow & { readonly concurrency?: undefined } & SpacedAmount & NoWeight);

export interface WindowAmount {
  /** At most so much … An integer; 0 is a limit that lets nothing start until that is changed. */
  readonly max: number;
  /** … in any window of this length. */
  readonly per: Duration;
  /** Added to the window, for starts that reach the service closer together than they were made. Default 0. */
  readonly guard?: Duration | undefined;
}

interface NoWindow {
  readonly max?: undefined;
  readonly per?: undefined;
  readonly guard?: undefined;
}

export interface ConcurrentAmount {
  /** At most so much at the same time. An integer; 0 is a limit that lets nothing start until that is changed. */
  readonly concurrency: number;
}

export interface SpacedAmount {
  /** At least so long from one start to the next. */
  readonly every: Duration;
}

/** What a start counts for: one, or what its job says. */
export type LimitWeight = NoWeight | WeightByName;

interface NoWeight {
  readonly weight?: undefined;
  readonly estimate?: undefined;
}

export interface WeightByName {
  /**
   * A start counts for what the job's `weights` say under this name. Where there is a window that is what is weighed, and
   * concurrency counts starts ("200,000 tokens a minute, 5 at a time"); without one concurrency is ("16 GB of memory").
   */
  readonly weight: string;
  /** What a start counts for when its job gives no weight. An integer from 1 to the `max` of every group or value. Default 1. */
  readonly estimate?: number | undefined;
}

/** For which jobs it holds. */
export type LimitScope = LimitForAll | LimitForSome | LimitByGroup | LimitByKey | LimitByKeys;

interface LimitForAll {
  /** It holds for all jobs of all queues. It must be given explicitly, because a forgotten scope would be dangerous. */
  readonly all: true;
  readonly types?: undefined;
  readonly queues?: undefined;
  readonly by?: undefined;
  readonly overrides?: undefined;
}

/** Some types, some queues, or some types in some queues. */
type LimitForSome = NotByGroup & (OfTypes | (OfQueues & { readonly types?: undefined }));

interface NotByGroup {
  readonly all?: undefined;
  readonly by?: undefined;
  readonly overrides?: undefined;
}

interface OfTypes extends Maybe<OfQueues> {
  /** It holds for jobs of these types. Default: of any, if `queues`, `by` or `all` says which. */
  readonly types: readonly string[];
}

interface OfQueues {
  /** It holds for jobs of these queues. Default: of any. */
  readonly queues: readonly string[];
}

interface By extends Maybe<OfQueues> {
  readonly all?: undefined;
  readonly types?: readonly string[] | undefined;
}

interface LimitByGroup extends By {
  /** Every group has the whole limit for itself. Jobs without a group share one. */
  readonly by: "group" | readonly ["group"];
  /** What is different for some groups. */
  readonly overrides?: Readonly<Record<string, LimitOverride>> | undefined;
}

interface LimitByKey extends By {
  /** Every value that jobs have under this name in their `keys` has the whole limit for itself. Jobs without that key share one. */
  readonly by: string | readonly [string];
  /** What is different for some values of the key. */
  readonly overrides?: Readonly<Record<string, LimitOverride & { readonly share?: undefined }>> | undefined;
}

interface LimitByKeys extends By {
  /**
   * Every combination of values that jobs have under these names in their `keys`, where `"group"` is their group, has the whole limit
   * for itself. Jobs that have none of them share one. At most 8 different names.
   */
  readonly by: readonly string[];
  readonly overrides?: undefined;
}

/** What is different for one group, or for one value of a key. What is left out is as for all. At least one of them. */
export interface LimitOverride {
  /** Where the limit has no window of its own, together with `per`. */
  readonly max?: number | undefined;
  /** The `guard` of the limit is added to it. */
  readonly per?: Duration | undefined;
  readonly concurrency?: number | undefined;
  readonly every?: Duration | undefined;
  /** Only by group: how many jobs the group starts at each of its turns. An integer from 1 to 2,147,483,647. Default 1. */
  readonly share?: number | undefined;
}

/** After so many failures in a row nothing starts for a while; then a few probes decide. */
export interface BreakerDefinition {
  /** So many in a row. An integer from 1 to 2,147,483,647. */
  readonly failures: number;
  /** How long nothing starts then. */
  readonly open: Duration;
  /** How many may run at a time after that, until one of them succeeds. An integer from 1 to 2,147,483,647. Default 1. */
  readonly probes?: number | undefined;
  /** Names or codes of the errors that count. Default: any. */
  readonly kinds?: readonly string[] | undefined;
}

export interface DefineLimitsOptions {
  /**
   * What to do about a limit that is stored already and was declared in other words. `"update"` (the default): this declaration
   * holds, being the newest; what was counted stays counted, and an event reports the change. `"keep"`: the stored rule holds.
   * `"reject"`: fail with a `LimitConflictError`, unless `version` is higher than the stored one.
   */
  readonly onConflict?: "update" | "keep" | "reject" | undefined;
  /**
   * The version of these limits, an integer >= 0: raise it whenever you change them. A declaration never replaces one of a higher
   * version, so that old processes of a rolling deploy go on under the new limits, even if they start again. Default: none,
   * which is older than any.
   */
  readonly version?: number | undefined;
  /**
   * The name of what declares these limits, such as a service. Limits that this owner declared before, and that are not among
   * these, are removed, unless another owner declares them too. Default: none; nothing is removed.
   */
  readonly owner?: string | undefined;
}
