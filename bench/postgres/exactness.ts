import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { reasonOf, type Skipped } from "../harness.ts";
import { figuresOf } from "../limiters/window-figures.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import { type Case, CASES, DURATION, MAX, PROCESSES, SECONDS } from "./limited.ts";

const USE = 0.99;

/** When it was allowed to start: as who called saw it, and as the storage stamped it where one can ask. */
interface Starts {
  readonly called: readonly number[];
  readonly stamped?: readonly number[];
}

/** All processes of one case, ready. The answer lets them begin. */
async function prepare({ name, place }: Case): Promise<() => Promise<Starts>> {
  const { url, stamps } = await place();
  const script = fileURLToPath(new URL("exactness-child.ts", import.meta.url));
  const args = [script, name, url, String(MAX), String(DURATION), String(SECONDS)];
  const children = Array.from({ length: PROCESSES }, () =>
    spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] }),
  );
  await Promise.all(children.map((child) => heard(child)));
  return async () => {
    const answers = children.map((child) => heard<{ readonly starts: readonly number[] }>(child));
    for (const child of children) child.send("begin");
    const called = (await Promise.all(answers)).flatMap(({ starts }) => starts);
    return stamps === undefined ? { called } : { called, stamped: await stamps() };
  };
}

function heard<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as T));
    child.once("exit", (code) => reject(new Error(`a process ended with ${code}`)));
  });
}

/** The most starts in any window, in how many windows there were too many, and how much of what is allowed was used. */
function judge(unsorted: readonly number[]): { worst: number; over: number; use: number } {
  const starts = unsorted.toSorted((a, b) => a - b);
  const { worstWindow, idealMs, totalMs } = figuresOf({ starts, begin: starts[0]!, max: MAX, windowMs: DURATION });
  const over = starts.filter((at, i) => (starts[i + MAX] ?? Infinity) - at < DURATION).length;
  return { worst: worstWindow, over, use: idealMs / totalMs };
}

async function measure(): Promise<Answer> {
  const skipped: Skipped[] = [];
  const ready: { one: Case; begin: () => Promise<Starts> }[] = [];
  for (const one of CASES) {
    try {
      ready.push({ one, begin: await prepare(one) });
    } catch (error) {
      skipped.push({ name: one.name, reason: reasonOf(error) });
    }
  }
  const found = await Promise.all(ready.map(async ({ one, begin }) => ({ one, starts: await begin() })));
  const lines: string[][] = [];
  const verdicts: Verdict[] = [];
  for (const { one, starts } of found) {
    const name = starts.stamped === undefined ? one.name : `**${one.name}**`;
    lines.push(line(name, judge(starts.called), starts.called.length, one.how));
    if (starts.stamped === undefined) continue;
    const stamped = judge(starts.stamped);
    lines.push(line(`${name}, as the storage stamped it`, stamped, starts.stamped.length, "`startedAt`"));
    verdicts.push({
      goal: `${one.name}: no window with more than ${MAX} starts, by the stamps of the storage`,
      outcome: stamped.over === 0 ? "won" : "lost",
      found: `${stamped.over} windows, worst ${stamped.worst}`,
    });
    // A guard costs what it is long.
    if (one.name !== "sluice") continue;
    verdicts.push({
      goal: `${one.name}: at least ${USE * 100} % of the allowance is used`,
      outcome: stamped.use >= USE ? "won" : "lost",
      found: `${(stamped.use * 100).toFixed(1)} %`,
    });
  }
  return { columns: ["contender", "worst window", "windows over", "starts", "use", "note"], lines, verdicts, skipped };
}

function line(name: string, { worst, over, use }: ReturnType<typeof judge>, starts: number, note: string): string[] {
  return [
    name,
    worst > MAX ? `${worst} (over)` : String(worst),
    String(over),
    String(starts),
    `${(use * 100).toFixed(1)} %`,
    note,
  ];
}

export const rows: readonly Row[] = [
  {
    title: `Exactness across processes: ${MAX} per ${DURATION} ms`,
    compares:
      `${PROCESSES} processes share one limit for ${SECONDS} s, with more to start than it allows; all contenders side by side. ` +
      "Worst window: the most starts in any half-open window of that length, by the monotonic clock that the processes of a " +
      "computer share, stamped where the work is called. Windows over: how many of those that begin with a start have too " +
      "many. Use: the least time that the limit allows, of the time between the first and the last start.",
    measure,
  },
];
