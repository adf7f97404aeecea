/** The most of `times` (ascending) that lie in any stretch of `windowMs`. Two that are exactly a window apart do not share one. */
export function mostInAnyWindow(times: readonly number[], windowMs: number): number {
  let most = 0;
  let first = 0;
  for (const [i, time] of times.entries()) {
    while (time - times[first]! >= windowMs) first += 1;
    most = Math.max(most, i - first + 1);
  }
  return most;
}

/** The smallest distance from one of `times` (ascending) to the next. */
export function smallestGap(times: readonly number[]): number {
  return Math.min(...times.slice(1).map((time, i) => time - times[i]!));
}
