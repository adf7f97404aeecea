import type { JobState } from "../core/job.ts";
import { handles, type WorkerRecord } from "./workers.ts";

/*
 * Read-only queries for the operators of a storage. No job depends on them.
 */
export interface Inspection {
  /** The wall clock that the storage shows instants by. */
  now(): Promise<number>;
  /** Limits that are held or have counted starts lately, the held ones first. */
  limits(most: number): Promise<readonly LimitInUse[]>;
  /** How many jobs a change would apply to. */
  count(filter: CountFilter): Promise<number>;
}

export interface LimitInUse {
  readonly name: string;
  /** The counted starts … */
  readonly starts: number;
  /** … in the longest window that was asked for under this name. */
  readonly windowMs: number;
  /** How long it is held; null: it is not. */
  readonly heldForMs: number | null;
}

export interface CountFilter {
  readonly queue: string;
  readonly states: readonly JobState[];
  readonly type: string | null;
  readonly group: string | null;
  readonly endedForMs: number | null;
}

/** The waiting jobs of one type. */
export interface WaitingJobs {
  readonly queue: string;
  readonly type: string;
  readonly waiting: number;
  /** How long the first of them has been due. */
  readonly oldestMs: number;
  /** When one of the type was last started; null: none that is still kept. */
  readonly lastStartMs: number | null;
}

/** The health of the stored jobs. */
export interface JobFacts {
  readonly rows: readonly { readonly table: string; readonly rows: number }[];
  /** Leases that have expired and were not swept. */
  readonly expired: { readonly jobs: number; readonly oldestMs: number };
  /** Jobs whose `keepFor` is over and that were not deleted. */
  readonly overdue: { readonly jobs: number; readonly oldestMs: number };
  /** Jobs with a stamp that lies in the future. */
  readonly fromTheFuture: number;
  readonly served: ServedFacts;
}

/** The waiting jobs and the declared limits, compared with the live workers. */
export interface ServedFacts {
  /** How many live workers there are. */
  readonly workers: number;
  /** Types that a live worker handles, and of which no job starts. */
  readonly stuck: readonly WaitingJobs[];
  /** Types that no live worker handles. */
  readonly unhandled: readonly WaitingJobs[];
  /** How many shared limits are stored. */
  readonly limits: number;
  /** Those of them that no live worker declares; null: no live worker declares any, so they come from elsewhere. */
  readonly undeclared: readonly string[] | null;
}

export interface Served {
  /** Types that wait for longer than `waitingLeast` allows, and are not paused; the first has waited for the longest. */
  readonly waiting: readonly WaitingJobs[];
  readonly workers: readonly WorkerRecord[];
  /** The names of the limits that are stored. */
  readonly limits: readonly string[];
  /** A type of which jobs wait for longer, while none starts, is stuck. */
  readonly stuckMs: number;
}

/** A type without a worker is reported when its first job has waited for so long, so that a deploy raises no alarm. */
const UNHANDLED_MS = 60_000;
const MOST_TYPES = 10;

/** Types whose jobs wait for less than this are ignored. */
export const waitingLeast = (stuckMs: number): number => Math.min(stuckMs, UNHANDLED_MS);

export function servedFacts({ waiting, workers, limits, stuckMs }: Served): ServedFacts {
  const isHandled = ({ queue, type }: WaitingJobs) => workers.some((one) => one.queue === queue && handles(one, type));
  const isStuck = ({ oldestMs, lastStartMs }: WaitingJobs) =>
    oldestMs > stuckMs && (lastStartMs === null || lastStartMs > stuckMs);
  const declared = new Set(workers.flatMap((one) => one.limits));
  const unlisted = workers.some(({ moreLimits }) => moreLimits > 0);
  return {
    workers: workers.length,
    stuck: waiting.filter((one) => isStuck(one) && isHandled(one)).slice(0, MOST_TYPES),
    unhandled: waiting.filter((one) => one.oldestMs > UNHANDLED_MS && !isHandled(one)).slice(0, MOST_TYPES),
    limits: limits.length,
    undeclared: declared.size === 0 ? null : unlisted ? [] : limits.filter((name) => !declared.has(name)),
  };
}
