import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { defineLimits, type JobStorage, MemoryStorage, Queue, Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { type Contender, interleave, median } from "../harness.ts";
import { figuresOf, type WindowFigures } from "../limiters/window-figures.ts";
import { nameCell, percent, thousands } from "../ranking.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import { rounds, size } from "../queue/scale.ts";
import { sharedNow, sleep, withFile } from "../queue/temporary.ts";
import { absent } from "./peers.ts";

interface Window {
  readonly max: number;
  readonly per: number;
}

/** A limit, and jobs for so many windows of it. */
interface Case extends Window {
  readonly windows: number;
}

const USE = 0.99;
const FILL = 10_000;

/** When jobs started, by the storage, which is what a limit counts; and when their handlers were called. */
interface Starts {
  readonly granted: WindowFigures;
  readonly called: WindowFigures;
}

/** All jobs wait before the first may start. */
async function fill(storage: JobStorage, jobs: number): Promise<{ queue: Queue; ids: string[] }> {
  const queue = new Queue("bench", { storage });
  await queue.pause();
  const ids: string[] = [];
  for (let n = 0; n < jobs; n += FILL) {
    const length = Math.min(FILL, jobs - n);
    const added = await queue.addBulk(Array.from({ length }, () => ({ type: "bench", data: null })));
    ids.push(...added.map(({ id }) => id));
  }
  return { queue, ids };
}

async function read(storage: JobStorage, ids: readonly string[], { max, per }: Window): Promise<Starts> {
  const records = await storage.find(ids);
  const figures = (unsorted: number[]) => {
    const starts = unsorted.toSorted((a, b) => a - b);
    return figuresOf({ starts, begin: starts[0]!, max, windowMs: per });
  };
  return {
    granted: figures(records.map((record) => record!.startedAt!)),
    called: figures(records.map((record) => Number(record!.result))),
  };
}

async function inMemory(window: Window, jobs: number): Promise<Starts> {
  const storage = new MemoryStorage();
  const { queue, ids } = await fill(storage, jobs);
  const limits = defineLimits({ provider: { ...window, types: ["bench"] } });
  const worker = new Worker("bench", async () => sharedNow(), { storage, concurrency: 2 * window.max, limits });
  await worker.start();
  await queue.resume();
  await worker.onIdle();
  const starts = await read(storage, ids, window);
  await worker.stop();
  return starts;
}

function onSqlite(window: Window, jobs: number, processes: number): Promise<Starts> {
  return withFile(async (file) => {
    const storage = new SqliteStorage(file);
    const { queue, ids } = await fill(storage, jobs);
    const children = Array.from({ length: processes }, () => startWorker(file, window));
    await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
    await queue.resume();
    while ((await queue.counts()).completed < jobs) await sleep(200);
    for (const child of children) child.kill();
    const starts = await read(storage, ids, window);
    await storage.close();
    return starts;
  });
}

function startWorker(file: string, { max, per }: Window): ChildProcess {
  const script = fileURLToPath(new URL("saturation-child.ts", import.meta.url));
  const args = [script, file, String(max), String(per)];
  return spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

async function compare({ max, per, windows }: Case): Promise<Answer> {
  const window: Window = { max, per };
  // Two windows at least: one alone is never in anybody's way.
  const jobs = max * Math.max(2, size(windows));
  const contender = (name: string, once: () => Promise<Starts>): Contender<Starts> => ({
    name,
    role: "sluice",
    prepare: async () => once,
  });
  const contenders = [
    contender("MemoryStorage", () => inMemory(window, jobs)),
    contender("SqliteStorage, 1 process", () => onSqlite(window, jobs, 1)),
    contender("SqliteStorage, 4 processes", () => onSqlite(window, jobs, 4)),
  ];
  const { measured, skipped } = await interleave(contenders, { rounds: rounds(2), warmUp: false });
  const lines: string[][] = [];
  const verdicts: Verdict[] = [];
  for (const entry of measured) {
    const of = (figure: keyof WindowFigures, by: keyof Starts) => entry.figures.map((run) => run[by][figure]);
    const worst = Math.max(...of("worstWindow", "granted"));
    const use = median(entry.figures.map(({ granted }) => granted.idealMs / granted.totalMs));
    lines.push([
      nameCell(entry),
      worst > max ? `${worst} (over)` : String(worst),
      String(Math.max(...of("worstWindow", "called"))),
      `${(use * 100).toFixed(1)} %`,
      median(of("latenessMedian", "granted")).toFixed(2),
      median(of("latenessMedian", "called")).toFixed(2),
      median(of("latenessP99", "called")).toFixed(2),
    ]);
    verdicts.push(
      {
        goal: `${entry.name}: never more than ${thousands(max)} in a window`,
        outcome: worst <= max ? "won" : "lost",
        found: String(worst),
      },
      {
        goal: `${entry.name}: at least ${percent(USE)} of the allowance is used`,
        // More than all of it is no use of it.
        outcome: use >= USE && worst <= max ? "won" : "lost",
        found: `${(use * 100).toFixed(2)} %`,
      },
    );
  }
  return {
    columns: [
      "storage",
      "worst window",
      "as handlers saw it",
      "use",
      "grant late ms, median",
      "call late ms, median",
      "call late ms, p99",
    ],
    lines,
    verdicts,
    skipped: [...skipped, ...absent],
  };
}

const CASES: readonly Case[] = [
  { max: 20, per: 100, windows: 20 },
  { max: 1_000, per: 100, windows: 20 },
];

export const rows: readonly Row[] = CASES.map((one) => ({
  title: `A saturated shared limit: ${thousands(one.max)} per ${one.per} ms`,
  compares:
    `\`{ max: ${one.max}, per: ${one.per} }\` over a type, with jobs for ${one.windows} windows. Worst window: the most starts in any half-open ` +
    "window of that length, over all runs, by the clock of the storage, whose grants are what the limit counts; and as the " +
    "handlers saw it, which scheduling of processes can push together. Use: the least time the limit allows, of the time " +
    `between the first and the last grant. Late: a grant, or the call of a handler, against the one ${thousands(one.max)} before it plus ` +
    "the window.",
  measure: () => compare(one),
}));
