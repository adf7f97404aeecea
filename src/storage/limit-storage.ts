import type { JobRecord } from "../core/job.ts";
import type { LimitChanged, LimitKept } from "../core/limit-change.ts";
import type { Reason } from "../limits/key-state.ts";
import type { LimitRule, Quota } from "../limits/rule.ts";
import type { Grant } from "./grants.ts";
import type { WorkerCounts } from "./workers.ts";

/**
 * The limits that are stored beside the jobs: named rules, and their state. They bind every claim of every worker. The names are those of
 * `rates`, too: one name is one log of starts.
 *
 * A `group` in arguments and answers is the value whose state is meant: the group, or what `valueOf` makes of the keys that the rule is by
 * (`LimitRule.by`). "By group" is said of both. Where a rule is declared to be by something else, the states of its earlier values are
 * deleted with their slots and holds, running jobs take slots of their new values, and windows are full for one window (`blindFor`).
 *
 * As with jobs, every member is one atomic step, only the clock of the storage decides, and all arguments have been checked.
 */
export interface LimitStorage {
  /**
   * Declares rules, all of them or none (`storage/declarations.ts` decides). A rule that was declared identically stays as it is, with all
   * changes since. One that was declared differently:
   * - `update`: is replaced; counted starts stay counted. If a higher version is stored it stays as it is.
   * - `keep`: stays as it is.
   * - `reject`: fails with a `LimitConflictError`, unless the version of the declaration is higher.
   *
   * With an owner, rules that only this owner declared, and no longer declares, are removed in the same step; not if a higher version of the
   * owner is stored.
   *
   * Changes are written to the history and published as events in the same step. The answer has them too, and the rules that were kept because
   * they are newer.
   */
  define(rules: readonly LimitRule[], options?: DeclareOptions): Promise<LimitsDeclared>;
  /** Removes a rule, its changes, and its state. Running jobs go on. False: there was none. */
  remove(name: string, by?: string | null): Promise<boolean>;
  /** Changes that operators and services make to a limit. They take effect at once, in all processes. `LimitNotFoundError`: there is none. */
  change(name: string, change: LimitChange, by?: string | null): Promise<void>;
  /**
   * The changes of limits, the newest first: at most the latest 100 of each limit, and 10,000 of all together. Removed limits are included.
   */
  history(query: LimitHistoryQuery): Promise<readonly LimitHistoryEntry[]>;
  /** The state of limits, by name. */
  read(query: LimitQuery): Promise<readonly LimitState[]>;

  /** Takes a permit of a limit outside of any job, if it fits; `LimitNotFoundError`: there is none. */
  take(request: LimitTake): Promise<LimitTaken>;
  /** Releases, cancels or settles permits. A token that is unknown, has ended or has expired changes nothing. */
  give(token: string, given: LimitGiven): Promise<void>;
  /** Renews permits for at least `ttlMs` from now. The answer names the tokens that are lost. */
  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]>;
}

export type OnConflict = "update" | "keep" | "reject";

export interface DeclareOptions {
  /** Default `"update"`. */
  readonly onConflict?: OnConflict | undefined;
  /** null (the default): no version, which is older than any. */
  readonly version?: number | null | undefined;
  readonly owner?: string | null | undefined;
  /** The author of the declaration, for the history. */
  readonly by?: string | null | undefined;
}

/** The effect of a declaration. */
export interface LimitsDeclared {
  readonly changes: readonly LimitChanged[];
  readonly kept: readonly LimitKept[];
}

export interface LimitHistoryQuery {
  /** Only of this limit; null: of all. */
  readonly name: string | null;
  /** At most so many. */
  readonly limit: number;
}

export interface LimitHistoryEntry extends LimitChanged {
  /** By the wall clock, in milliseconds since 1970. */
  readonly at: number;
}

export type LimitChange =
  /** Sets other numbers, until `restore`. With a group (only if the rule is by group or keys): for that value alone. */
  | { readonly quota: Partial<Quota>; readonly group: string | null }
  /** Restores the declared numbers. */
  | { readonly restore: true }
  /** Pauses the limit; or resumes it, which also ends holds and an open breaker. */
  | { readonly paused: boolean }
  /** Holds the limit for so long; with a group, that group; without one, all groups. A hold only ever extends. */
  | { readonly holdMs: number; readonly group: string | null }
  /** The service says how much remains until its window resets. Of a limit by group: for this group, or for jobs without one. */
  | { readonly remaining: number; readonly resetMs: number; readonly group: string | null }
  /** Clears counts, holds, breakers and what services said; of one group, or of all (null). Slots in use stay in use. */
  | { readonly reset: true; readonly group: string | null };

export interface LimitQuery {
  /** Only this one; null: all. */
  readonly name: string | null;
  /** Of a limit by group: this group. null: the latest used groups, at most a hundred. */
  readonly group: string | null;
}

/** A limit, as it is now. */
export interface LimitState {
  /** The rule that is in force. */
  readonly rule: LimitRule;
  /** The rule as it was declared. The same, unless an operator changed it. */
  readonly declared: LimitRule;
  /** How often it was declared anew or changed; 1 at first. */
  readonly revision: number;
  /** The version of its declaration; null: it has none. */
  readonly version: number | null;
  /** The owners that declare it. */
  readonly owners: readonly string[];
  /** How many waiting jobs it applies to. */
  readonly waiting: number;
  /** How many groups have a state; 1 for a limit that is not by group and was used. */
  readonly groups: number;
  /** One, for a limit that is not by group. */
  readonly states: readonly GroupState[];
}

