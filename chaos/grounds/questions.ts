import type { AttemptRecord, JobState } from "../../src/core/job.ts";

/** A failed attempt, as the tables of every ground have it. */
export interface AttemptRow {
  readonly id: string;
  readonly attempt: number;
  readonly started_at: number;
  readonly ended_at: number;
  readonly worker: string;
  readonly error: string;
}

export interface CountRow {
  readonly queue: string;
  readonly state: JobState;
  readonly n: number;
}

/** By job. */
export function attemptsOf(rows: readonly AttemptRow[]): Map<string, AttemptRecord[]> {
  const byJob = new Map<string, AttemptRecord[]>();
  for (const { id, attempt, started_at, ended_at, worker, error } of rows) {
    const parsed = JSON.parse(error) as AttemptRecord["error"];
    const all = byJob.get(id) ?? [];
    all.push({ attempt, startedAt: started_at, endedAt: ended_at, worker, error: parsed });
    byJob.set(id, all);
  }
  return byJob;
}

/** By queue. */
export function countsOf(rows: readonly CountRow[]): Map<string, Partial<Record<JobState, number>>> {
  const byQueue = new Map<string, Partial<Record<JobState, number>>>();
  for (const { queue, state, n } of rows) byQueue.set(queue, { ...byQueue.get(queue), [state]: n });
  return byQueue;
}
