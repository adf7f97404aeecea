import type { JobEvent } from "../core/events.ts";
import type {
  AttemptRecord,
  BackoffPlan,
  ErrorRecord,
  JobCounts,
  JobKeys,
  JobProgress,
  JobWarning,
  JobRecord,
  JobState,
  LogLine,
} from "../core/job.ts";
import type { Confirmation, Grant } from "./grants.ts";
import type { Backlog, LimitStorage, Standing } from "./limit-storage.ts";
import type { ConfirmingRateLimiterStorage } from "./rate-limiter-storage.ts";
import type { Registered, UnhandledType, WorkerEntry, WorkerRecord } from "./workers.ts";

/**
 * Where jobs and the limits they run under are kept. The contract of every storage; `sluice/testing` has its suite.
 *
 * - Every member is one atomic step: it happens whole or not at all, and what was answered is kept.
 * - Only the clock of the storage decides. Durations go in and come out, and last that long whatever the wall clock is set to.
 *   Instants come in only from people (`When.at`, `ListQuery.since`), and are shown only to people. Those are wall time, whatever
 *   lies between the wall clock and the clock of the storage, then or later.
 * - Whoever holds a lease writes with its token. A token that is not the job's latest, or whose lease was taken away,
 *   changes nothing.
 * - What comes in has been checked by the queue and the worker. Names are data, never part of a statement.
 */
export interface JobStorage {
  /** Creates what the storage needs, once, however many processes start together. Others call it by themselves. */
  setup(): Promise<void>;
  /** Gives back connections, timers and watches. Whatever is called afterwards is refused. */
  close(): Promise<void>;

  /**
   * All of them or none. The answers are in order. A weight that can never fit under the limits is an `OptionsError`.
   *
   * `tx`: an open transaction of the caller's, in whatever form the storage takes them. The jobs are part of it then: there
   * when it commits, neither seen nor heard of before, and gone if it does not. Nothing is tried again in it, and what goes
   * wrong is the caller's to deal with. A storage without such transactions refuses it with an `OptionsError`.
   */
  add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]>;
  /** Settles what the worker hands in, then takes jobs and room under the limits together, in the same step. */
  claim(request: ClaimRequest): Promise<Claim>;
  /** Says when calls were made that a grant was given for (`grants.ts`): of claims, and of what was taken outside of jobs. */
  confirm(confirmations: readonly Confirmation[]): Promise<void>;
  /** Ends leases, one for each job. The answer names the jobs whose lease was lost: for those nothing was changed. */
  settle(outcomes: readonly Outcome[]): Promise<readonly string[]>;
  /** Keeps leases for `leaseMs` from now. A lease that has expired is lost for good, even if nobody has noticed yet. */
  heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat>;
  /** Writes progress, log lines and real weights of running jobs. The answer names the jobs whose lease was lost. */
  report(reports: readonly Report[]): Promise<readonly string[]>;
  /**
   * Housekeeping, in small steps: gives back jobs whose lease has expired (to their old place), ends those whose deadline has passed, deletes
   * what has been kept long enough, and workers that are not live. Any process may call it, at any time. `more`: there was too much for one step.
   */
  sweep(): Promise<Sweep>;

  /**
   * Registers workers as live for `ttlMs` from now, or again, and removes those that are `gone`. A worker whose time is over is
   * not shown any more, and the sweep deletes it. Registered again it is as before: `since` stays as it was.
   */
  register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered>;
  /** The live workers, of one queue if asked; that which began first is first. */
  workers(queue?: string): Promise<readonly WorkerRecord[]>;
  /** Types that no live worker handles though jobs of them wait and are not paused: by queue and type, a thousand at the most. */
  unhandled(): Promise<readonly UnhandledType[]>;

  /**
   * How those of these jobs ended that have, and which of them do not exist; what has not ended is left out. The answer is bounded,
   * in bytes: it may leave out some that ended, if it names one at least, and says so (`more`).
   */
  endings(ids: readonly string[]): Promise<Endings>;
  /**
   * In the order asked for; undefined where there is no such job. However many they are: what is too much for one answer is read in
   * several steps, each of which sees what there is at its moment. Here and below, text that no storage can keep (with U+0000 or
   * lone surrogates) is the id, key or name of nothing.
   */
  find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]>;
  /** The job that has this idempotency key of the queue now. Undefined: the key is not kept, or its job is gone. */
  findByKey(queue: string, key: string): Promise<JobRecord | undefined>;
  /** The attempts of a job that failed, and what it logged, oldest first. The latest hundred attempts and thousand lines. */
  history(id: string): Promise<JobHistory>;
  /** Newest first. A page has at most 4 MiB of data and results (`STEP_BYTES`), or one job, and may be shorter than `limit` for that. */
  list(query: ListQuery): Promise<JobPage>;
  /** What there is of each queue (of one, if asked), by name. A queue exists while it has jobs or is paused. */
  overview(queue?: string): Promise<readonly QueueOverview[]>;
  /** Everything that decides when a job can start, at one instant; undefined: there is no such job. */
  explain(id: string): Promise<Standing | undefined>;
  /** What of a queue has not started, and under which limits it will. */
  backlog(queue: string): Promise<Backlog>;
  /**
   * What people do to jobs. The answer names those that were changed. Fewer than `limit` means that there were no more, however
   * many were claimed meanwhile.
   */
  change(change: Change): Promise<readonly string[]>;
  /**
   * Changes what was said of a job when it was added, if it waits or is scheduled: in one step, or not at all. Weights that can never
   * fit under the limits are an `OptionsError`. The job keeps its `dueAt` and its age, which are its place in whatever lane it
   * belongs to then, unless `due` is given.
   */
  update(update: JobUpdate): Promise<Updated>;
  /** Nothing of the queue, or of one type in it, starts while it is paused. What runs goes on. */
  setPaused(queue: string, type: string | null, paused: boolean): Promise<void>;

  /** Hears of changes until the returned function is called. Hints: one may be lost or come twice. */
  subscribe(subscriber: Subscriber): () => void;
  /** Tells subscribers, here and elsewhere, what no step of the storage tells by itself. */
  publish(event: JobEvent): Promise<void>;

  /** Shared limits: the rules that every claim goes by, and what was counted under them. */
  readonly limits: LimitStorage;
  /** One log of starts for each name, the one that limits and `ClaimLimit.key` count in. */
  readonly rates: ConfirmingRateLimiterStorage;
}

