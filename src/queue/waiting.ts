import type { Clock } from "../core/clock.ts";
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
  const record = await whenEnded(awaited);
  switch (record.state) {
    case "completed":
      return resultOf(record);
    case "dead":
      throw errorFrom(record.error ?? { name: "JobError", message: "the job is dead" });
    default:
      throw new AbortSignalJobError(`job ${record.id} was cancelled`);
  }
}

/** Every way out settles it: ended, removed, aborted, too late. */
function whenEnded({ storage, queue, id, clock, signal, timeout }: Awaited): Promise<JobRecord> {
  return new Promise((resolve, reject) => {
    let over = false;
    let looking = false;
    let again = false;
    let cancelPoll = () => {};

    const end = (settle: () => void) => {
      if (over) return;
      over = true;
      cancelPoll();
      cancelTimeout();
      unsubscribe();
      signal?.removeEventListener("abort", onAbort);
      settle();
    };
    const onAbort = () => end(() => reject(signal?.reason));

    const look = async () => {
      if (looking) {
        again = true;
        return;
      }
      looking = true;
      do {
        again = false;
        const [record] = await storage.find([id]);
        if (record === undefined) end(() => reject(new JobNotFoundError(id)));
        else if (ENDED.includes(record.state)) end(() => resolve(record));
      } while (again && !over);
      looking = false;
      if (!over) {
        cancelPoll();
        cancelPoll = clock.after(LOOK_AGAIN_MS, lookSafely);
      }
    };
    const lookSafely = () => {
      look().catch((error: unknown) => end(() => reject(error)));
    };

    const cancelTimeout =
      timeout === undefined
        ? () => {}
        : clock.after(timeout, () =>
            end(() => reject(new JobTimeoutError(`job ${id} has not ended within ${timeout} ms`))),
          );
    const unsubscribe = storage.subscribe({
      queue,
      event: (event) => {
        if ("id" in event && event.id === id && event.event !== "progress") lookSafely();
      },
    });
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    else lookSafely();
  });
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
  return unsubscribe;
}
