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
import type { Backlog, LimitStorage, StartConditions } from "./limit-storage.ts";
import type { ConfirmingRateLimiterStorage } from "./rate-limiter-storage.ts";
import type { Registered, UnhandledType, WorkerEntry, WorkerRecord } from "./workers.ts";

/**
 * Where jobs and the limits they run under are kept. The contract of every storage; `sluice/testing` has its suite.
 *
 * - Every member is one atomic step: it happens whole or not at all, and what was answered is kept.
 * - Only the clock of the storage decides. Arguments and answers are durations, and last that long whatever the wall clock is set to.
 *   Instants are arguments only where users give them (`When.at`, `ListQuery.since`), and in answers only to be shown. They are wall time,
 *   whatever the difference between the wall clock and the clock of the storage, then or later.
 * - A write under a lease carries its token. A token that is not the job's latest, or whose lease has ended, changes nothing.
 * - The queue and the worker have checked all arguments. Names are data, never part of a statement.
 */
export interface JobStorage {
  /** Creates what the storage needs, once, however many processes start together. The other members call it themselves. */
  setup(): Promise<void>;
  /** Closes connections, timers and watches. Later calls are refused. */
  close(): Promise<void>;

  /**
   * Adds all jobs or none. The answers are in order. A weight that can never fit under the limits is an `OptionsError`.
   *
   * `tx`: an open transaction of the caller, in a form that the storage accepts. The jobs are part of it: they exist when it commits,
   * are neither visible nor notified before, and do not exist if it rolls back. No statement in it is retried, and the caller handles
   * its errors. A storage without such transactions refuses it with an `OptionsError`.
   */
  add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]>;
  /** Settles outcomes of the worker, then claims jobs and charges their limits, all in one step. */
  claim(request: ClaimRequest): Promise<Claim>;
  /** Records when the calls of a grant were made (`grants.ts`): of claims, and of permits outside of jobs. */
  confirm(confirmations: readonly Confirmation[]): Promise<void>;
  /** Ends leases, one for each job. The answer names the jobs whose lease was lost: for those nothing was changed. */
  settle(outcomes: readonly Outcome[]): Promise<readonly string[]>;
  /** Renews leases for `leaseMs` from now. An expired lease is lost for good, even if no sweep has ended it yet. */
  heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat>;
  /** Writes progress, log lines and real weights of running jobs. The answer names the jobs whose lease was lost. */
  report(reports: readonly Report[]): Promise<readonly string[]>;
  /**
   * Housekeeping, in small steps: returns jobs with an expired lease to `waiting` (at their old place), ends jobs whose deadline has passed,
   * deletes ended jobs after their `keepFor`, and workers that are not live. Any process may call it, at any time. `more`: there was too much
   * for one step.
   */
  sweep(): Promise<Sweep>;

  /**
   * Registers workers as live for `ttlMs` from now, or renews them, and removes those that are `gone`. A worker whose time is over is
   * not shown, and the sweep deletes it. A renewed worker keeps its `since`.
   */
  register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered>;
  /** The live workers, of one queue if given; the oldest first. */
  workers(queue?: string): Promise<readonly WorkerRecord[]>;
  /** Types that have waiting jobs, are not paused, and are handled by no live worker: by queue and type, at most a thousand. */
  unhandled(): Promise<readonly UnhandledType[]>;

  /**
   * How these jobs ended, or that they do not exist; jobs that have not ended are left out. The answer is bounded in bytes: it may leave
   * out jobs that ended, if it names at least one, and then has `more`.
   */
  endings(ids: readonly string[]): Promise<Endings>;
  /**
   * The jobs with these ids, in that order; undefined if there is no such job. Any number: more than fits into one answer is read in several
   * steps, each at its own moment. Here and below, text that no storage can keep (with U+0000 or lone surrogates) matches nothing.
   */
  find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]>;
  /** The job that has this idempotency key of the queue now. Undefined: the key has expired, or its job is deleted. */
  findByKey(queue: string, key: string): Promise<JobRecord | undefined>;
  /** The attempts of a job that failed, and what it logged, oldest first. The latest hundred attempts and thousand lines. */
  history(id: string): Promise<JobHistory>;
  /** Newest first. A page has at most 4 MiB of data and results (`STEP_BYTES`), or one job, and may be shorter than `limit` for that. */
  list(query: ListQuery): Promise<JobPage>;
  /** The counts and pauses of each queue (of one, if given), by name. A queue exists while it has jobs or is paused. */
  overview(queue?: string): Promise<readonly QueueOverview[]>;
  /** Everything that decides when a job can start, at one instant; undefined: there is no such job. */
  explain(id: string): Promise<StartConditions | undefined>;
  /** The jobs of a queue that have not started, and their limits. */
  backlog(queue: string): Promise<Backlog>;
  /**
   * Changes that operators make to jobs. The answer names the changed jobs. Fewer than `limit` means that there were no more, however many
   * were claimed meanwhile.
   */
  change(change: Change): Promise<readonly string[]>;
  /**
   * Changes the options of a job that is waiting or scheduled, in one step. Weights that can never fit under the limits are an
   * `OptionsError`. The job keeps its `dueAt` and its age, which are its place in its new lane, unless `due` is given.
   */
  update(update: JobUpdate): Promise<Updated>;
  /** No job of the queue, or of one type in it, starts while it is paused. Running jobs go on. */
  setPaused(queue: string, type: string | null, paused: boolean): Promise<void>;

  /** Notifies the subscriber until the returned function is called. Notifications are hints: one may be lost or come twice. */
  subscribe(subscriber: Subscriber): () => void;
  /** Notifies subscribers, in all processes, of an event that no step of the storage publishes itself. */
  publish(event: JobEvent): Promise<void>;

  /** Shared limits: the rules that bind every claim, and their state. */
  readonly limits: LimitStorage;
  /** One log of starts for each name, shared with limits and `ClaimLimit.key`. */
  readonly rates: ConfirmingRateLimiterStorage;
}

