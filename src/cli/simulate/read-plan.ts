import { OptionsError } from "../../core/errors.ts";
import { anything, countOrZero, integer, optional, positiveDuration, readOptions } from "../../core/options.ts";
import { readLimits } from "../../limits/define.ts";
import { MOST_JOBS, type Plan } from "./plan.ts";
import { readWork } from "./read-work.ts";

/** What a plan may say beside its limits and its work. */
export const SETTINGS = {
  workers: optional(integer(1, 10_000), 1),
  concurrency: optional(integer(1, 100_000), 10),
  for: optional(positiveDuration, undefined),
  seed: optional(countOrZero, 1),
  maxJobs: optional(integer(1, 10_000_000), MOST_JOBS),
};

const PLAN = { ...SETTINGS, limits: optional(anything, {}), work: optional(anything, undefined) };

/** Reads the whole of a plan. Whatever it does not know is refused. */
export function readPlan(owner: string, given: unknown): Plan {
  const read = readOptions(owner, PLAN, given);
  const { work } = read;
  if (!Array.isArray(work) || work.length === 0 || work.length > 1_000) {
    throw new OptionsError(owner, "work", work, "an array of 1 to 1000 kinds of work");
  }
  return {
    limits: readLimits(owner, read.limits).rules,
    work: work.map((one, i) =>
      readWork(work.length === 1 ? owner : `${owner} work[${i}]`, one, read.for !== undefined),
    ),
    workers: read.workers,
    concurrency: read.concurrency,
    forMs: read.for ?? null,
    seed: read.seed,
    maxJobs: read.maxJobs,
  };
}
