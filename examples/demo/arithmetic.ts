import type { Plan } from "./plan.ts";

type Quota = Pick<Plan, "quota" | "windowMs">;

/**
 * How much of the allowance was used, 0 to 1; undefined while no call has followed a full quota. A quota that is used to
 * the full lets every call follow its forerunner, the call a full quota earlier, by exactly a window.
 */
export function useOfAllowance(times: readonly number[], { quota, windowMs }: Quota): number | undefined {
  const gaps = quotaGaps(times, quota);
  return gaps.length === 0 ? undefined : windowMs / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length);
}

/** How much later than allowed the call came that was nearest to being refused; undefined as above. */
export function margin(times: readonly number[], { quota, windowMs }: Quota): number | undefined {
  const gaps = quotaGaps(times, quota);
  return gaps.length === 0 ? undefined : gaps.reduce((least, gap) => Math.min(least, gap), Infinity) - windowMs;
}

function quotaGaps(times: readonly number[], quota: number): number[] {
  return times.slice(quota).map((time, i) => time - times[i]!);
}