/** A moment: so long from now by the clock of the storage, or an instant by the wall clock that the user gave. */
export type When = { readonly inMs: number } | { readonly at: number };

export interface NewJob {
  /** Made by the caller and unique for ever: adding it again, after a lost answer, adds nothing. */
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  /** JSON text. */
  readonly data: string;
  /** A moment in the past means now. */
  readonly due: When;
  readonly priority: number;
  readonly group: string | null;
  /** Values that limits count it by besides its group, by name; undefined, never `{}`: it has none. */
  readonly keys?: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | null;
  readonly maxAttempts: number;
  readonly backoff: BackoffPlan;
  readonly timeout: number | null;
  readonly deadline: When | null;
  readonly keepFor: number | null;
  readonly idempotency: Idempotency | null;
}

/** An idempotency key: one job for one key of a queue, until the key expires; it may outlive the job. */
export interface Idempotency {
  readonly key: string;
  /** A hash of the payload. */
  readonly fingerprint: string;
  readonly ttlMs: number;
  /**
   * What to do when another job has the key:
   * - `return`: answer with the job that has it, if the payload is the same; else fail with a `DuplicateJobError`.
   * - `reject`: fail with a `DuplicateJobError`.
   * - `replace`: put this one in place of the other, which is removed if it has not started; the key is kept for
   *   `ttlMs` from now. While the other is active: fail with a `DuplicateJobError`.
   */
  readonly onDuplicate: "return" | "replace" | "reject";
}

export interface Added {
  /** The stored job: the new one, or the earlier one that has its key. */
  readonly id: string;
  /** False: an earlier job had the idempotency key, or the same id. */
  readonly created: boolean;
}

