import type { AttemptRecord, JobRecord, JobState } from "../../src/core/job.ts";
import type { LimitState } from "../../src/storage/limit-storage.ts";

/** What the storage holds in the end, read through its contract and, to check that, straight from its tables. */
export interface Final {
  readonly jobs: readonly JobRecord[];
  /** Attempts that failed, by job. */
  readonly attempts: ReadonlyMap<string, readonly AttemptRecord[]>;
  /** What the storage answers: how many jobs of each queue are in each state. */
  readonly counts: ReadonlyMap<string, Readonly<Record<JobState, number>>>;
  /** The same, counted in the table. */
  readonly rows: ReadonlyMap<string, Readonly<Partial<Record<JobState, number>>>>;
  /** Shared limits, and what is in use of them. */
  readonly limits: readonly LimitState[];
  /** What is wrong with the tables: lanes that count wrong, rows that belong to no job, a damaged file. */
  readonly damage: readonly string[];
}
