import { type Contender, interleave, median, notes } from "../harness.ts";
import { nameCell } from "../ranking.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import { type RateWrapper, rateWrappers } from "./rate-contenders.ts";
import { figuresOf, type WindowFigures } from "./window-figures.ts";

const WINDOW_MS = 100;
const WINDOWS = 10;
const ROUNDS = 3;
/** Lateness that a timer of whole milliseconds explains. */
const TOLERATED_MS = 2;
const USE = 0.99;

/** Contenders that need seconds per window of a large limit get fewer windows. */
const SLOW: Readonly<Record<string, number>> = { "p-throttle strict": 2, "bottleneck reservoir": 2 };

function saturating({ name, role, note, create }: RateWrapper, max: number): Contender<WindowFigures> {
  const windows = max >= 1_000 ? (SLOW[name] ?? WINDOWS) : WINDOWS;
  return {
    name,
    role,
    note: notes(note, windows < WINDOWS && `${windows} windows only`),
    async prepare() {
      const warmUp = await create(max, WINDOW_MS, async () => {});
      await Promise.all(Array.from({ length: max }, () => warmUp.call()));
      warmUp.close?.();
      return async () => {
        const starts: number[] = [];
        const { call, close } = await create(max, WINDOW_MS, async () => {
          starts.push(performance.now());
        });
        const begin = performance.now();
        await Promise.all(Array.from({ length: windows * max }, () => call()));
        close?.();
        return figuresOf({ starts, begin, max, windowMs: WINDOW_MS });
      };
    },
  };
}

async function measure(max: number): Promise<Answer> {
  const contenders = rateWrappers.map((wrapper) => saturating(wrapper, max));
  // One window is the warm-up. The pause lets the last window of the run before pass.
  const { measured, skipped } = await interleave(contenders, { rounds: ROUNDS, warmUp: false, pauseMs: WINDOW_MS });
  const lines: string[][] = [];
  const verdicts: Verdict[] = [];
  for (const entry of measured) {
    const { name, role, figures } = entry;
    const of = (figure: keyof WindowFigures) => figures.map((run) => run[figure]);
    const worst = Math.max(...of("worstWindow"));
    const late = median(of("latenessMedian"));
    const [total, ideal] = [median(of("totalMs")), median(of("idealMs"))];
    lines.push([
      nameCell(entry),
      worst > max ? `${worst} (over)` : String(worst),
      `${Math.round(total)} of ${ideal}`,
      `${((ideal / total) * 100).toFixed(1)} %`,
      late.toFixed(2),
      median(of("latenessP99")).toFixed(2),
      entry.note ?? "",
    ]);
    if (role !== "sluice") continue;
    verdicts.push(
      {
        goal: `${name} never starts more than ${max} in a window`,
        outcome: worst <= max ? "won" : "lost",
        found: String(worst),
      },
      {
        goal: `${name} starts less than ${TOLERATED_MS} ms late (median)`,
        outcome: late < TOLERATED_MS ? "won" : "lost",
        found: `${late.toFixed(2)} ms`,
      },
      {
        goal: `${name} uses ${USE * 100} % of the allowance`,
        outcome: ideal / total >= USE ? "won" : "lost",
        found: `${((ideal / total) * 100).toFixed(1)} %`,
      },
    );
  }
  const columns = ["contender", "worst window", "total ms", "use", "late ms, median", "late ms, p99", "note"];
  return { columns, lines, verdicts, skipped };
}

export const rows: readonly Row[] = [1_000, 20].map((max) => ({
  title: `A saturated window: ${max} per ${WINDOW_MS} ms`,
  compares:
    `${(max * WINDOWS).toLocaleString("en-US")} calls at once, enough for ${WINDOWS} windows of ${max} per ${WINDOW_MS} ms. ` +
    `Worst window: the most starts in any half-open window of that length, over ${ROUNDS} runs, stamped inside the called ` +
    "function. Total: from the first call to the last start, and the least the limit allows; use is their ratio. " +
    `Late: a start against the start ${max} before it plus the window, negative if too early.`,
  measure: () => measure(max),
}));
