import {
  AbortSignalJobError,
  HoldError,
  type JobError,
  JobTimeoutError,
  PermanentJobError,
  RetryableJobError,
  StaleLeaseError,
} from "../core/errors.ts";
import { recordError } from "../core/error-record.ts";
import type { JobRecord } from "../core/job.ts";
import { keepJson } from "../core/json.ts";
import type { Random } from "../core/random.ts";
import { type BackoffStrategy, DEFAULT_BACKOFF, plannedDelay, retryDelay } from "../core/retry.ts";
import type { Outcome } from "../storage/job-storage.ts";

/** Why a running job was aborted. */
export type AbortCause = "cancelled" | "timeout" | "deadline" | "lost" | "stopped";

/** The reason of the signal of an aborted job. */
export function abortReason(cause: AbortCause, { id, timeout }: JobRecord): Error {
  switch (cause) {
    case "cancelled":
      return new AbortSignalJobError(`job ${id} was cancelled`);
    case "stopped":
      return new AbortSignalJobError("the worker stops");
    case "timeout":
      return new JobTimeoutError(`the attempt took longer than ${timeout} ms`);
    case "deadline":
      return new JobTimeoutError("the deadline of the job has passed");
    case "lost":
      break;
  }
  return new StaleLeaseError(id);
}

/** What decides how a failed attempt is settled. */
export interface RetryPolicy {
  readonly random: Random;
  readonly backoffs: ReadonlyMap<string, BackoffStrategy>;
  /** How often a job may be sent back by a service that is over its limit before that counts as a failure. */
  readonly maxHolds: number;
  /** The limits of the claim itself: a `RateLimitedError` without a name holds them beside the shared ones. */
  readonly limitKeys: readonly string[];
  /** The names of the weights that its handler settled: these are not given back when a service refused the start. */
  readonly settled: readonly string[];
  /** Was the handler called? If not, the start of a job that goes back counts nowhere. */
  readonly called: boolean;
  /** The wall clock now. */
  readonly wall: number;
  /** Reports a back-off that cannot be used. The job is tried again all the same. */
  readonly report: (error: JobError) => void;
  /** In how many milliseconds the limiter would let the next job start. */
  readonly limiterIn: number;
}

const LARGEST_RESULT = 2 ** 20;
/** The hold for a service that is over its limit and does not say for how long. */
const UNSAID_HOLD_MS = 1_000;

/** The handler returned: the job is completed, even if its result cannot be kept. */
export function succeeded(job: JobRecord, value: unknown): { readonly outcome: Outcome; readonly warning?: string } {
  const completed = (result: string | null): Outcome => ({ id: job.id, token: job.token, to: "completed", result });
  if (value === undefined) return { outcome: completed(null) };
  const { text, warning } = keepJson("result", value, LARGEST_RESULT);
  return { outcome: completed(text), ...(warning !== undefined && { warning }) };
}

/** Gives a job back before its handler was called, due in `inMs`: no attempt is spent, and its start counts under no limit. */
export function givenBack(job: JobRecord, inMs = 0): Outcome {
  return back(job, inMs, true);
}

function back(job: JobRecord, inMs: number, unstarted: boolean): Outcome {
  return { id: job.id, token: job.token, to: "back", inMs, held: false, error: null, hold: null, unstarted };
}

/** Does it give back a job whose handler was never called? */
export function isUnstarted(outcome: Outcome): boolean {
  return outcome.to === "back" && outcome.unstarted;
}

/** The handler threw, or was aborted. */
export function failed(job: JobRecord, thrown: unknown, cause: AbortCause | undefined, policy: RetryPolicy): Outcome {
  const lease = { id: job.id, token: job.token };
  if (cause === "stopped" || (cause === "lost" && !policy.called)) return back(job, 0, !policy.called);
  if (cause === "cancelled") return { ...lease, to: "cancelled", error: recordError(thrown) };
  if (cause === "deadline") return { ...lease, to: "dead", error: recordError(abortReason(cause, job)) };
  if (cause === "timeout") return again(job, abortReason(cause, job), policy);
  if (thrown instanceof AbortSignalJobError) return { ...lease, to: "cancelled", error: recordError(thrown) };
  if (thrown instanceof PermanentJobError) return { ...lease, to: "dead", error: recordError(thrown) };
  if (thrown instanceof HoldError && job.holds < policy.maxHolds) return held(job, thrown, policy);
  return again(job, thrown, policy);
}

function held(job: JobRecord, thrown: HoldError, policy: RetryPolicy): Outcome {
  const forMs = thrown.holdMs(policy.wall) ?? UNSAID_HOLD_MS;
  const hold =
    thrown.limit === undefined
      ? { names: policy.limitKeys, scope: true, forMs }
      : { names: [thrown.limit], scope: false, forMs };
  return {
    id: job.id,
    token: job.token,
    to: "back",
    inMs: forMs,
    held: true,
    settled: policy.settled,
    error: recordError(thrown),
    hold: forMs === 0 ? null : hold,
    unstarted: false,
  };
}

/** Retries the job, if it has an attempt left. */
function again(job: JobRecord, thrown: unknown, policy: RetryPolicy): Outcome {
  const lease = { id: job.id, token: job.token };
  const error = recordError(thrown);
  if (job.attempt >= job.maxAttempts) return { ...lease, to: "dead", error };
  return { ...lease, to: "retry", inMs: delay(job, thrown, policy), error };
}

function delay(job: JobRecord, thrown: unknown, policy: RetryPolicy): number {
  const { random, backoffs, wall, limiterIn } = policy;
  if (thrown instanceof RetryableJobError && thrown.retryDate !== undefined) {
    return Math.max(0, thrown.retryDate.getTime() - wall);
  }
  let planned = retryDelay(job.backoff, job.attempt, thrown, random, backoffs);
  if (typeof planned !== "number") {
    policy.report(planned);
    planned = plannedDelay(DEFAULT_BACKOFF, job.attempt, random);
  }
  return thrown instanceof RetryableJobError && Number.isFinite(limiterIn) ? Math.max(planned, limiterIn) : planned;
}
