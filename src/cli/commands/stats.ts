import { afterAll } from "../../core/clock.ts";
import { noJobs } from "../../core/job.ts";
import type { QueueOverview } from "../../storage/job-storage.ts";
import type { WorkerRecord } from "../../storage/workers.ts";
import { answer, type Command, type Context, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import type { Database } from "../opened.ts";
import { chosenQueue } from "../queues.ts";
import { type Stats, statsJson, statsText } from "../render/stats.ts";

const EVERY_MS = 1_000;
const MOST_LIMITS = 20;
const CLEAR = "\u001b[H\u001b[J";

export const stats: Command = {
  name: "stats",
  summary: "jobs by state, live workers, what is paused, which limits are in use",
  usage: ["[--queue name] [--watch]"],
  options: {
    ...DATABASE,
    queue: { value: "name", short: "q", help: "only this queue" },
    watch: { short: "w", help: "again every second, until Ctrl-C; with --json one document in a line" },
  },
  words: "none",
  run: (context) =>
    withDatabase(context, async (database) => {
      if (context.args.flag("watch")) await watch(context, database);
      else show(context, await read(context, database));
      return 0;
    }),
};

async function read(context: Context, { storage, look }: Database): Promise<Stats> {
  const named = context.args.text("queue") !== undefined;
  const queues = named ? [await chosenQueue(context, storage)] : await storage.overview();
  const workers = countBy(await storage.workers(context.args.text("queue")));
  return {
    queues: named ? queues : withIdle(queues, workers),
    workers,
    limits: await look.limits(MOST_LIMITS),
  };
}

function countBy(workers: readonly WorkerRecord[]): ReadonlyMap<string, number> {
  return new Map(
    Array.from(
      Map.groupBy(workers, ({ queue }) => queue),
      ([queue, own]) => [queue, own.length],
    ),
  );
}

/** Also the queues that have workers and no jobs. */
function withIdle(queues: readonly QueueOverview[], workers: ReadonlyMap<string, number>): readonly QueueOverview[] {
  const known = new Set(queues.map(({ queue }) => queue));
  const idle = [...workers.keys()].filter((queue) => !known.has(queue)).map(idleQueue);
  return [...queues, ...idle].toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
}

const idleQueue = (queue: string): QueueOverview => ({
  queue,
  counts: noJobs(),
  paused: false,
  pausedTypes: [],
  oldestWaitingMs: null,
});

function show(context: Context, seen: Stats): void {
  answer(context, statsJson(seen), (surface) => statsText(seen, surface));
}

async function watch(context: Context, database: Database): Promise<void> {
  const { io, json } = context;
  const stopped = io.interrupted();
  let first = true;
  while (!stopped.aborted) {
    const seen = await read(context, database);
    if (!json) io.out(io.terminal ? CLEAR : first ? "" : "\n");
    show(context, seen);
    first = false;
    await new Promise<void>((resolve) => {
      const cancel = afterAll(io.clock, EVERY_MS, resolve);
      stopped.addEventListener("abort", () => (cancel(), resolve()), { once: true });
    });
  }
}
