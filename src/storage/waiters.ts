import { getOrMake } from "../core/get-or-make.ts";
import type { Clock } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import { StorageError } from "../core/errors.ts";
import type { Ending, JobStorage, Outcome } from "./job-storage.ts";

/** How many jobs one look-up asks for. */
const STEP = 500;
/** Notifications are hints and may be lost: the next awaited jobs are looked up so often. */
const POLL_MS = 1_000;
/** Every so many polls the storage is swept: where no worker runs, a job whose deadline has passed would not end. */
const POLLS_TO_SWEEP = 10;
/** After a full look-up, notifications within this time are looked up together. */
const MANY = 10;
const GAP_MS = 5;

/** Waits for a job to end. */
export interface Waiter {
  /** The waiters before and after it for the same job. */
  before: Waiter | undefined;
  after: Waiter | undefined;
  /** `here`: a worker of this process has settled it, and events of the job may still be on their way. */
  ended(ending: Ending, here: boolean): void;
  failed(error: unknown): void;
}

/** An awaited job. */
interface Awaited {
  readonly id: string;
  /** A linked list: a set for each job takes more time than all the rest. Undefined: the job is no longer awaited. */
  first: Waiter | undefined;
  last: Waiter | undefined;
  /** A worker of this process is settling it. */
  settling: boolean;
}

type Source = Pick<JobStorage, "endings" | "subscribe" | "sweep">;

/**
 * All waiters of this process for jobs of one storage: one subscription, and one look-up at a time of a bounded number of jobs, whatever
 * the number of waiters. Notifications of the storage, and jobs that workers of this process settle, go by id to their waiters. Without
 * notifications there is one look-up a second, for the next jobs in turn.
 */
export class Waiters {
  readonly #storage: Source;
  readonly #clock: Clock;
  readonly #awaited = new Map<string, Awaited>();
  /** Jobs to look up. */
  readonly #due = new Set<Awaited>();
  /** The cursor of the poll, and how many jobs are left of its round: later jobs must not delay the next turn of the first. */
  #turn: Iterator<Awaited> | undefined;
  #turnLeft = 0;
  #unsubscribe: (() => void) | undefined;
  #cancelPoll: (() => void) | undefined;
  #polls = 0;
  /** A look-up is under way, or about to begin. */
  #looking = false;
  #cancelPause: (() => void) | undefined;
  #pauseUntil = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(storage: Source, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** How many jobs are awaited. */
  get size(): number {
    return this.#awaited.size;
  }

  /** Adds a waiter. It is called once, unless it is removed before. `later`: its job is looked up by the next poll, and not at once. */
  add(id: string, waiter: Waiter, later = false): void {
    if (this.#closed) throw closed();
    this.#unsubscribe ??= this.#storage.subscribe({ queue: null, ended: (ids) => this.#heard(ids) });
    this.#cancelPoll ??= this.#clock.after(POLL_MS, this.#poll);
    let job = this.#awaited.get(id);
    if (job === undefined) this.#awaited.set(id, (job = { id, first: undefined, last: undefined, settling: false }));
    waiter.before = job.last;
    waiter.after = undefined;
    if (job.last === undefined) job.first = waiter;
    else job.last.after = waiter;
    job.last = waiter;
    if (later) return;
    this.#lookUp(job);
    this.#plan();
  }

  /** Removes a waiter: it is not called from here on. */
  leave(id: string, { before, after }: Waiter): void {
    const job = this.#awaited.get(id);
    if (job === undefined) return;
    if (before === undefined) job.first = after;
    else before.after = after;
    if (after === undefined) job.last = before;
    else after.before = before;
    if (job.first === undefined) this.#forget(job);
  }

  /**
   * A worker of this process is about to settle these jobs, so notifications about them need no look-up. The returned function is to be
   * called with the lost leases, and resolves the waiters of the other jobs; or with undefined, if the outcome is not known.
   */
  settling(outcomes: readonly Outcome[]): (lost: readonly string[] | undefined) => void {
    const jobs: Awaited[] = [];
    const endings: Ending[] = [];
    for (const outcome of outcomes) {
      const job = this.#awaited.get(outcome.id);
      const ending = job && endingOf(outcome);
      if (job === undefined || ending === undefined) continue;
      job.settling = true;
      jobs.push(job);
      endings.push(ending);
    }
    return (lost) => {
      const stale = new Set(lost);
      for (const [i, job] of jobs.entries()) {
        job.settling = false;
        if (lost === undefined || stale.has(job.id)) this.#lookUp(job);
        else this.#end(job, endings[i]!, true);
      }
      this.#plan();
    };
  }

  /** The storage is closed: all waiters fail. */
  close(): void {
    this.#closed = true;
    for (const job of this.#awaited.values()) this.#fail(job, closed());
  }

  #heard(ids: readonly string[]): void {
    for (const id of ids) {
      const job = this.#awaited.get(id);
      if (job !== undefined && !job.settling) this.#lookUp(job);
    }
    this.#plan();
  }

  #lookUp(job: Awaited): void {
    if (job.first !== undefined) this.#due.add(job);
  }

