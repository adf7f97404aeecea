import type { JobKeys } from "../../core/job.ts";
import type { LimitRule } from "../../limits/rule.ts";

/** What a simulation is asked to do. Times are in milliseconds. */
export interface Plan {
  readonly limits: readonly LimitRule[];
  readonly work: readonly Work[];
  /** So many workers for each queue, */
  readonly workers: number;
  /** and so many jobs at the same time in each of them. */
  readonly concurrency: number;
  /** When it ends, whatever still waits; null: when everything is done. */
  readonly forMs: number | null;
  readonly seed: number;
  /** No more jobs than this are added. */
  readonly maxJobs: number;
}

/** Values that jobs have. */
export interface Values {
  /** Each, and how often it comes, by proportion. */
  readonly shares: readonly (readonly [string, number])[];
  /** By turns, not by chance. */
  readonly byTurns: boolean;
}

/** Jobs of one kind. */
export interface Work {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  /** How many in all; null: as many as come in time. */
  readonly jobs: number | null;
  /** So many come at once, at the beginning. */
  readonly burst: number;
  /** The others come so far apart, on average; null: all at once. */
  readonly everyMs: number | null;
  readonly arrivals: "steady" | "poisson";
  /** When the first comes. */
  readonly fromMs: number;
  /** null: jobs have no group. */
  readonly groups: Values | null;
  /** The values of each key, by its name. */
  readonly keys: Readonly<Record<string, Values>>;
  /** How long a job runs: the mean, and how far most are from it, as a part of the mean. */
  readonly durationMs: number;
  readonly spread: number;
  /** What each weighs, from least to most. */
  readonly weights: Readonly<Record<string, readonly [number, number]>>;
  /** What of it is really used, as a part of what was said. */
  readonly used: Readonly<Record<string, number>>;
}

export const DEFAULT_QUEUE = "work";
/** Beyond this a simulation takes minutes. */
export const MOST_JOBS = 200_000;

/** One job that comes. */
export interface Arrival {
  readonly at: number;
  readonly work: Work;
  readonly group: string | null;
  readonly keys?: JobKeys | undefined;
  readonly durationMs: number;
  readonly weights: Readonly<Record<string, number>> | null;
}
