import type { Clock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { JobNotFoundError, OptionsError } from "../core/errors.ts";
import type { AttemptRecord, JobProgress, LogLine } from "../core/job.ts";
import { durationOrZero, fn, optional, positiveDuration, readArgument, readOptions, signal } from "../core/options.ts";
import type { ChangeAction, JobStorage } from "../storage/job-storage.ts";
import { explainJob, type Explanation } from "../storage/explain.ts";
import { followProgress } from "../storage/progress-followers.ts";
import { infoOf, type JobInfo } from "./job-info.ts";
import type { UpdateAnswer, UpdateOptions } from "./update.ts";
import { ResultWaiter, waitForEnd } from "./waiting.ts";

export interface ResultOptions {
  /** Gives up waiting, with the signal's reason. The job goes on. */
  readonly signal?: AbortSignal | undefined;
  /** Gives up waiting after so long, with a `JobTimeoutError`. The job goes on. */
  readonly timeout?: Duration | undefined;
}

const RESULT = { signal: optional(signal), timeout: optional(positiveDuration) };

/** What a job needs of its queue. */
export interface JobPlace {
  readonly storage: JobStorage;
  readonly queue: string;
  readonly clock: Clock;
  /** Changes a job before it starts; `type` is looked up if it is not known. */
  update(job: { readonly id: string; readonly type?: string }, options: UpdateOptions): Promise<UpdateAnswer>;
}

/** A job of a queue, as `add` and the lookups return it. */
export class QueuedJob<Data = unknown, Result = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly data: Data;
  /** False where an idempotency key found an earlier job. */
  readonly created: boolean;
  readonly #place: JobPlace;
  #kept: boolean;

  /** @internal Made by the queue. */
  constructor(
    place: JobPlace,
    job: { readonly id: string; readonly type: string; readonly data: Data; readonly created: boolean; kept: boolean },
  ) {
    this.#place = place;
    this.#kept = job.kept;
    this.id = job.id;
    this.queue = place.queue;
    this.type = job.type;
    this.data = job.data;
    this.created = job.created;
  }

  /**
   * Resolves with what the handler returned once the job has ended, in any process; rejects with the job's error if it is dead, an
   * `AbortSignalJobError` if it was cancelled, a `JobNotFoundError` if it was deleted.
   */
  result(options: ResultOptions = {}): Promise<Result> {
    // Only one promise each: very many callers may wait.
    return new Promise((resolve, reject) => {
      const { signal: abort, timeout } = readOptions("result", RESULT, options);
      if (!this.#kept) {
        throw new OptionsError("result", "keepFor", 0, "greater than 0", "the job is gone as soon as it has ended");
      }
      const { storage, clock } = this.#place;
      const waiter = new ResultWaiter(resolve as (result: unknown) => void, reject);
      waitForEnd({ storage, clock, id: this.id, signal: abort, timeout }, waiter);
    });
  }

  /** The state of the job now; undefined if it was deleted. */
  async info(): Promise<JobInfo<Data, Result> | undefined> {
    const [record] = await this.#place.storage.find([this.id]);
    return record && infoOf<Data, Result>(record);
  }

  /**
   * Explains whether the job could start now. If not: all blockers, each limit with how much of it is in use, and the earliest start. A
   * `JobNotFoundError` if it was deleted.
   */
  explain(): Promise<Explanation> {
    return explainOne(this.#place, this.id);
  }

  /** The attempts that failed, and what they logged. */
  async history(): Promise<{ readonly attempts: readonly AttemptRecord[]; readonly log: readonly LogLine[] }> {
    return this.#place.storage.history(this.id);
  }

  /**
   * Cancels the job: one that has not started is cancelled at once, a running one has its signal aborted. False: it had ended
   * already.
   */
  cancel(): Promise<boolean> {
    return changeOne(this.#place, "cancel", this.id);
  }

  /** Starts again from the first attempt. False: it has not ended. */
  retry(): Promise<boolean> {
    return changeOne(this.#place, "retry", this.id);
  }

  /**
   * Changes the job before it starts: its data, when it is due, its priority, group, keys, weights, and the other options of `add`. It
   * keeps its place, by due time and age, within its new priority, group and keys, unless `delay` or `runAt` is given. The answer says whether it
   * was updated: a job that runs or has ended is not changed. `data` of this object stays what it was.
   */
  async update(options: UpdateOptions<Data>): Promise<UpdateAnswer> {
    const answer = await this.#place.update({ id: this.id, type: this.type }, options);
    const { keepFor } = options;
    if (answer.updated && keepFor !== undefined) this.#kept = keepFor === null || durationOrZero.read(keepFor) !== 0;
    return answer;
  }

  /** Makes a scheduled job due now. False: it was not scheduled. */
  promote(): Promise<boolean> {
    return changeOne(this.#place, "promote", this.id);
  }

  /** Deletes it. False: it is running; cancel it first. */
  remove(): Promise<boolean> {
    return changeOne(this.#place, "remove", this.id);
  }

  /** Calls the listener with every reported progress, until the job ends, is gone, or the returned function is called. */
  onProgress(callback: (progress: JobProgress) => void): () => void {
    readArgument("onProgress", "callback", fn, callback);
    return followProgress(this.#place, this.id, callback);
  }
}

/** Why a job does not start. */
export async function explainOne({ storage, queue }: JobPlace, id: string): Promise<Explanation> {
  const conditions = await storage.explain(id);
  if (conditions === undefined || conditions.job.queue !== queue) throw new JobNotFoundError(id);
  return explainJob(conditions);
}

/** Changes one job. False: the change does not apply to its state. */
export async function changeOne({ storage, queue }: JobPlace, action: ChangeAction, id: string): Promise<boolean> {
  const changed = await storage.change({ action, queue, ids: [id] });
  if (changed.length > 0) return true;
  const [record] = await storage.find([id]);
  if (record === undefined || record.queue !== queue) throw new JobNotFoundError(id);
  return false;
}
