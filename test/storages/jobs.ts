import type { ClaimRequest, NewJob } from "../../src/storage/job-storage.ts";

let made = 0;

/** A job with the simplest options, except those that are given. */
export function newJob(said: Partial<NewJob> = {}): NewJob {
  made += 1;
  return {
    id: `made-${process.pid}-${made}`,
    queue: "q",
    type: "t",
    data: "{}",
    due: { inMs: 0 },
    priority: 0,
    group: null,
    weights: null,
    maxAttempts: 3,
    backoff: { kind: "fixed", delay: 1_000 },
    timeout: null,
    deadline: null,
    keepFor: null,
    idempotency: null,
    ...said,
  };
}

/** A claim of any job of the queue, except for the options that are given. */
export function anything(said: Partial<ClaimRequest> = {}): ClaimRequest {
  return { queue: "q", worker: "w", max: 10, types: null, leaseMs: 30_000, limits: [], settle: [], ...said };
}

export { rule as limitRule } from "../../src/testing/suite/limit-words.ts";
