/** What the service allows. */
export interface Quota {
  /** So many calls in any window … */
  readonly quota: number;
  readonly windowMs: number;
  /** … and so many at the same time. */
  readonly concurrency: number;
}

/** What the service saw, by its own clock. */
export interface ServiceRecord {
  /** When each call arrived, allowed or not: milliseconds, ascending. */
  readonly arrivals: readonly number[];
  /** How many were answered with 429. */
  readonly refused: number;
  /** The most that were at work at the same time. */
  readonly mostAtOnce: number;
}

/** How long the service works on a call. */
export const WORK_MS = 100;
