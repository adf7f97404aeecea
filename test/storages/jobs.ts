import type { ClaimRequest, NewJob } from "../../src/storage/job-storage.ts";

let made = 0;

/** A job as simple as can be, but for what is said about it. */
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

/** A claim of anything there is in the queue, but for what is said about it. */
export function anything(said: Partial<ClaimRequest> = {}): ClaimRequest {
  return { queue: "q", worker: "w", max: 10, types: null, leaseMs: 30_000, limits: [], settle: [], ...said };
}

export { rule as limitRule } from "../../src/testing/suite/limit-words.ts";