/** The state of a limit for one group, or for all. */
export interface GroupState {
  readonly group: string | null;
  /** How much of the window is in use; 0 without one. */
  readonly used: number;
  /** How many of its slots are in use. */
  readonly held: number;
  /** How much is available now: 0 if anything blocks; null: unlimited. */
  readonly free: number | null;
  /** When one more could start: 0 is now; null: after a release, a resume or a change. */
  readonly nextInMs: number | null;
  /** What blocks one more, the longest of several; null: nothing. */
  readonly reason: Reason | null;
  /** How long it is held because a service asked for that; 0: it is not. */
  readonly heldForMs: number;
  readonly breaker: "closed" | "open" | "half-open";
}

export interface LimitTake {
  readonly name: string;
  /** Ignored if the limit is not by group. */
  readonly group: string | null;
  /**
   * The names that `group` is the value of, where "group" is the group (`namesOf`). If the limit is by others, or by the same in another
   * order, nothing is taken, and the answer says by which. Left out: not checked.
   */
  readonly by?: readonly string[] | undefined;
  /** null: the estimate of the rule. 0 takes nothing: it asks whether the present use fits. */
  readonly weight: number | null;
  /** Only asks whether it fits, and takes nothing; a grant then has an empty token. */
  readonly dry?: boolean;
  /** Slots are released after this, unless the permit is renewed. */
  readonly ttlMs: number;
  /** The call is made within so long of the first sending of this request, or never, and is confirmed; as in a claim. */
  readonly grantTtlMs?: number | undefined;
}

export type LimitTaken =
  | {
      readonly granted: true;
      readonly token: string;
      /** The permit holds slots, and has to be renewed and released. */
      readonly held: boolean;
      /** The grant to confirm, if any. */
      readonly grant?: Grant | undefined;
    }
  | {
      readonly granted: false;
      /** null: after a release. */
      readonly retryInMs: number | null;
      /** The largest weight that can ever fit, if this is more; else null. */
      readonly most: number | null;
      /** Refused because `LimitTake.by` was wrong: the names that the limit is by; none: it is not by group. */
      readonly by?: readonly string[] | undefined;
    };

export type LimitGiven =
  /** The work ended. */
  | "released"
  /** The work never started. */
  | "cancelled"
  /** The work used so much. Slots stay in use. */
  | { readonly used: number };

/** All that decides when a job can start, at one instant: `explainJob` makes its explanation from this. */
export interface StartConditions {
  readonly job: JobRecord;
  /** By the clock of the storage. */
  readonly now: number;
  readonly queuePaused: boolean;
  readonly typePaused: boolean;
  /** Live workers of its queue, and those of them that handle its type. */
  readonly workers: WorkerCounts;
  /**
   * Waiting jobs that start before it if nothing blocks them, counted up to 10,000 of each: of a higher priority; of its own priority and
   * group; of these, those of its own type; of other groups of its priority, those that have their turn before it.
   */
  readonly ahead: { readonly higher: number; readonly group: number; readonly lane: number; readonly turns: number };
  /** Every limit that applies to it, and what its start would be charged. */
  readonly limits: readonly LimitCondition[];
}

/** What one limit says about the start of a job. */
export interface LimitCondition {
  readonly rule: LimitRule;
  /** The value whose state applies (`valueOf`); null: the limit is not by group, or the job has none. */
  readonly group: string | null;
  /** The charge of the job, which has to fit: to the window if there is one, else to the concurrency. */
  readonly weight: number;
  readonly used: number;
  readonly held: number;
  /**
   * When the job fits, if the jobs that certainly start before it do so as soon as they can (`startsBefore` in
   * `limits/behind.ts`): 0 is now; null: after a release, a resume or a change.
   */
  readonly waitMs: number | null;
  readonly reason: Reason | null;
  /** The largest weight that can ever fit, if the job has more; else null. */
  readonly most: number | null;
}

/** The jobs of a queue that have not started, and their limits. */
export interface Backlog {
  readonly queue: string;
  readonly paused: boolean;
  readonly types: readonly TypeBacklog[];
  /** Every limit that applies to one of the types. */
  readonly limits: readonly LimitState[];
}

export interface TypeBacklog {
  readonly type: string;
  readonly paused: boolean;
  /** How many live workers handle it. */
  readonly workers: number;
  readonly waiting: number;
  readonly scheduled: number;
  readonly active: number;
  /** How many groups have waiting jobs; jobs without a group are one group. */
  readonly groups: number;
  /** How many jobs of the largest group wait. */
  readonly mostInGroup: number;
  /** The weights of waiting jobs, by name: which part of the jobs has one, and its average. Of the first thousand. */
  readonly weights: Readonly<Record<string, { readonly part: number; readonly mean: number }>>;
  /** How long the latest completed jobs of the type ran, on average; null: there are none. */
  readonly ranMs: number | null;
}
