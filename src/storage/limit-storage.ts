import type { JobRecord } from "../core/job.ts";
import type { LimitChanged, LimitKept } from "../core/limit-change.ts";
import type { Reason } from "../limits/key-state.ts";
import type { LimitRule, Quota } from "../limits/rule.ts";
import type { Grant } from "./grants.ts";
import type { WorkerCounts } from "./workers.ts";

/**
 * The limits that are kept beside the jobs: named rules, and what was counted under them. They bind every claim, whoever
 * makes it. Names are those of `rates`, too: one name is one log of starts.
 *
 * As with jobs, every member is one atomic step, only the clock of the storage decides, and what comes in has been checked.
 */
export interface LimitStorage {
  /**
   * Declares rules, all of them or none (`storage/declarations.ts` decides). A rule that was declared in the same words is left
   * as it is, with all that was changed since. One that was declared in other words:
   * - `update`: is replaced; what was counted stays counted. Where a higher version is stored it is left as it is.
   * - `keep`: is left as it is.
   * - `reject`: fails with a `LimitConflictError`, unless the version of the declaration is higher.
   *
   * With an owner, rules that only this owner declared, and does not declare any more, are removed in the same step; not where a
   * higher version of the owner was seen.
   *
   * What was changed is kept as history and told as an event in the same step. The answer says it too, and what was left as it
   * is because it is newer.
   */
  define(rules: readonly LimitRule[], options?: DeclareOptions): Promise<LimitsDeclared>;
  /** Forgets a rule, what was changed about it, and all that was counted. Jobs that run go on. False: there was none. */
  remove(name: string, by?: string | null): Promise<boolean>;
  /** What people and services do to a limit. Takes effect at once, everywhere. `LimitNotFoundError`: there is none. */
  change(name: string, change: LimitChange, by?: string | null): Promise<void>;
  /**
   * What was changed, the newest first: the latest 100 of each limit, and 10,000 of all together, at the most. Limits that were
   * removed are in it.
   */
  history(query: LimitHistoryQuery): Promise<readonly LimitHistoryEntry[]>;
  /** What there is of limits, by name. */
  read(query: LimitQuery): Promise<readonly LimitState[]>;

  /** Takes of a limit outside of any job, if it fits; `LimitNotFoundError`: there is none. */
  take(request: LimitTake): Promise<LimitTaken>;
  /** Ends, takes back or corrects what was taken. A token that is unknown, has ended or has expired changes nothing. */
  give(token: string, given: LimitGiven): Promise<void>;
  /** Keeps what is held for `ttlMs` from now at least. The answer names the tokens that are lost. */
  renew(tokens: readonly string[], ttlMs: number): Promise<readonly string[]>;
}

export type OnConflict = "update" | "keep" | "reject";

export interface DeclareOptions {
  /** Default `"update"`. */
  readonly onConflict?: OnConflict | undefined;
  /** null (the default): none, which is older than any. */
  readonly version?: number | null | undefined;
  readonly owner?: string | null | undefined;
  /** Who declares, for the history. */
  readonly by?: string | null | undefined;
}

/** What a declaration came to. */
export interface LimitsDeclared {
  readonly changes: readonly LimitChanged[];
  readonly kept: readonly LimitKept[];
}

export interface LimitHistoryQuery {
  /** Only of this limit; null: of all. */
  readonly name: string | null;
  /** So many at the most. */
  readonly limit: number;
}

export interface LimitHistoryEntry extends LimitChanged {
  /** By the wall clock, in milliseconds since 1970. */
  readonly at: number;
}

export type LimitChange =
  /** Other numbers, until `restore`. With a group (only where the rule is by group): for that group alone. */
  | { readonly quota: Partial<Quota>; readonly group: string | null }
  /** As it was declared. */
  | { readonly restore: true }
  /** Stopped by hand; or going on, whatever was holding it: by hand, by a service, by a breaker. */
  | { readonly paused: boolean }
  /** Nothing starts for so long; with a group, in that group; else, of a limit by group, in none. It only ever extends. */
  | { readonly holdMs: number; readonly group: string | null }
  /** The service says how much is left until its window begins anew. Of a limit by group: to this group, or to jobs without one. */
  | { readonly remaining: number; readonly resetMs: number; readonly group: string | null }
  /** Forgets what was counted, and holds, breakers and what services said; of one group, or of all (null). What is held stays held. */
  | { readonly reset: true; readonly group: string | null };

export interface LimitQuery {
  /** Only this one; null: all. */
  readonly name: string | null;
  /** Of a limit by group: this group. null: those that were used last, a hundred at the most. */
  readonly group: string | null;
}

