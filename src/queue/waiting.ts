import { afterAll, type Clock } from "../core/clock.ts";
import type { JobEvent } from "../core/events.ts";
import { AbortSignalJobError, JobNotFoundError, JobTimeoutError } from "../core/errors.ts";
import { errorFrom } from "../core/error-record.ts";
import { ENDED, type JobProgress, type JobRecord } from "../core/job.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { resultOf } from "./job-info.ts";

/** Events are hints and may be lost: look again after this. */
const LOOK_AGAIN_MS = 1_000;

export interface Awaited {
  readonly storage: JobStorage;
  readonly queue: string;
  readonly id: string;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  readonly timeout: number | undefined;
}

/** The result of a job once it has ended, here or in any other process; or its error. */
export async function resultWhenEnded(awaited: Awaited): Promise<unknown> {
  const record = await new Watch(awaited).ended;
  if (record.state === "completed") return resultOf(record);
  if (record.state === "cancelled") throw new AbortSignalJobError(`job ${record.id} was cancelled`);
  throw errorFrom(record.error ?? { name: "JobError", message: "the job is dead" });
}

/** Waits for the end of a job. Every way out settles it: ended, removed, aborted, too late. */
class Watch {
  readonly ended: Promise<JobRecord>;
  readonly #awaited: Awaited;
  readonly #settle: PromiseWithResolvers<JobRecord>;
  readonly #leave: (() => void)[] = [];
  #cancelPoll: () => void = () => {};
  #over = false;
  #looking = false;
  /** Something was heard while it was being looked at. */
  #lookAgain = false;

  constructor(awaited: Awaited) {
    this.#awaited = awaited;
    this.#settle = Promise.withResolvers();
    this.ended = this.#settle.promise;
    try {
      this.#begin();
    } catch (error) {
      this.#fail(error);
    }
  }

  #begin(): void {
    const { storage, queue, id, clock, signal, timeout } = this.#awaited;
    if (signal?.aborted === true) return this.#fail(signal.reason);
    const onAbort = () => this.#fail(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#leave.push(() => signal?.removeEventListener("abort", onAbort));
    if (timeout !== undefined) {
      const late = () => this.#fail(new JobTimeoutError(`job ${id} has not ended within ${timeout} ms`));
      this.#leave.push(afterAll(clock, timeout, late));
    }
    const event = (heard: JobEvent) => {
      if ("id" in heard && heard.id === id && heard.event !== "progress") this.#look();
    };
    this.#leave.push(storage.subscribe({ queue, event }));
    this.#look();
  }

  /** One look at a time; what is heard meanwhile leads to another. */
  #look(): void {
    this.#lookAgain = true;
    if (this.#looking || this.#over) return;
    this.#looking = true;
    this.#lookUntilSeen().catch((error: unknown) => this.#fail(error));
  }

  async #lookUntilSeen(): Promise<void> {
    const { storage, id, clock } = this.#awaited;
    while (this.#lookAgain && !this.#over) {
      this.#lookAgain = false;
      const [record] = await storage.find([id]);
      if (record === undefined) this.#fail(new JobNotFoundError(id));
      else if (ENDED.includes(record.state)) this.#end(() => this.#settle.resolve(record));
    }
    this.#looking = false;
    if (this.#over) return;
    this.#cancelPoll();
    this.#cancelPoll = clock.after(LOOK_AGAIN_MS, () => this.#look());
  }

  #fail(reason: unknown): void {
    this.#end(() => this.#settle.reject(reason));
  }

  #end(settle: () => void): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelPoll();
    for (const leave of this.#leave) leave();
    settle();
  }
}

/** Calls back with every progress of the job that is heard of, until it ends or the returned function is called. */
export function followProgress(
  storage: JobStorage,
  queue: string,
  id: string,
  callback: (progress: JobProgress) => void,
): () => void {
  const unsubscribe = storage.subscribe({
    queue,
    event: (event) => {
      if (!("id" in event) || event.id !== id) return;
      if (event.event === "progress") callback(event.progress);
      else if (event.event === "completed" || event.event === "dead" || event.event === "cancelled") unsubscribe();
    },
  });
  // It may have ended before, or be gone: then there is nothing to hear.
  storage.find([id]).then(
    ([record]) => {
      if (record === undefined || ENDED.includes(record.state)) unsubscribe();
    },
    () => unsubscribe(),
  );
  return unsubscribe;
}