export interface ClaimRequest {
  readonly queue: string;
  /** The id of the worker: different for every worker ever started. */
  readonly worker: string;
  /** How many at most. 0: only settle, and answer whether a job could start (`Claim.more`). */
  readonly max: number;
  /**
   * So many more jobs may be prefetched, if they run under no limit at all: behind the others, and only jobs that are tried for the
   * first time and may be tried again, since an attempt may be spent on them before they start. A storage need not prefetch
   * any. Default 0.
   */
  readonly prefetch?: number | undefined;
  /**
   * The most bytes of data of all jobs together; one job is returned in any case. Data is measured as the storage keeps it: in bytes of
   * UTF-8, or in characters. Default: 4 MiB (`STEP_BYTES`).
   */
  readonly maxBytes?: number | undefined;
  /** Only jobs of these types; null: of any. */
  readonly types: readonly string[] | null;
  readonly leaseMs: number;
  /** Every start is charged one under each of them, beside the shared limits that apply to it. */
  readonly limits: readonly ClaimLimit[];
  /** The outcomes to settle first. */
  readonly settle: readonly Outcome[];
  /**
   * The handlers are called within so long of the first sending of this request, or never, and the calls are confirmed (`grants.ts`).
   * Left out: the starts count from the grant, for callers that do not need windows to be exact as called.
   */
  readonly grantTtlMs?: number | undefined;
  /** The confirmations to apply before the claim is decided. */
  readonly confirm?: readonly Confirmation[] | undefined;
}

/** A window of a claim, kept under a name. The name is the same as in `rates`. */
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
 * A job that is retried or given back keeps its place: with `inMs: 0` it is due at once, as before; else it backs off. During the
 * back-off its `dueAt` is the end of the back-off, and other jobs start; then it has its earlier `dueAt` again, and so its old place,
 * however many have come due meanwhile.
 *
 * A group has its turn, in a priority, when one of its jobs starts: for every type that the claim asked for. Next is the group that
 * has, of the types of a claim, jobs of the type whose turn was the longest ago. So if all workers ask for the same types, every group
 * starts one job before any starts a second; if they do not, the turns of one worker's types delay no other types. Among groups that
 * have never had a turn the order is open, and a claim that met no groups need not have been a turn of the jobs without one.
 *
 * A job whose limits are full is skipped, with all of its type, or of its group or keys if the limit is by these; a job is charged to no limit
 * that an earlier job waits for. A job that can never fit under a limit is dead.
 */
export interface Claim {
  /** Now `active` and leased to the worker, each with a `token` greater than any before it. */
  readonly jobs: readonly JobRecord[];
  /** Jobs to be settled whose lease was lost. */
  readonly stale: readonly string[];
  /**
   * At least one more job could be claimed at once if `max` or `maxBytes` were greater, limits and pauses considered; or this claim
   * found so many newly blocked jobs that it stopped, and the next one continues from there.
   */
  readonly more: boolean;
  /** The wake-up time, if no notification comes before: a job comes due, or a limit is available. null: none. */
  readonly nextInMs: number | null;
  /** The limit that blocks a due job, if one does; of several, the one that is available first, or with `more` any of them. */
  readonly blockedBy: string | null;
  /**
   * For so long others have waited for slots that the jobs of this claim take; if it starts none, for slots that it waits for as well.
   * Others are workers that ask for other types or another queue, and permits. Workers leave each other a turn (`worker/wake-up-time.ts`):
   * one that settles and claims in one step would take the same slots for ever. Left out or 0: none wait.
   */
  readonly othersWaitMs?: number | undefined;
  /** The grant to confirm: for starts that count under windows or spacing, of a claim with `grantTtlMs`. */
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
    /** The job failed and is retried, at its old place. */
    | { readonly to: "retry"; readonly inMs: number; readonly error: ErrorRecord }
    /**
     * The job is given back, to its old place, and spends no attempt: a worker stops, or a service was over its limit.
     */
    | {
        readonly to: "back";
        readonly inMs: number;
        /**
         * A service refused the start for its quota. It counts among `JobRecord.holds`, and in the same step the charge is given back:
         * under every limit whose window counts weights its weight becomes 0, but for the weights named in `settled`. Under
         * limits that count starts it stays counted, since the request was made.
         */
        readonly held: boolean;
        /** With `held`: the names of the weights that the job has settled (`Report.weights`); these stay charged. Default: none. */
        readonly settled?: readonly string[] | undefined;
        readonly error: ErrorRecord | null;
        /** Limits to hold for so long. A hold only ever extends. */
        readonly hold: Hold | null;
        /**
         * The handler was never called: the start is removed from all limits that it was charged to. If a sweep has ended the lease
         * meanwhile and the job has not changed since, the attempt is given back all the same, and a job that became dead by it waits
         * again; the start stays counted then, and the answer names the lease as lost.
         */
        readonly unstarted: boolean;
      }
  );