  readonly #poll = (): void => {
    this.#cancelPoll = this.#clock.after(POLL_MS, this.#poll);
    this.#polls += 1;
    if (this.#polls % POLLS_TO_SWEEP === 0) void this.#sweep();
    if (this.#turn === undefined) {
      this.#turn = this.#awaited.values();
      this.#turnLeft = this.#awaited.size;
    }
    for (let n = 0; n < STEP; n++) {
      const next = this.#turn.next();
      this.#turnLeft -= 1;
      if (next.done === true || this.#turnLeft < 0) {
        this.#turn = undefined;
        break;
      }
      this.#lookUp(next.value);
    }
    this.#plan();
  };

  /** One step: what is left waits for the next. Never rejects. */
  async #sweep(): Promise<void> {
    try {
      await inTime(this.#clock, () => this.#storage.sweep());
    } catch {
      // The waiters learn of a storage that fails from their look-ups.
    }
  }

  #plan(): void {
    if (this.#looking || this.#due.size === 0) return;
    const pauseMs = this.#due.size >= STEP ? 0 : this.#pauseUntil - this.#clock.now();
    if (pauseMs > 0) {
      this.#cancelPause ??= this.#clock.after(pauseMs, () => {
        this.#cancelPause = undefined;
        this.#plan();
      });
      return;
    }
    this.#looking = true;
    void this.#look();
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    // Waiters of the same turn are looked up together.
    await Promise.resolve();
    this.#cancelPause?.();
    this.#cancelPause = undefined;
    const jobs: Awaited[] = [];
    for (const job of this.#due) {
      if (jobs.length === STEP) break;
      jobs.push(job);
      this.#due.delete(job);
    }
    if (jobs.length > 0) await this.#ask(jobs);
    this.#looking = false;
    if (jobs.length >= MANY) this.#pauseUntil = this.#clock.now() + GAP_MS;
    this.#plan();
  }

  async #ask(jobs: readonly Awaited[]): Promise<void> {
    try {
      const { ended, more } = await inTime(this.#clock, () => this.#storage.endings(jobs.map(({ id }) => id)));
      for (const ending of ended) {
        const job = this.#awaited.get(ending.id);
        if (job !== undefined) this.#end(job, ending, false);
      }
      if (more) for (const job of jobs) this.#lookUp(job);
    } catch (error) {
      for (const job of jobs) this.#fail(job, error);
    }
  }

  #end(job: Awaited, ending: Ending, here: boolean): void {
    this.#call(job, (waiter) => waiter.ended(ending, here));
  }

  #fail(job: Awaited, error: unknown): void {
    this.#call(job, (waiter) => waiter.failed(error));
  }

  /** Removes the job, and calls its waiters. A waiter may add itself again. */
  #call(job: Awaited, call: (waiter: Waiter) => void): void {
    let waiter = this.#removed(job);
    while (waiter !== undefined) {
      const { after }: Waiter = waiter;
      call(waiter);
      waiter = after;
    }
  }

  /** Removes the job, and returns its first waiter. */
  #removed(job: Awaited): Waiter | undefined {
    const { first } = job;
    job.first = undefined;
    if (first !== undefined) this.#forget(job);
    return first;
  }

  /** After the last waiter, the subscription and the timer end. */
  #forget(job: Awaited): void {
    this.#awaited.delete(job.id);
    this.#due.delete(job);
    if (this.#awaited.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#cancelPoll?.();
    this.#cancelPoll = undefined;
    this.#cancelPause?.();
    this.#cancelPause = undefined;
    this.#turn = undefined;
  }
}

/** By the `limits` of a storage, which a wrapper such as the counting storage of a server shares with it. */
const byLimits = new WeakMap<object, Waiters>();

/** The waiters of this storage: one instance for all queues of the process. */
export function waitersOf(storage: Source & Pick<JobStorage, "limits">, clock: Clock): Waiters {
  return getOrMake(byLimits, storage.limits, () => new Waiters(storage, clock));
}

/** See `Waiters.settling`. Undefined: no job is awaited. */
export function settlingHere(
  { limits }: Pick<JobStorage, "limits">,
  outcomes: readonly Outcome[],
): ReturnType<Waiters["settling"]> | undefined {
  const waiters = byLimits.get(limits);
  return waiters === undefined || waiters.size === 0 ? undefined : waiters.settling(outcomes);
}

/** For a storage that has closed. */
export function closeWaiters({ limits }: Pick<JobStorage, "limits">): void {
  byLimits.get(limits)?.close();
}

const closed = () => new StorageError("the storage is closed");

function endingOf(outcome: Outcome): Ending | undefined {
  const { id, to } = outcome;
  if (to === "completed") return { id, state: to, result: outcome.result };
  if (to === "dead") return { id, state: to, error: outcome.error };
  return to === "cancelled" ? { id, state: to } : undefined;
}
