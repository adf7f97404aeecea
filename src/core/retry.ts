import { JobError, show } from "./errors.ts";
import type { BackoffPlan } from "./job.ts";
import type { Random } from "./random.ts";

/** A delay of your own: how long to wait, in milliseconds, after attempt number `attempt` (from 1) failed with `error`. */
export type BackoffStrategy = (attempt: number, error: unknown) => number;

/** From one second, doubled each time, up to ten minutes, with full jitter, so that jobs that failed together spread out. */
export const DEFAULT_BACKOFF = { kind: "exponential", initial: 1_000, max: 600_000 } as const satisfies BackoffPlan;

const LONGEST_MS = 1e12;

/** How long to wait after attempt number `attempt` (from 1) failed, by a plan that needs no strategy. */
export function plannedDelay(
  plan: Exclude<BackoffPlan, { readonly kind: "custom" }>,
  attempt: number,
  random: Random,
): number {
  return plan.kind === "fixed"
    ? plan.delay
    : random() * Math.min(plan.max, plan.initial * 2 ** Math.min(attempt - 1, 60));
}

/**
 * The same by any plan. For a strategy that is missing, throws, or returns no duration the result
 * is a `JobError`: the caller then uses the default back-off.
 */
export function retryDelay(
  plan: BackoffPlan,
  attempt: number,
  error: unknown,
  random: Random,
  strategies: ReadonlyMap<string, BackoffStrategy>,
): number | JobError {
  if (plan.kind !== "custom") return plannedDelay(plan, attempt, random);
  const { name } = plan;
  const strategy = strategies.get(name);
  if (strategy === undefined) {
    return new JobError(`this worker does not know the back-off ${JSON.stringify(name)} of the job: ${HOW_TO_KNOW}`);
  }
  try {
    const delay: unknown = strategy(attempt, error);
    if (typeof delay === "number" && delay >= 0 && delay <= LONGEST_MS) return delay;
    const expected = `milliseconds from 0 to ${LONGEST_MS}`;
    return new JobError(
      `the back-off ${JSON.stringify(name)} returned ${show(delay)}, expected ${expected}; ${INSTEAD}`,
    );
  } catch (cause) {
    return new JobError(`the back-off ${JSON.stringify(name)} threw an error; ${INSTEAD}`, { cause });
  }
}

const INSTEAD = "the default back-off is used";
const HOW_TO_KNOW = `give it to the worker as \`backoffs: { name: (attempt, error) => milliseconds }\`; ${INSTEAD}`;
