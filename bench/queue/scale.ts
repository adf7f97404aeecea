import type { Rounds } from "../harness.ts";

/** A first look takes less of everything, and its figures are not kept. */
export const quick = process.env["SLUICE_BENCH_QUICK"] === "1";

/** The parts of a benchmark that are run, where it has such parts. Empty: all of it. */
export const only: readonly string[] = (process.env["SLUICE_BENCH_ONLY"] ?? "")
  .split(",")
  .map((word) => word.trim())
  .filter((word) => word !== "");

export function rounds(full: number): number {
  return quick ? 1 : full;
}

/** Where a first round is not counted, except in a first look. */
export function warmedUp(full: number): Rounds {
  return { rounds: rounds(full), warmUp: !quick };
}

export function size(full: number): number {
  return quick ? Math.ceil(full / 8) : full;
}
