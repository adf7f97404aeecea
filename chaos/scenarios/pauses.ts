import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { Queue } from "../../src/queue/queue.ts";
import { abortedAfterPause, warnedAfterPause } from "../checkers/moments.ts";
import { Finding } from "../checkers/verdict.ts";
import type { WorkerSpec } from "../child/spec.ts";
import type { Member, Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { addJobs } from "./limits.ts";
import { usual } from "./usual.ts";

const QUEUE = "pauses";
const LEASE_MS = 800;
const WORKERS = 3;
const CONCURRENCY = 5;
/** So many that each worker has at least one: the slots of the others do not suffice for all of them. */
const LONG = (WORKERS - 1) * CONCURRENCY + 1;
/** How long workers have to begin with them. */
const BEGIN_MS = 10_000;

/**
 * Workers that are suspended with in-flight jobs: stopped from outside for two leases, stopped in the middle of a sweep
 * between reading and writing, blocked by a handler for three leases. Other workers take the jobs over; a resumed worker aborts
 * its handlers, and its late writes are refused.
 */
export async function pauses(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const worker = (more: Partial<Order<WorkerSpec>> = {}): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: QUEUE,
    leaseMs: LEASE_MS,
    concurrency: CONCURRENCY,
    graceMs: 500,
    ...more,
  });
  const producer = (forMs: number): Order => ({
    role: "producer",
    seed: world.seed(),
    queue: QUEUE,
    forMs,
    perSecond: 4,
    maxAttempts: 100,
    work: [
      { do: "sleep", ms: 150, deaf: true },
      { do: "sleep", ms: 300, deaf: true },
      { do: "sleep", ms: 600, deaf: true },
      { do: "sleep", ms: 600 },
      // Still running when its process is resumed: its signal must be aborted.
      { do: "sleep", ms: 5_000, deaf: true },
      { do: "sleep", ms: 5_000, deaf: true },
    ],
  });
  for (let i = 0; i < WORKERS; i++) fleet.start(worker());
  // Each worker has a long job, also the first that is stopped.
  await addJobs(world, QUEUE, LONG, { do: "sleep", ms: 5_000, deaf: true }, { maxAttempts: 100 });
  await running(world, LONG);
  const rounds = 3 * world.scale;
  fleet.start(producer(rounds * (LEASE_MS * 2 + 900)));
  let spinner: Member | undefined;
  const swept = new Finding("swept", "sweeps paused");

  for (let round = 0; round < rounds; round++) {
    const victim = chance.pick(fleet.live("worker"))!;
    victim.retired = true;
    fleet.pause(victim);
    // A worker that stops itself when it has read an expired lease: before it writes, or before it commits and releases
    // the lock. It sweeps more often than the others, so it is the first to read it.
    const at = round % 2 === 0 ? "begin" : "before-commit";
    const sweeper = fleet.start(
      worker({ concurrency: 1, leaseMs: LEASE_MS / 5, crash: { step: "sweep", at, nth: 1, signal: "SIGSTOP" } }),
    );
    sweeper.retired = true;
    fleet.willStop(sweeper);
    await wait(LEASE_MS * 2);
    fleet.resume(victim);
    victim.retired = false;
    // A job that blocks its process for longer than its lease never ends: it is dead when its attempts are spent.
    spinner ??= fleet.start({
      ...producer(300),
      maxAttempts: 2,
      work: [{ do: "spin", ms: LEASE_MS * 3 }],
    } as Order);
    await wait(400);
    if (isStopped(sweeper)) swept.n += 1;
    fleet.resume(sweeper);
    await wait(300);
    // It may reach its point only now: stopped for good, while it holds the lock.
    fleet.kill(sweeper);
  }
  await spinner!.exited;
  await world.drain(20_000 + 5_000 * world.scale);
  const { history, final } = await world.collect();
  const verdicts = [
    ...usual(history, final, { drained: true }),
    abortedAfterPause(history, { leaseMs: LEASE_MS, withinMs: 100 + world.stallMs }),
    warnedAfterPause(history, { leaseMs: LEASE_MS, withinMs: 100 + world.stallMs }),
    swept.verdict,
  ];
  return world.outcome("T05 T06 T07", history, verdicts);
}

/** Waits until so many are being worked on. */
async function running(world: World, count: number): Promise<void> {
  const storage = world.open();
  const queue = new Queue(QUEUE, { storage });
  const end = hr() + BEGIN_MS;
  while ((await queue.counts()).active < count) {
    if (hr() > end) throw new Error(`expected ${count} jobs to run within ${BEGIN_MS} ms`);
    await wait(20);
  }
  await storage.close();
}

/** Did it stop itself? The system knows. */
function isStopped({ child, alive }: Member): boolean {
  if (!alive || child.pid === undefined) return false;
  // After the name in brackets comes the state.
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
}
