import { median, quantile } from "../harness.ts";

/** What the starts of one run say about the window that they were to keep. */
export interface WindowFigures {
  /** From the first call to the last start. */
  readonly totalMs: number;
  /** The least that the limit allows. */
  readonly idealMs: number;
  /** The most starts in any half-open window of that length. */
  readonly worstWindow: number;
  /** By how much starts came after the earliest instant that the starts before them allowed. */
  readonly latenessMedian: number;
  readonly latenessP99: number;
}

export interface Run {
  /** In the order in which they happened. */
  readonly starts: readonly number[];
  /** When the first call was made. */
  readonly begin: number;
  readonly max: number;
  readonly windowMs: number;
}

export function figuresOf({ starts, begin, max, windowMs }: Run): WindowFigures {
  const lateness: number[] = [];
  for (let i = max; i < starts.length; i++) lateness.push(starts[i]! - starts[i - max]! - windowMs);
  return {
    totalMs: starts.at(-1)! - begin,
    idealMs: (Math.ceil(starts.length / max) - 1) * windowMs,
    worstWindow: worstWindow(starts, windowMs),
    latenessMedian: median(lateness),
    latenessP99: quantile(lateness, 0.99),
  };
}

function worstWindow(starts: readonly number[], windowMs: number): number {
  let worst = 0;
  let oldest = 0;
  for (let newest = 0; newest < starts.length; newest++) {
    while (starts[newest]! - starts[oldest]! >= windowMs) oldest += 1;
    worst = Math.max(worst, newest - oldest + 1);
  }
  return worst;
}
