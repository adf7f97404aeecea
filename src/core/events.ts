import type { ErrorRecord, JobProgress, JobWarning } from "./job.ts";
import type { LimitChanged, LimitKept } from "./limit-change.ts";

/** What every event of a job says. */
interface OfJob {
  readonly queue: string;
  readonly id: string;
  readonly type: string;
}

/** What every event of a worker says. */
interface OfWorker {
  readonly queue: string;
  readonly worker: string;
}

/** What every event of a shared limit says: it belongs to no queue, and listeners of every queue hear it. */
interface OfLimit {
  readonly queue: null;
}

/** Everything that can be heard of, by its name. */
export interface JobEvents {
  readonly added: OfJob;
  readonly started: OfJob & { readonly attempt: number; readonly worker: string };
  readonly progress: OfJob & { readonly progress: JobProgress };
  /** Its result, progress, log line or real weights could not be kept as its handler gave them. The job goes on as if they were. */
  readonly warning: OfJob & JobWarning & { readonly attempt: number };
  readonly completed: OfJob & { readonly attempt: number };
  /** It failed, or was given back, and will be tried again in `inMs`. */
  readonly retried: OfJob & { readonly attempt: number; readonly inMs: number; readonly error: ErrorRecord | null };
  readonly dead: OfJob & { readonly attempt: number; readonly error: ErrorRecord };
  readonly cancelled: OfJob;
  /** Its worker let the lease run out. It goes back into the queue, or is dead if that was the last attempt. */
  readonly stalled: OfJob & { readonly attempt: number; readonly worker: string };
  /** A worker has work and may not start it: what is in the way, and for how long (null: until something is released). */
  readonly "rate-limited": OfWorker & { readonly blockedBy: string; readonly retryInMs: number | null };
  /** A worker finished the last job there was, and nothing waits. */
  readonly drained: OfWorker;
  readonly "worker-started": OfWorker;
  readonly "worker-stopped": OfWorker;
  /** A shared limit was declared, declared with other numbers, changed by hand or removed. */
  readonly "limit-changed": OfLimit & LimitChanged;
  /** A declaration was older than what is stored: the stored limit holds, and the process runs under it. */
  readonly "limit-kept": OfLimit & LimitKept;
  /**
   * Jobs of this type wait, and no live worker of the queue has handled the type for half a minute: a name is misspelt, or a
   * worker is missing. Told once, until it is handled or none waits. A live worker of any queue in the storage notices it.
   */
  readonly unhandled: { readonly queue: string; readonly type: string };
}

export type JobEventName = keyof JobEvents;

/** One event, told apart by `event`. */
export type JobEvent = { [Name in JobEventName]: { readonly event: Name } & JobEvents[Name] }[JobEventName];

export const JOB_EVENT_NAMES: readonly JobEventName[] = [
  "added",
  "started",
  "progress",
  "warning",
  "completed",
  "retried",
  "dead",
  "cancelled",
  "stalled",
  "rate-limited",
  "drained",
  "worker-started",
  "worker-stopped",
  "limit-changed",
  "limit-kept",
  "unhandled",
];
