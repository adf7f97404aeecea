import type { JobRecord } from "../../../core/job.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import { DEFAULT_BACKOFF, readBackoff, readError, readKeys, readProgress, readWeights } from "../../../storage/kept.ts";

/** Jobs that a claim has started, all of them at one instant: what is different about them (sql/pick.sql: start_jobs). */
export type StartedJobs = readonly [
  at: number,
  tokens: readonly number[],
  ids: readonly string[],
  types: readonly string[],
  priorities: readonly number[],
  data: readonly string[],
  attempts: readonly number[],
  maxAttempts: readonly number[],
  backoffs: readonly (string | null)[],
  keepFors: readonly (number | null)[],
  createdAts: readonly number[],
  dueAts: readonly number[],
  groups: readonly (string | null)[],
  /** What most of them have nothing of. */
  rests: readonly (Rest | null)[],
];

type Rest = readonly [
  weights: unknown,
  timeout: number | null,
  deadline: number | null,
  holds: number,
  cancelRequested: boolean,
  progress: string | null,
  error: string | null,
  idempotencyKey: string | null,
  keys: string | null,
];

const NOTHING: Rest = [null, null, null, 0, false, null, null, null, null];

/** Those jobs, in the order in which they were started. */
export function startedRecords(started: StartedJobs, request: ClaimRequest): JobRecord[] {
  const [at, tokens] = started;
  const { queue, worker, leaseMs } = request;
  const records = tokens.map((token, i): JobRecord => {
    const [weights, timeout, deadline, holds, cancelRequested, progress, error, idempotencyKey, keys] =
      started[13][i] ?? NOTHING;
    const backoff = started[8][i]!;
    return {
      id: started[2][i]!,
      queue,
      type: started[3][i]!,
      data: started[5][i]!,
      state: "active",
      priority: started[4][i]!,
      group: started[12][i]!,
      keys: keys === null ? undefined : readKeys(keys),
      weights: readWeights(weights),
      attempt: started[6][i]!,
      maxAttempts: started[7][i]!,
      backoff: backoff === null ? DEFAULT_BACKOFF : readBackoff(backoff),
      timeout,
      deadline,
      keepFor: started[9][i]!,
      holds,
      createdAt: started[10][i]!,
      dueAt: started[11][i]!,
      startedAt: at,
      finishedAt: null,
      worker,
      leaseUntil: at + leaseMs,
      token,
      cancelRequested,
      progress: progress === null ? null : readProgress(progress),
      result: null,
      error: error === null ? null : readError(error),
      idempotencyKey,
    };
  });
  const inOrder = tokens.every((token, i) => i === 0 || tokens[i - 1]! < token);
  return inOrder ? records : records.toSorted((a, b) => a.token - b.token);
}
