import { type Measured, median, ratio } from "../harness.ts";
import { percent, rank, ratioCells, thousands, times } from "../ranking.ts";
import type { Verdict } from "../row.ts";
import type { Finished } from "./bench.ts";

/** Two that are nearer to each other than this change places from run to run. */
const NOISE = 0.1;
const OF_RAW = 0.7;

/** One measured contender, with what becomes of its finished jobs. */
export interface Entry {
  readonly measured: Measured<number>;
  readonly finished: Finished;
}

/** The best peer and the minimum are those that treat finished jobs in the same way. */
function rivals({ finished }: Entry, all: readonly Entry[]) {
  return rank(
    all.filter((other) => other.finished === finished).map(({ measured }) => measured),
    "most",
  );
}

/** How much was done per second, and that against the best peer and against raw SQL. */
export function speedCells(entry: Entry, all: readonly Entry[]): [string, string, string] {
  const { measured } = entry;
  return [thousands(median(measured.figures)), ...ratioCells(measured, rivals(entry, all))];
}

/** How ours did. `where` says in which of the measurements. */
export function verdictsOf(all: readonly Entry[], where: string): Verdict[] {
  return all.filter(({ measured }) => measured.role === "sluice").flatMap((entry) => judge(entry, all, where));
}

function judge(entry: Entry, all: readonly Entry[], where: string): Verdict[] {
  const { name, figures } = entry.measured;
  const { bestPeer, minimum } = rivals(entry, all);
  const verdicts: Verdict[] = [];
  if (bestPeer !== undefined) {
    const found = ratio(figures, bestPeer.figures);
    verdicts.push({
      goal: `${name}${where} is ahead of every Postgres peer`,
      outcome: Math.abs(found - 1) < NOISE ? "tied" : found > 1 ? "won" : "lost",
      found: `${times(found)} of ${bestPeer.name}, the best of them`,
    });
  }
  if (minimum !== undefined) {
    const found = ratio(figures, minimum.figures);
    verdicts.push({
      goal: `${name}${where} reaches ${percent(OF_RAW)} of ${minimum.name}`,
      outcome: found >= OF_RAW ? "won" : "lost",
      found: percent(found),
    });
  }
  return verdicts;
}
