import type { Played } from "./runs.ts";

/** What happened in each of many stretches of time of the same length. */
export interface Series {
  readonly bucketMs: number;
  /** How many jobs waited, on average over the stretch. */
  readonly waiting: readonly number[];
  /** How many started in it. */
  readonly starts: readonly number[];
}

/** Lengths that are easy to read on an axis. */
const LENGTHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].map((s) => s * 1_000)].concat(
  [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1_440].map((m) => m * 60_000),
);

/** Over the whole time, in as many stretches as fit into `most`. */
export function seriesOf({ runs, endedAt }: Played, most: number): Series {
  const bucketMs = bucketFor(endedAt, most);
  const size = Math.max(1, Math.ceil(endedAt / bucketMs));
  // What happens at the very end belongs to the last stretch.
  const place = (at: number) => Math.min(size - 1, Math.floor(at / bucketMs));
  const starts = Array.from({ length: size }, () => 0);
  // How long jobs wait in each stretch: the change at its beginning, and the rest of the first and last.
  const area = new Float64Array(size);
  const steps = new Float64Array(size + 1);
  for (const { at, startedAt } of runs) {
    if (startedAt !== null) starts[place(startedAt)]! += 1;
    const until = startedAt ?? endedAt;
    const [first, last] = [place(at), place(until)];
    if (first === last) {
      area[first]! += until - at;
      continue;
    }
    area[first]! += (first + 1) * bucketMs - at;
    area[last]! += until - last * bucketMs;
    steps[first + 1]! += 1;
    steps[last]! -= 1;
  }
  let whole = 0;
  const waiting = starts.map((_, i) => {
    whole += steps[i]!;
    const length = Math.min(bucketMs, endedAt - i * bucketMs);
    return length > 0 ? (whole * length + area[i]!) / length : 0;
  });
  return { bucketMs, waiting, starts };
}

function bucketFor(endedAt: number, most: number): number {
  const least = endedAt / most;
  return LENGTHS.find((length) => length >= least) ?? Math.ceil(least / 86_400_000) * 86_400_000;
}
