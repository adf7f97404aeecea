import { type Contender, interleave, median, type Measured, ratio, type Rounds } from "./harness.ts";
import { nameCell, percent, rank, type Ranking, ratioCells, thousands, times } from "./ranking.ts";
import type { Answer, Verdict } from "./row.ts";

export interface Goals {
  /** Share of the hand-written minimum to be reached. Left out: the minimum is shown, and nothing is promised. */
  readonly ofMinimum?: number;
}

/** Two contenders that differ by less than this change places from run to run. */
const NOISE = 0.1;

/** Operations per second of all contenders, the quickest first, with the ratios that matter. */
export async function compareThroughput(
  contenders: readonly Contender<number>[],
  rounds: Rounds,
  goals: Goals = {},
): Promise<Answer> {
  const { measured, skipped } = await interleave(contenders, rounds);
  const ranking = rank(measured, "most");
  return {
    columns: ["contender", "ops/s", "lowest to highest", "of best peer", "of minimum", "note"],
    lines: ranking.ranked.map((entry) => [
      nameCell(entry),
      thousands(median(entry.figures)),
      `${thousands(Math.min(...entry.figures))} to ${thousands(Math.max(...entry.figures))}`,
      ...ratioCells(entry, ranking),
      entry.note ?? "",
    ]),
    verdicts: ranking.ranked.filter(({ role }) => role === "sluice").flatMap((ours) => judge(ours, ranking, goals)),
    skipped,
  };
}

function judge({ name, figures }: Measured<number>, { bestPeer, minimum }: Ranking, goals: Goals): Verdict[] {
  const verdicts: Verdict[] = [];
  if (bestPeer !== undefined) {
    const found = ratio(figures, bestPeer.figures);
    verdicts.push({
      goal: `${name} is ahead of every peer measured`,
      outcome: Math.abs(found - 1) < NOISE ? "tied" : found > 1 ? "won" : "lost",
      found: `${times(found)} of ${bestPeer.name}, the best of them`,
    });
  }
  if (minimum !== undefined && goals.ofMinimum !== undefined) {
    const found = ratio(figures, minimum.figures);
    verdicts.push({
      goal: `${name} reaches ${percent(goals.ofMinimum)} of the hand-written minimum`,
      outcome: found >= goals.ofMinimum ? "won" : "lost",
      found: percent(found),
    });
  }
  return verdicts;
}

/** Runs `calls` calls one after another and says how many that were per second. */
export async function oneAfterAnother(calls: number, call: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) await call();
  return perSecond(calls, begin);
}

/** Makes `calls` calls at once, waits for all of them, and says how many that were per second. */
export async function allAtOnce(calls: number, call: () => Promise<unknown>): Promise<number> {
  const promises: Promise<unknown>[] = [];
  const begin = performance.now();
  for (let i = 0; i < calls; i++) promises.push(call());
  await Promise.all(promises);
  return perSecond(calls, begin);
}

export function perSecond(calls: number, begin: number): number {
  return (calls / (performance.now() - begin)) * 1000;
}