/** A moment: so long from now by the clock of the storage, or an instant that a person gave by the wall clock. */
export type When = { readonly inMs: number } | { readonly at: number };

export interface NewJob {
  /** Made by whoever adds it and unique for ever: adding it again, after an answer that got lost, adds nothing. */
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  /** JSON text. */
  readonly data: string;
  /** A moment that has passed means now. */
  readonly due: When;
  readonly priority: number;
  readonly group: string | null;
  readonly keys?: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | null;
  readonly maxAttempts: number;
  readonly backoff: BackoffPlan;
  readonly timeout: number | null;
  readonly deadline: When | null;
  readonly keepFor: number | null;
  readonly idempotency: Idempotency | null;
}

/** One job for one key of a queue, for as long as the key is kept; it may outlive the job. */
export interface Idempotency {
  readonly key: string;
  /** Tells one payload from another. */
  readonly fingerprint: string;
  readonly ttlMs: number;
  /**
   * What to do when the key is taken:
   * - `return`: answer with the job that has it, if the payload is the same; else fail with a `DuplicateJobError`.
   * - `reject`: fail with a `DuplicateJobError`.
   * - `replace`: put this one in place of the other, which is removed if it has not started; the key is kept for
   *   `ttlMs` from now. While the other is active: fail with a `DuplicateJobError`.
   */
  readonly onDuplicate: "return" | "replace" | "reject";
}

export interface Added {
  /** The job there is now: the new one, or the one that had its key. */
  readonly id: string;
  /** False: an earlier job had the idempotency key, or the same id. */
  readonly created: boolean;
}

export interface ClaimRequest {
  readonly queue: string;
  /** Who asks: a name that is different for every worker ever started. */
  readonly worker: string;
  /** How many at most. 0: only settle, and look whether there is something (`Claim.more`). */
  readonly max: number;
  /**
   * So many more may be taken ahead, if they run under no limit at all: behind the others, and only such as are tried for the
   * first time and may be tried again, for an attempt may be spent on them without their having begun. A storage need not
   * give any. Default 0.
   */
  readonly ahead?: number | undefined;
  /**
   * So many bytes of data at most, all jobs together, but one job in any case. Data counts by its length as the storage keeps it:
   * in bytes of UTF-8, or in characters. Default: 4 MiB (`STEP_BYTES`).
   */
  readonly maxBytes?: number | undefined;
  /** Only of these types; null: of any. */
  readonly types: readonly string[] | null;
  readonly leaseMs: number;
  /** Every start counts one under each of them, beside the shared limits that apply to it. */
  readonly limits: readonly ClaimLimit[];
  /** What to settle first. */
  readonly settle: readonly Outcome[];
  /**
   * The handlers are called within so long of the first sending of this request, or never, and that is confirmed (`grants.ts`).
   * Left out: the starts count from the grant, as for callers that do not need windows to be exact as called.
   */
  readonly grantTtlMs?: number | undefined;
  /** What to confirm first: the claim is decided with that. */
  readonly confirm?: readonly Confirmation[] | undefined;
}