/** A limit, as it is now. */
export interface LimitState {
  /** What is in force. */
  readonly rule: LimitRule;
  /** What was declared. The same, unless something was changed by hand. */
  readonly declared: LimitRule;
  /** How often it was declared anew or changed; 1 at first. */
  readonly revision: number;
  /** The version of its declaration; null: it has none. */
  readonly version: number | null;
  /** The owners that declare it. */
  readonly owners: readonly string[];
  /** Jobs that wait and that it applies to. */
  readonly waiting: number;
  /** How many groups have a state; 1 for a limit that is not by group and was used. */
  readonly groups: number;
  /** One, for a limit that is not by group. */
  readonly states: readonly GroupState[];
}

/** What is counted for one group, or for all. */
export interface GroupState {
  readonly group: string | null;
  /** How much of the window is in use; 0 without one. */
  readonly used: number;
  /** What is held of its concurrency. */
  readonly held: number;
  /** How much could start at once: 0 if anything is in the way; null: as much as anybody likes. */
  readonly free: number | null;
  /** When one more could start: 0 is now; null: when something is given back, resumed or changed. */
  readonly nextInMs: number | null;
  /** What is in the way of one more, the longest; null: nothing. */
  readonly reason: Reason | null;
  /** For how long a service has asked to be left alone; 0: it has not. */
  readonly heldForMs: number;
  readonly breaker: "closed" | "open" | "half-open";
}

export interface LimitTake {
  readonly name: string;
  /** Ignored where the limit is not by group. */
  readonly group: string | null;
  /** null: what the rule estimates. 0 takes nothing: it asks whether what was taken fits. */
  readonly weight: number | null;
  /** Only asks whether it fits, and takes nothing; granted then comes with an empty token. */
  readonly dry?: boolean;
  /** What is held of concurrency comes back by itself after this, unless it is renewed. */
  readonly ttlMs: number;
  /** It is used within so long of the first sending of this request, or never, and that is confirmed; as in a claim. */
  readonly grantTtlMs?: number | undefined;
}

export type LimitTaken =
  | {
      readonly granted: true;
      readonly token: string;
      /** Something is held, and has to be renewed and released. */
      readonly held: boolean;
      /** What is to be confirmed, if anything is. */
      readonly grant?: Grant | undefined;
    }
  | {
      readonly granted: false;
      /** null: when something is given back. */
      readonly retryInMs: number | null;
      /** The most that could ever be taken at once, if this is more; else null. */
      readonly most: number | null;
    };

export type LimitGiven =
  /** The work ended. */
  | "released"
  /** It never started. */
  | "cancelled"
  /** It used so much. What is held stays held. */
  | { readonly used: number };

/** What there is to know about when a job can start. */
export interface Standing {
  readonly job: JobRecord;
  /** By the clock of the storage. */
  readonly now: number;
  readonly queuePaused: boolean;
  readonly typePaused: boolean;
  /** Live workers of its queue, and those of them that handle its type. */
  readonly workers: WorkerCounts;
  /**
   * Jobs that wait and start before it if nothing keeps them back, counted up to 10,000 of each: of a higher priority; of its
   * own priority and group; of these, those of its own type; of other groups of its priority, those that have their turn
   * before it.
   */
  readonly ahead: { readonly higher: number; readonly group: number; readonly lane: number; readonly turns: number };
  /** Every limit that it runs under, and what its start would take. */
  readonly limits: readonly LimitStanding[];
}

/** How a job stands with one limit. */
export interface LimitStanding {
  readonly rule: LimitRule;
  /** The group that is counted for; null: the limit is not by group, or the job has none. */
  readonly group: string | null;
  /** What in this limit the job would take, and has to fit: of the window if there is one, else of its concurrency. */
  readonly weight: number;
  readonly used: number;
  readonly held: number;
  /**
   * When the job fits, if those that are certain to start before it do so as soon as they can (`startsBefore` in
   * `limits/behind.ts`): 0 is now; null: when something is given back, resumed or changed.
   */
  readonly waitMs: number | null;
  readonly reason: Reason | null;
  /** The most that could ever be taken at once, if the job needs more; else null. */
  readonly most: number | null;
}

/** What of a queue has not started, and what it runs under. */
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
  /** Of how many groups jobs wait; jobs without one are one. */
  readonly groups: number;
  /** How many wait of the group of which most do. */
  readonly mostInGroup: number;
  /** What waiting jobs say that they weigh, by name: which part of them says so, and how much on average. Of the first thousand. */
  readonly weights: Readonly<Record<string, { readonly part: number; readonly mean: number }>>;
  /** How long the latest completed jobs of the type ran, on average; null: there are none. */
  readonly ranMs: number | null;
}
