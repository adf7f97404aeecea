import { afterAll, type Clock } from "../../src/core/clock.ts";
import { Queue } from "sluice";
import type { Io } from "../../src/cli/io.ts";
import type { DatabaseAddress } from "../../src/cli/address.ts";
import { ServiceClient } from "./client.ts";
import { Crew } from "./crew.ts";
import type { WorkerSettings } from "./messages.ts";
import { type Plan, QUEUE_NAME, WORK_MS } from "./plan.ts";
import { end, firstMessage, startModule } from "./processes.ts";
import { showProgress } from "./progress.ts";
import { makeReport, type Report } from "./report.ts";
import { Scoreboard } from "./scoreboard.ts";
import { openStorage } from "./storage.ts";

/** Jobs are tried again for as long as it takes: without a limiter the service refuses many of them. */
const ATTEMPTS = 1_000;
/** After so much of the work a process is killed, as soon as it has several jobs in hand; … */
const KILL_FROM = 0.35;
/** … after so much, as soon as it has any. */
const KILL_BY = 0.6;
const SEVERAL = 3;
/** So long after that its calls are under way, and have not been answered. */
const UNDER_WAY_MS = WORK_MS / 3;
/** So long a server may still be at work on what a process sent before it was killed. */
const SENT_MS = 150;
/** Silence for longer than this, and than several windows, means that something is broken. */
const SILENCE_MS = 12_000;

export interface DemoOptions {
  readonly plan: Plan;
  /** Where to keep the jobs. It is empty. */
  readonly place: DatabaseAddress;
  readonly io: Io;
  /** Show what is going on. */
  readonly live: boolean;
}

/** Runs the demo from beginning to end. Whatever happens, no process and no timer is left behind. */
export async function runDemo({ plan, place, io, live }: DemoOptions): Promise<Report> {
  const stopped = io.interrupted();
  const service = startModule("./quota-service", { quota: plan.quota, windowMs: plan.windowMs });
  const storage = openStorage(place);
  let client: ServiceClient | undefined;
  try {
    const { port } = await firstMessage<{ readonly port: number }>(service, "the quota service");
    const url = `http://127.0.0.1:${port}`;
    client = new ServiceClient(url);
    const queue = new Queue(QUEUE_NAME, { storage });
    await addJobs(queue, plan.jobs);
    const board = await work(queue, { plan, place, url }, { io, live, stopped });
    return makeReport(board, await client.record(), await queue.counts());
  } finally {
    client?.close();
    await storage.close();
    await end(service);
  }
}

async function addJobs(queue: Queue, count: number): Promise<void> {
  const entries = Array.from({ length: count }, (_, i) => ({
    type: "call",
    data: { number: i + 1 },
    options: { maxAttempts: ATTEMPTS },
  }));
  for (let i = 0; i < count; i += 10_000) await queue.addBulk(entries.slice(i, i + 10_000));
}

interface Viewing {
  readonly io: Io;
  readonly live: boolean;
  readonly stopped: AbortSignal;
}

/** Lets the processes work until all jobs are done, the signal aborts, or no message comes any more. */
async function work(queue: Queue, settings: WorkerSettings, { io, live, stopped }: Viewing): Promise<Scoreboard> {
  const { clock } = io;
  const board = new Scoreboard(settings.plan, clock.now());
  const crew = await Crew.start(settings, board, clock);
  const leave = [
    queue.on("rate-limited", ({ blockedBy, retryInMs }) => {
      board.blocked = { by: blockedBy, until: clock.now() + (retryInMs ?? 0) };
    }),
    queue.on("stalled", ({ id }) => board.stalled(id, clock.now())),
  ];
  const endProgress = live ? showProgress(board, io) : () => {};
  try {
    await play(queue, crew, board, { io, live, stopped });
    await crew.stop();
  } finally {
    endProgress();
    for (const unsubscribe of leave) unsubscribe();
    await crew.end();
  }
  return board;
}

function play(queue: Queue, crew: Crew, board: Scoreboard, { io: { clock }, stopped }: Viewing): Promise<void> {
  const { plan } = board;
  const silenceMs = Math.max(SILENCE_MS, 3 * (plan.windowMs + plan.guardMs) + 2 * plan.leaseMs);
  return new Promise((resolve, reject) => {
    let cancelWatch = () => {};
    let cancelKill = () => {};
    const over = () => {
      cancelWatch();
      cancelKill();
      crew.received = () => {};
      stopped.removeEventListener("abort", over);
      resolve();
    };
    const watch = () => {
      if (clock.now() - board.messageAt > silenceMs) over();
      else cancelWatch = afterAll(clock, 1_000, watch);
    };
    let killing = false;
    crew.received = () => {
      if (board.done.size >= plan.jobs) return over();
      const victim = killing || !plan.kill ? -1 : victimOn(board);
      if (victim === -1) return;
      killing = true;
      cancelKill = afterAll(clock, UNDER_WAY_MS, () => {
        kill(queue, crew, board, victim, clock).then((done) => (killing = done), reject);
      });
    };
    stopped.addEventListener("abort", over);
    board.startedAt = board.messageAt = clock.now();
    watch();
    if (stopped.aborted) over();
    else crew.go();
  });
}

/** The process to be killed now; -1: none yet. The more it has in hand, the more there is to see. */
function victimOn({ players, plan, done }: Scoreboard): number {
  const part = done.size / plan.jobs;
  if (part < KILL_FROM || players.length < 2) return -1;
  const most = Math.max(...players.map(({ running }) => running.size));
  const enough = part < KILL_BY ? Math.min(SEVERAL, plan.concurrency) : 1;
  return most >= enough ? players.findIndex(({ running }) => running.size === most) : -1;
}

/** Kills a process with jobs in hand. False: it has none any more, and goes on. */
async function kill(queue: Queue, crew: Crew, board: Scoreboard, player: number, clock: Clock): Promise<boolean> {
  crew.freeze(player, true);
  if ((await inHandOf(queue, crew.workerOf(player))).length === 0) {
    crew.freeze(player, false);
    return false;
  }
  await crew.kill(player);
  const killedAt = clock.now();
  // What it had sent before that, a server does all the same.
  await new Promise<void>((resolve) => afterAll(clock, SENT_MS, resolve));
  board.killed(player, await inHandOf(queue, crew.workerOf(player)), killedAt);
  crew.received();
  return true;
}

async function inHandOf(queue: Queue, name: string): Promise<string[]> {
  const { jobs } = await queue.list({ state: "active", limit: 1_000 });
  return jobs.filter(({ worker }) => worker === name).map(({ id }) => id);
}