export interface Hold {
  /** Limits by name; a limit by group or keys is held for those of the job. */
  readonly names: readonly string[];
  /** Also every shared limit that the job ran under, but for those by group or keys. */
  readonly scope: boolean;
  readonly forMs: number;
}

export interface Heartbeat {
  /** Jobs whose lease was lost. */
  readonly lost: readonly string[];
  /** Jobs whose cancellation was requested. */
  readonly cancelled: readonly string[];
}

export interface Report extends Lease {
  readonly progress?: JobProgress;
  readonly log?: readonly string[];
  /** To be published as `warning` events. */
  readonly warnings?: readonly JobWarning[];
  /** The weights that the job really used, by name: the difference is given back or charged at once. The last value holds. */
  readonly weights?: Readonly<Record<string, number>>;
}

/** How a job ended; `gone`: there is no job with this id. */
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
  /** At most `limit`; fewer if the jobs are large. */
  readonly jobs: readonly JobRecord[];
  /** The cursor of the next page; null: this was the last. A page that is not full need not be the last. */
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
 * - `cancel`: waiting, scheduled or awaiting jobs are cancelled at once; an active one is aborted by its worker.
 * - `retry`: jobs that ended are due now and start from their first attempt, their history kept.
 * - `promote`: scheduled jobs are due now; those that back off, at their old place.
 * - `remove`: jobs that are not active are deleted.
 *
 * An action that does not apply to the state of a job does not change it.
 */
export type ChangeAction = "cancel" | "retry" | "promote" | "remove";

export type Change =
  | {
      readonly action: ChangeAction;
      readonly queue: string;
      readonly ids: readonly string[];
      /** Only jobs in one of these states; null, or left out: in any that the action applies to. */
      readonly states?: readonly JobState[] | null;
    }
  | { readonly action: ChangeAction; readonly queue: string; readonly where: ChangeFilter; readonly limit: number };

/** Oldest first, at most `limit`. */
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
  /** The values to set. A value that is left out stays as it is. */
  readonly set: Partial<
    Pick<
      NewJob,
      "data" | "due" | "priority" | "group" | "weights" | "maxAttempts" | "backoff" | "timeout" | "deadline" | "keepFor"
    >
  > & {
    /** All keys of the job; null, never `{}`: none. */
    readonly keys?: JobKeys | null;
  };
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
   * A wake-up: something changed that may let a job start. It comes within a second, mostly at once. `mayStart`: a job was added to an empty
   * lane, or a limit became available; a worker that a limit blocks should claim too.
   */
  readonly wake?: ((mayStart: boolean) => void) | undefined;
  /** These active jobs are to be aborted. It comes within a second, and may come again while they run. */
  readonly cancelled?: ((ids: readonly string[]) => void) | undefined;
  /** These jobs may have ended: of any queue, whatever `queue` is, and in any process. For callers that wait for jobs to end. */
  readonly ended?: ((ids: readonly string[]) => void) | undefined;
  /** An event of any process. Events come in order. */
  readonly event?: ((event: JobEvent) => void) | undefined;
}
