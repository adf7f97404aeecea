import type { Quota } from "./quota.ts";

/**
 * How long after its forerunner, the call a full quota earlier, each call came. A quota that is used to the full lets
 * every call follow its forerunner by exactly a window; nothing may follow earlier.
 */
export function quotaGaps(times: readonly number[], quota: number): number[] {
  return times.slice(quota).map((time, i) => time - times[i]!);
}

/** How much of the allowance was used, 0 to 1; undefined while no call has followed a full quota. */
export function useOfAllowance(times: readonly number[], { quota, windowMs }: Quota): number | undefined {
  const gaps = quotaGaps(times, quota);
  return gaps.length === 0 ? undefined : windowMs / mean(gaps);
}

/** How long the next call must wait, if the limiter adds `guard` to the window. */
export function nextStartIn(times: readonly number[], { quota, windowMs }: Quota, guard: number, now: number): number {
  const forerunner = times.at(-quota);
  return forerunner === undefined ? 0 : Math.max(0, forerunner + windowMs + guard - now);
}

/** The value below which the given part of `values` lies. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
