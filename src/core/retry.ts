import type { BackoffPlan } from "./job.ts";
import type { Random } from "./random.ts";

/** A delay of your own: how long to wait, in milliseconds, after attempt number `attempt` (from 1) failed with `error`. */
export type BackoffStrategy = (attempt: number, error: unknown) => number;

/** From one second, doubled each time, up to ten minutes; any part of it, so that those who failed together spread out. */
export const DEFAULT_BACKOFF: BackoffPlan = { kind: "exponential", initial: 1_000, max: 600_000 };

/**
 * How long to wait after attempt number `attempt` (from 1) failed. `undefined`: the plan names a strategy that is not
 * known here.
 */
export function retryDelay(
  plan: BackoffPlan,
  attempt: number,
  error: unknown,
  random: Random,
  strategies: ReadonlyMap<string, BackoffStrategy>,
): number | undefined {
  if (plan.kind === "fixed") return plan.delay;
  if (plan.kind === "exponential") return random() * Math.min(plan.max, plan.initial * 2 ** Math.min(attempt - 1, 60));
  const delay = strategies.get(plan.name)?.(attempt, error);
  return typeof delay === "number" && delay >= 0 && delay <= 1e12 ? delay : undefined;
}
