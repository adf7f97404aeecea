import type { JobState } from "../core/job.ts";

/*
 * What can be seen of a storage from outside, for people who look after it. Nothing of it writes, and nothing of it is on the
 * way of a job: these are questions that no storage asks itself.
 */
export interface Inspection {
  /** The wall clock that the storage shows instants by. */
  now(): Promise<number>;
  /** How many workers hold a lease in each queue. */
  workers(): Promise<ReadonlyMap<string, number>>;
  /** How many open storages want to hear of changes: workers, mostly, at work or not. */
  listeners(): Promise<number>;
  /** Limits that hold something back or have counted something lately, those that hold first. */
  limits(most: number): Promise<readonly LimitInUse[]>;
  /** How many jobs a change would meet. */
  count(filter: CountFilter): Promise<number>;
}

export interface LimitInUse {
  readonly name: string;
  /** Starts that are counted … */
  readonly starts: number;
  /** … in the longest window that was asked for under this name. */
  readonly windowMs: number;
  /** For how long nothing starts under it because somebody said so; null: nobody did. */
  readonly heldForMs: number | null;
}

export interface CountFilter {
  readonly queue: string;
  readonly states: readonly JobState[];
  readonly type: string | null;
  readonly group: string | null;
  readonly endedForMs: number | null;
}

/** Jobs that wait for long while nothing of their type starts. */
export interface StuckJobs {
  readonly queue: string;
  readonly type: string;
  readonly waiting: number;
  /** How long the first of them has been due. */
  readonly oldestMs: number;
  /** When one of the type was last started; null: none that is still kept. */
  readonly lastStartMs: number | null;
}

/** The health of what is kept. */
export interface JobFacts {
  readonly rows: readonly { readonly table: string; readonly rows: number }[];
  /** Leases that have run out and were not taken back. */
  readonly expired: { readonly jobs: number; readonly oldestMs: number };
  /** Jobs that have been kept long enough and are still there. */
  readonly overdue: { readonly jobs: number; readonly oldestMs: number };
  readonly stuck: readonly StuckJobs[];
  /** Jobs with a stamp that lies in the future. */
  readonly fromTheFuture: number;
}
