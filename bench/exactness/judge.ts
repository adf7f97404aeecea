import { median } from "../harness.ts";

/** At most so many in any window of this length. */
export interface Limit {
  readonly max: number;
  readonly windowMs: number;
}

/** What the calls of one run say about the limit that they were to keep. */
export interface Judged {
  /** The most calls in any half-open window. */
  readonly worst: number;
  /** In how many of the windows that begin with a call and could have one too many there was one … */
  readonly over: number;
  /** … of how many. */
  readonly windows: number;
  /** After the warm-up: what its whole rounds of `max` calls take at the least, and what they took. */
  readonly idealMs: number;
  readonly tookMs: number;
  /** After the warm-up: how long after the earliest instant that the calls before it allowed each was made. */
  readonly lateness: readonly number[];
}

/** `unsorted`: when each call was made. `warm`: use and lateness are judged from here on; windows are from the first call. */
export function judge(unsorted: readonly number[], { max, windowMs }: Limit, warm: number): Judged {
  const calls = unsorted.toSorted((a, b) => a - b);
  let worst = 0;
  let oldest = 0;
  let over = 0;
  for (const [i, at] of calls.entries()) {
    while (at - calls[oldest]! >= windowMs) oldest += 1;
    worst = Math.max(worst, i - oldest + 1);
    if (i >= max && at - calls[i - max]! < windowMs) over += 1;
  }
  const used = calls.filter((at) => at >= warm);
  const last = used.length - 1;
  const rounds = Math.max(0, Math.floor(last / max));
  return {
    worst,
    over,
    windows: Math.max(0, calls.length - max),
    idealMs: rounds * windowMs,
    tookMs: rounds === 0 ? 0 : used[last]! - used[last - rounds * max]!,
    lateness: used.slice(max).map((at, i) => at - used[i]! - windowMs),
  };
}

/** Several runs as one. */
export interface Summary {
  readonly worst: number;
  readonly over: number;
  readonly windows: number;
  /** How much of the allowance was used. More than all of it is no use of it. */
  readonly use: number;
  readonly late: number;
}

export function summary(runs: readonly Judged[]): Summary {
  const sum = (figure: (run: Judged) => number) => runs.reduce((total, run) => total + figure(run), 0);
  return {
    worst: Math.max(...runs.map(({ worst }) => worst)),
    over: sum(({ over }) => over),
    windows: sum(({ windows }) => windows),
    use: sum(({ idealMs }) => idealMs) / sum(({ tookMs }) => tookMs),
    late: median(runs.flatMap(({ lateness }) => lateness)),
  };
}