/** So many starts in any window, kept under a name. The name is the same as in `rates`. */
export interface ClaimLimit {
  readonly key: string;
  readonly max: number;
  readonly windowMs: number;
}

/**
 * The order of jobs: higher priority first; within a priority groups take turns (jobs without a group are one group);
 * within a group by `dueAt`, then as they were added, whatever their types. A job whose deadline has passed is not started
 * but dead.
 *
 * A job that is tried again or given back keeps its place: with `inMs: 0` it is due at once, as before; else it backs off. Until
 * its back-off is over its `dueAt` is the end of that and others start; then it has the `dueAt` from before, and so its old place,
 * however many have come due meanwhile.
 *
 * A group has its turn, in a priority, when it gives a job: for every type that the claim asked for. Next is the group that
 * has, of the types a claim may take, jobs of the type whose turn was the longest ago. So where all workers ask for the same
 * types every group gives one before any gives a second; where they do not, what some of them take keeps nobody waiting
 * with the others. Among those that have never had a turn the order is open, and a claim that met no groups need not have
 * been a turn of the jobs without one.
 *
 * A job whose limits are full is passed over, with all of its type, or of its group where the limit is by group; others take
 * nothing of a limit that somebody who comes before them waits for. A job that can never fit under a limit is dead.
 */
export interface Claim {
  /** All `active` now, leased to the worker, each with a `token` greater than any before it. */
  readonly jobs: readonly JobRecord[];
  /** Jobs to be settled whose lease was lost. */
  readonly stale: readonly string[];
  /**
   * There is at least one more that could be claimed at once if `max` or `maxBytes` were greater, limits and pauses considered;
   * or so much was in the way for the first time that this claim did not get past it, and the next one goes on from there.
   */
  readonly more: boolean;
  /** When it makes sense to ask again if nothing is heard before: a job comes due, or a limit has room. null: never. */
  readonly nextInMs: number | null;
  /** The limit that keeps back a job that is due, if one does; of several, the one that has room first. */
  readonly blockedBy: string | null;
  /** What is to be confirmed: starts that count under windows or spacing, of a claim with `grantTtlMs`. */
  readonly grant?: Grant | undefined;
}

/** A claim on a job. */
export interface Lease {
  readonly id: string;
  readonly token: number;
}

/** How a lease ends. */
export type Outcome = Lease &
  (
    | { readonly to: "completed"; readonly result: string | null }
    | { readonly to: "dead"; readonly error: ErrorRecord }
    | { readonly to: "cancelled"; readonly error: ErrorRecord | null }
    /** It failed and is tried again, at its old place. */
    | { readonly to: "retry"; readonly inMs: number; readonly error: ErrorRecord }
    /**
     * It is given back, to its old place, and has not spent an attempt: a worker stops, or a service was over its limit.
     */
    | {
        readonly to: "back";
        readonly inMs: number;
        /**
         * A service refused the start for its quota. It counts among `JobRecord.holds`, and in the same step what it reserved
         * comes back: under every limit that weighs its window it counts for nothing from now on, but for the weights named in
         * `settled`. Where starts are counted it stays counted, for the request was made.
         */
        readonly held: boolean;
        /** With `held`: the weights that the job said what it used of (`Report.weights`), by name; these stay as said. Default: none. */
        readonly settled?: readonly string[] | undefined;
        readonly error: ErrorRecord | null;
        /** Limits under which nothing may start for so long. It only ever extends. */
        readonly hold: Hold | null;
        /**
         * The handler was never called: its start is taken back from all limits that it counted under. If a sweep has taken the
         * lease away meanwhile and nothing has happened to the job since, its attempt is given back all the same, and one that was
         * dead for it waits again; the start stays counted then, and the answer names the lease as lost.
         */
        readonly unstarted: boolean;
      }
  );

export interface Hold {
  /** By name; of a limit by group, for the group of the job. */
  readonly names: readonly string[];
  /** Also every shared limit that the job ran under, but for those by group. */
  readonly scope: boolean;
  readonly forMs: number;
}

export interface Heartbeat {
  /** Jobs whose lease was lost. */
  readonly lost: readonly string[];
  /** Jobs that somebody wants to be cancelled. */
  readonly cancelled: readonly string[];
}

