import type { Arrival } from "./plan.ts";

/** What became of one job. */
export interface Run extends Arrival {
  readonly id: string;
  /** null: it has not. */
  startedAt: number | null;
  endedAt: number | null;
}

/** How the simulation went, job by job. */
export interface Played {
  /** In the order in which they came. */
  readonly runs: readonly Run[];
  /** When it ended. */
  readonly endedAt: number;
  /** Why it ended: nothing was left to do, the time was over, nothing of what waits can ever start, or it became too much. */
  readonly ended: "done" | "time" | "stuck" | "too much";
  /** Jobs were left out, for there would have been more than `maxJobs`. */
  readonly capped: boolean;
  /** For how long jobs waited for each limit, all jobs together, in milliseconds. */
  readonly blame: ReadonlyMap<string, number>;
  /** What the jobs that still wait are waiting for, and how many of them. */
  readonly held: ReadonlyMap<string, number>;
  /** How often the storage was asked for jobs. */
  readonly claims: number;
}

/** Stands for the workers among the limits: all of them were busy. */
export const WORKERS = "workers";
/** Stands for the order of jobs: others came first. */
export const TURN = "turn";
