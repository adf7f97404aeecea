import type { ErrorRecord, JobProgress, JobWarning } from "./job.ts";
import type { LimitChanged, LimitKept } from "./limit-change.ts";

/** Fields of every event of a job. */
interface OfJob {
  readonly queue: string;
  readonly id: string;
  readonly type: string;
}

/** Fields of every event of a worker. */
interface OfWorker {
  readonly queue: string;
  readonly worker: string;
}

/** Fields of every event of a shared limit: it belongs to no queue, and listeners of every queue get it. */
interface OfLimit {
  readonly queue: null;
}

/** All events, by name. */
export interface JobEvents {
  readonly added: OfJob;
  readonly started: OfJob & { readonly attempt: number; readonly worker: string };
  readonly progress: OfJob & { readonly progress: JobProgress };
  /** A result, progress, log line or weight could not be kept as the handler gave it. The job goes on. */
  readonly warning: OfJob & JobWarning & { readonly attempt: number };
  readonly completed: OfJob & { readonly attempt: number };
  /** It failed, or was given back, and will be tried again in `inMs`. */
  readonly retried: OfJob & { readonly attempt: number; readonly inMs: number; readonly error: ErrorRecord | null };
  readonly dead: OfJob & { readonly attempt: number; readonly error: ErrorRecord };
  readonly cancelled: OfJob;
  /** Its worker let the lease run out. It goes back into the queue, or is dead if that was the last attempt. */
  readonly stalled: OfJob & { readonly attempt: number; readonly worker: string };
  /** Jobs wait, and a limit blocks them: its name, and for how long (null: until a release). */
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
   * worker is missing. Published once, until the type is handled or no job of it waits, by a live worker of any queue in the storage.
   */
  readonly unhandled: { readonly queue: string; readonly type: string };
}

export type JobEventName = keyof JobEvents;

/** One event; `event` is its name. */
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