export interface Report extends Lease {
  readonly progress?: JobProgress;
  readonly log?: readonly string[];
  /** To be told as `warning` events. */
  readonly warnings?: readonly JobWarning[];
  /** What it really used, by name: less gives room back at once, more is charged at once. The last word holds. */
  readonly weights?: Readonly<Record<string, number>>;
}

/** How a job ended; `gone`: there is none of this id. */
export type Ending =
  | { readonly id: string; readonly state: "completed"; readonly result: string | null }
  | { readonly id: string; readonly state: "dead"; readonly error: ErrorRecord | null }
  | { readonly id: string; readonly state: "cancelled" }
  | { readonly id: string; readonly state: "gone" };

export interface Endings {
  readonly ended: readonly Ending[];
  /** Others of these have ended as well. */
  readonly more: boolean;
}

export interface Sweep {
  /** Jobs whose lease had expired. */
  readonly stalled: number;
  /** Rows of any kind that were deleted. */
  readonly deleted: number;
  /** There is more to do at once. */
  readonly more: boolean;
}

export interface JobHistory {
  readonly attempts: readonly AttemptRecord[];
  readonly log: readonly LogLine[];
}

export interface ListQuery {
  readonly queue: string;
  readonly states: readonly JobState[] | null;
  readonly type: string | null;
  readonly group: string | null;
  /** Added at or after this instant. */
  readonly since: number | null;
  /** Added before this instant. */
  readonly until: number | null;
  /** From 1 to 1000. */
  readonly limit: number;
  /** `JobPage.cursor` of the page before; null: from the newest. */
  readonly cursor: string | null;
}

export interface JobPage {
  /** As many as `limit` says, or fewer, if those are large. */
  readonly jobs: readonly JobRecord[];
  /** Where the next page begins; null: this was the last. Only this tells: a page that is not full need not be the last. */
  readonly cursor: string | null;
}

export interface QueueOverview {
  readonly queue: string;
  readonly counts: JobCounts;
  readonly paused: boolean;
  readonly pausedTypes: readonly string[];
  /** How long the first of the waiting jobs has been due; null: none waits. */
  readonly oldestWaitingMs: number | null;
}

/**
 * - `cancel`: waiting, scheduled or awaiting jobs are cancelled at once; an active one is asked to stop.
 * - `retry`: jobs that ended are due now and start from their first attempt, their history kept.
 * - `promote`: scheduled jobs are due now; those that back off, at their old place.
 * - `remove`: jobs that are not active are deleted.
 *
 * What does not apply to the state of a job leaves it as it is.
 */
export type ChangeAction = "cancel" | "retry" | "promote" | "remove";

export type Change =
  | {
      readonly action: ChangeAction;
      readonly queue: string;
      readonly ids: readonly string[];
      /** Only if they are in one of these states; null, or left out: in any that the action applies to. */
      readonly states?: readonly JobState[] | null;
    }
  | { readonly action: ChangeAction; readonly queue: string; readonly where: ChangeFilter; readonly limit: number };

/** Oldest first, as many as `limit` says. */
export interface ChangeFilter {
  readonly states: readonly JobState[];
  readonly type: string | null;
  readonly group: string | null;
  /** Only jobs that ended longer ago than this. */
  readonly endedForMs: number | null;
}

export interface JobUpdate {
  readonly queue: string;
  readonly id: string;
  /** What is to be different. What is left out stays as it is. */
  readonly set: Partial<
    Pick<
      NewJob,
      "data" | "due" | "priority" | "group" | "weights" | "maxAttempts" | "backoff" | "timeout" | "deadline" | "keepFor"
    >
  >;
}

export interface Updated {
  readonly updated: boolean;
  /** The state of the job afterwards. Only `waiting` and `scheduled` jobs are updated. null: there is no such job. */
  readonly state: JobState | null;
}

export interface Subscriber {
  /** Only this queue; null: all. */
  readonly queue: string | null;
  /**
   * Something changed that may let a job start. Heard within a second, mostly at once. `news`: something that was not there
   * before, a lane in which nobody waited or room under a limit; worth a look even for those whom a limit keeps back.
   */
  readonly wake?: ((news: boolean) => void) | undefined;
  /** These active jobs are asked to stop. Heard within a second; may be said again while they run. */
  readonly cancelled?: ((ids: readonly string[]) => void) | undefined;
  /** These jobs may have ended: of any queue, whatever `queue` says, and in any process. For those that wait for jobs to end. */
  readonly ended?: ((ids: readonly string[]) => void) | undefined;
  /** What happened, in order, from any process. */
  readonly event?: ((event: JobEvent) => void) | undefined;
}
