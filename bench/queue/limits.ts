import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type JobStorage, MemoryStorage, Queue, Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { type Contender, interleave, median } from "../harness.ts";
import { figuresOf, type WindowFigures } from "../limiters/window-figures.ts";
import { nameCell } from "../ranking.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import { load } from "./peers.ts";
import { quick, rounds, size } from "./scale.ts";
import { sharedNow, sleep, withFile } from "./temporary.ts";

interface Window {
  readonly max: number;
  readonly duration: number;
}

/** A limit, and jobs for so many windows of it. */
interface Case extends Window {
  readonly windows: number;
}

const USE = 0.99;
const LATE_MS = 5;

/** When jobs started, by the storage, which is what a limit counts; and when their handlers were called. */
interface Starts {
  readonly granted: WindowFigures;
  readonly called: WindowFigures;
}

function startsOf(granted: number[], called: number[], { max, duration }: Window): Starts {
  const figures = (starts: number[]) => {
    starts.sort((a, b) => a - b);
    return figuresOf({ starts, begin: starts[0]!, max, windowMs: duration });
  };
  return { granted: figures(granted), called: figures(called) };
}

/** All jobs wait before the first may start. */
async function fill(storage: JobStorage, jobs: number): Promise<{ queue: Queue; ids: string[] }> {
  const queue = new Queue("bench", { storage });
  await queue.pause();
  const added = await queue.addBulk(Array.from({ length: jobs }, (_, n) => ({ type: "bench", data: { n } })));
  return { queue, ids: added.map(({ id }) => id) };
}

async function read(storage: JobStorage, ids: readonly string[], window: Window): Promise<Starts> {
  const records = await storage.find(ids);
  return startsOf(
    records.map((record) => record!.startedAt!),
    records.map((record) => Number(record!.result)),
    window,
  );
}

async function inMemory(window: Window, jobs: number): Promise<Starts> {
  const storage = new MemoryStorage();
  const { queue, ids } = await fill(storage, jobs);
  const worker = new Worker("bench", async () => sharedNow(), {
    storage,
    concurrency: 2 * window.max,
    limiter: window,
  });
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

function startWorker(file: string, { max, duration }: Window): ChildProcess {
  const script = fileURLToPath(new URL("limits-child.ts", import.meta.url));
  const args = [script, file, String(max), String(duration)];
  return spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

async function workglow({ max, duration }: Window, jobs: number): Promise<Starts> {
  const module = await load("@workglow/job-queue");
  const { InMemoryQueueStorage, InMemoryRateLimiterStorage, Job, JobQueueClient, JobQueueServer, RateLimiter } = module;
  const called: number[] = [];
  class BenchJob extends Job {
    async execute(): Promise<object> {
      called.push(sharedNow());
      return {};
    }
  }
  const storage = new InMemoryQueueStorage("bench");
  const client = new JobQueueClient({ storage, queueName: "bench" });
  await client.sendBatch(Array.from({ length: jobs }, (_, n) => ({ n })));
  const limiter = new RateLimiter(new InMemoryRateLimiterStorage(), "bench", {
    maxExecutions: max,
    windowSizeInSeconds: duration / 1_000,
  });
  const server = new JobQueueServer(BenchJob, { storage, queueName: "bench", workerCount: max, limiter });
  client.attach(server);
  await server.start();
  while (called.length < jobs) await sleep(50);
  await server.stop();
  return startsOf(called, [...called], { max, duration });
}

async function compare({ max, duration, windows }: Case): Promise<Answer> {
  const window: Window = { max, duration };
  // Two windows at least: one alone is never in anybody's way.
  const jobs = max * Math.max(2, size(windows));
  const few = Math.min(jobs, 3 * max);
  const contender = (name: string, once: () => Promise<Starts>): Contender<Starts> => ({
    name,
    role: "sluice",
    prepare: async () => once,
  });
  const contenders: Contender<Starts>[] = [
    contender("MemoryStorage", () => inMemory(window, jobs)),
    contender("SqliteStorage, 1 process", () => onSqlite(window, jobs, 1)),
    contender("SqliteStorage, 4 processes", () => onSqlite(window, jobs, 4)),
    {
      name: "workglow in memory",
      role: "peer",
      note: `its RateLimiter; jobs for ${few / max} windows only`,
      prepare: async () => () => workglow(window, few),
    },
  ];
  const { measured, skipped } = await interleave(contenders, { rounds: rounds(2), warmUp: false });
  const lines: string[][] = [];
  const verdicts: Verdict[] = [];
  for (const entry of measured) {
    const of = (figure: keyof WindowFigures, by: keyof Starts = "granted") =>
      entry.figures.map((run) => run[by][figure]);
    const worst = Math.max(...of("worstWindow"));
    const use = median(entry.figures.map(({ granted }) => granted.idealMs / granted.totalMs));
    const late = median(of("latenessMedian", "called"));
    lines.push([
      nameCell(entry),
      worst > window.max ? `${worst} (over)` : String(worst),
      String(Math.max(...of("worstWindow", "called"))),
      `${(use * 100).toFixed(1)} %`,
      late.toFixed(2),
      median(of("latenessP99", "called")).toFixed(2),
      entry.note ?? "",
    ]);
    if (entry.role !== "sluice") continue;
    verdicts.push(
      {
        goal: `${entry.name}: never more than ${window.max} in a window`,
        outcome: worst <= window.max ? "won" : "lost",
        found: String(worst),
      },
      {
        goal: `${entry.name}: at least ${USE * 100} % of the allowance is used`,
        outcome: use >= USE ? "won" : "lost",
        found: `${(use * 100).toFixed(1)} %`,
      },
      {
        goal: `${entry.name}: less than ${LATE_MS} ms late (median)`,
        outcome: late < LATE_MS ? "won" : "lost",
        found: `${late.toFixed(2)} ms`,
      },
    );
  }
  return {
    columns: ["contender", "worst window", "as handlers saw it", "use", "late ms, median", "late ms, p99", "note"],
    lines,
    verdicts,
    skipped,
  };
}

const CASES: readonly Case[] = [
  { max: 20, duration: 100, windows: 20 },
  { max: 500, duration: 1_000, windows: 6 },
];

export const rows: readonly Row[] = (quick ? CASES.slice(0, 1) : CASES).map((window) => ({
  title: `Jobs under a limit: ${window.max} per ${window.duration} ms`,
  compares:
    `\`limiter: { max: ${window.max}, duration: ${window.duration} }\` with jobs for ${window.windows} windows. Worst window: the most ` +
    "starts in any half-open window of that length, over all runs, by the clock of the storage, whose grants are what the " +
    "limit counts; and as the handlers saw it, which scheduling of processes can push together. Use: the least time the " +
    `limit allows, of the time between the first and the last start. Late: a handler's call against the call ${window.max} ` +
    "before it plus the window.",
  measure: () => compare(window),
}));
