import { type Contender, interleave, type Measured, notes } from "../harness.ts";
import { nameCell, thousands } from "../ranking.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import { rounds } from "../queue/scale.ts";
import { run, type Timing } from "./crew.ts";
import { judge, type Judged, type Limit, summary } from "./judge.ts";
import { type Cell, cells, type Circumstance, circumstances } from "./selection.ts";

const ROUNDS = 2;
/** More in a process than this would only wait for the limit. */
const MOST_AT_ONCE = 200;
/** Jobs for this much longer than it takes: there is always more to do. */
const SPARE_WINDOWS = 4;

interface Figure {
  readonly judged: Judged;
  readonly asked: number;
  readonly made: number;
}

/** Windows of a second need longer to say something. */
function timingFor({ windowMs }: Limit): Timing {
  return { warmMs: 1_500, measureMs: windowMs >= 1_000 ? 5_000 : 2_500 };
}

async function once({ limited, processes }: Cell, { limit, burners }: Circumstance): Promise<Figure> {
  const { kind, place } = limited;
  const { max, windowMs } = limit;
  const timing = timingFor(limit);
  const jobs = Math.ceil(max * ((timing.warmMs + timing.measureMs) / windowMs + SPARE_WINDOWS) * 1.2);
  const concurrency = Math.min(2 * max, MOST_AT_ONCE);
  return place(jobs, async (url) => {
    const order = { kind, url, max, windowMs, concurrency, jobs };
    const { calls, warmAt, asked, made } = await run(order, { processes, burners }, timing);
    return { judged: judge(calls, limit, warmAt), asked, made };
  });
}

/** What is promised of the use, with four processes and where nothing burns: by the kind of storage and the limit. */
function leastUse({ limited, processes }: Cell, { limit, burners }: Circumstance): number | undefined {
  const { max, windowMs } = limit;
  if (burners > 0 || windowMs < 1_000 || (processes !== 4 && limited.kind !== "memory")) return undefined;
  if (!limited.kind.startsWith("postgres")) return 0.99;
  return max <= 10 ? 0.985 : 0.95;
}

async function compare(circumstance: Circumstance): Promise<Answer> {
  const { max } = circumstance.limit;
  const contenders = cells.map((cell): Contender<Figure> => ({
    name: `${cell.limited.title}, ${cell.processes} ${cell.processes === 1 ? "process" : "processes"}`,
    role: cell.limited.role,
    note: cell.limited.how,
    async prepare() {
      await cell.limited.check();
      return () => once(cell, circumstance);
    },
  }));
  const { measured, skipped } = await interleave(contenders, { rounds: rounds(ROUNDS), warmUp: false, pauseMs: 100 });
  const cellOf = ({ name }: Measured<Figure>) => cells[contenders.findIndex((contender) => contender.name === name)]!;
  const lines: string[][] = [];
  const uses: Verdict[] = [];
  const over: string[] = [];
  let windows = 0;
  for (const entry of measured) {
    const found = summary(entry.figures.map(({ judged }) => judged));
    const sum = (figure: "asked" | "made") => entry.figures.reduce((total, one) => total + one[figure], 0);
    // One that made less than a window's worth of calls says nothing of its use.
    const use = Number.isNaN(found.use) ? "" : `${(found.use * 100).toFixed(1)} %`;
    lines.push([
      nameCell(entry),
      found.worst > max ? `${thousands(found.worst)} (over)` : thousands(found.worst),
      `${thousands(found.over)} of ${thousands(found.windows)}`,
      use,
      // What is kept in the process of a peer is not counted.
      sum("asked") === 0 ? "" : perStart(sum("asked") / sum("made")),
      Number.isNaN(found.late) ? "" : found.late.toFixed(2),
      notes(entry.note),
    ]);
    if (entry.role !== "sluice") continue;
    windows += found.windows;
    if (found.over > 0) over.push(`${entry.name}: ${thousands(found.over)} windows, worst ${thousands(found.worst)}`);
    const least = leastUse(cellOf(entry), circumstance);
    if (least === undefined) continue;
    uses.push({
      goal: `${entry.name}: at least ${(least * 100).toFixed(1)} % of the allowance is used`,
      outcome: found.use >= least ? "won" : "lost",
      found: use,
    });
  }
  const exact: Verdict = {
    goal: `sluice: no window with more than ${thousands(max)} calls`,
    outcome: over.length === 0 ? "won" : "lost",
    found: over.length === 0 ? `0 of ${thousands(windows)} windows` : over.join("; "),
  };
  return {
    columns: ["contender", "worst window", "windows over", "use", "calls of the storage per start", "late ms", "note"],
    lines,
    verdicts: windows === 0 ? [] : [exact, ...uses],
    skipped,
  };
}

const perStart = (calls: number): string => calls.toFixed(calls < 0.1 ? 4 : 2);

export const rows: readonly Row[] = circumstances.map((circumstance) => {
  const { limit, burners } = circumstance;
  const { max, windowMs } = limit;
  const { measureMs } = timingFor(limit);
  return {
    title: `${thousands(max)} per ${windowMs} ms${burners > 0 ? `, beside ${burners} processes that burn processors` : ""}`,
    compares: `${measureMs / 1_000} s after a warm-up, ${ROUNDS} rounds, one contender after the other.`,
    measure: () => compare(circumstance),
  };
});
