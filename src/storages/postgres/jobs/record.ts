import type { BackoffPlan, ErrorRecord, JobProgress, JobRecord, JobState } from "../../../core/job.ts";

/**
 * A job as steps answer with it: its columns in this order (sql/jobs/job_json.sql); the last of them are left out together
 * where they are empty. What is kept as JSON may be anything: somebody may have written it by hand.
 */
export type JobRow = readonly [
  seq: number,
  id: string,
  queue: string,
  type: string,
  state: JobState,
  priority: number,
  data: string,
  attempt: number,
  maxAttempts: number,
  backoff: string | null,
  keepFor: number | null,
  createdAt: number,
  dueAt: number,
  startedAt: number | null,
  worker: string | null,
  leaseUntil: number | null,
  token: number,
  group?: string | null,
  weights?: unknown,
  timeout?: number | null,
  deadline?: number | null,
  holds?: number,
  finishedAt?: number | null,
  cancelRequested?: boolean,
  progress?: string | null,
  result?: string | null,
  error?: string | null,
  idempotencyKey?: string | null,
];

/** The job in a row. `now`: one that has come due by then waits, whether or not anybody has written that down. */
export function toRecord(row: JobRow, now = Number.NEGATIVE_INFINITY): JobRecord {
  const [state, dueAt, progress = null, error = null] = [row[4], row[12], row[24], row[26]];
  return {
    id: row[1],
    queue: row[2],
    type: row[3],
    data: row[6],
    state: state === "scheduled" && dueAt <= now ? "waiting" : state,
    priority: row[5],
    group: row[17] ?? null,
    weights: readWeights(row[18]),
    attempt: row[7],
    maxAttempts: row[8],
    backoff: row[9] === null ? DEFAULT_BACKOFF : readBackoff(row[9]),
    timeout: row[19] ?? null,
    deadline: row[20] ?? null,
    keepFor: row[10],
    holds: row[21] ?? 0,
    createdAt: row[11],
    dueAt,
    startedAt: row[13],
    finishedAt: row[22] ?? null,
    worker: row[14],
    leaseUntil: row[15],
    token: row[16],
    cancelRequested: row[23] ?? false,
    progress: progress === null ? null : readProgress(progress),
    result: row[25] ?? null,
    error: error === null ? null : readError(error),
    idempotencyKey: row[27] ?? null,
  };
}

/** An error that was kept; a stand-in for one that cannot be read. */
export function readError(text: string): ErrorRecord {
  const error = readObject(text) as ErrorRecord | null;
  if (error !== null && typeof error.name === "string" && typeof error.message === "string") return error;
  return { name: "Error", message: "what was kept of the error cannot be read" };
}

const DEFAULT_BACKOFF: BackoffPlan = { kind: "exponential", initial: 1_000, max: 600_000 };

/** Almost all jobs have the plan of the one before. */
let latestText = "";
let latestPlan: BackoffPlan = DEFAULT_BACKOFF;

function readBackoff(text: string): BackoffPlan {
  if (text !== latestText) {
    const plan = readObject(text) as BackoffPlan | null;
    latestPlan = plan !== null && isBackoff(plan) ? plan : DEFAULT_BACKOFF;
    latestText = text;
  }
  return latestPlan;
}

function isBackoff(plan: BackoffPlan): boolean {
  switch (plan.kind) {
    case "exponential":
      return isDelay(plan.initial) && isDelay(plan.max);
    case "fixed":
      return isDelay(plan.delay);
    case "custom":
      return typeof plan.name === "string";
    default:
      return false;
  }
}

const isDelay = (value: unknown): boolean => typeof value === "number" && value >= 0;

/** What a job weighs, as it was kept; null: nothing that can be read. */
export function readWeights(weights: unknown): Readonly<Record<string, number>> | null {
  if (typeof weights !== "object" || weights === null || Array.isArray(weights)) return null;
  return Object.values(weights).every((weight) => typeof weight === "number")
    ? (weights as Readonly<Record<string, number>>)
    : null;
}

function readProgress(text: string): JobProgress | null {
  const progress = readObject(text) as JobProgress | null;
  return typeof progress?.percent === "number" ? progress : null;
}

/** The object in a text, whatever it is made of; null if there is none. */
function readObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
