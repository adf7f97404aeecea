import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { queueLimitKey } from "../../src/worker/admission.ts";
import { granted, outsideRate, rate, use } from "../checkers/rates.ts";
import { recovery } from "../checkers/recovery.ts";
import { Finding, round, type Verdict } from "../checkers/verdict.ts";
import { CLOCKS, type WrongClock } from "../child/clocks.ts";
import type { WorkerSpec } from "../child/spec.ts";
import { firstLine, type Member, type Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { addJobs } from "./limits.ts";
import { usual } from "./usual.ts";

const QUEUE = "clocks";
const MAX = 20;
const WINDOW_MS = 500;
/** The service's window is so much shorter than ours: what calls may come closer on the way. */
const GUARD_MS = 100;
const LEASE_MS = 2_000;
const IDLE_MS = 2_000;
/** Of one processor, while there is nothing to do. */
const BUSY = 0.2;

type Start = (order: Order, kind: WrongClock) => Member;

/**
 * Every worker has another wrong clock: off by an hour, twice and half as fast, set by half a minute every second. They share
 * one limit; their jobs take longer than a lease. The clock of the server is the only one that counts: by it, and by one that
 * is never set, no window is over, nothing of the allowance is wasted, no lease is lost and what is delayed starts when it should.
 */
export function clocks(world: World): Promise<Outcome> {
  // Twice and half as fast is more than the rate of a clock is trusted for: what its error comes to is for the guard.
  const start: Start = (order, clock) => world.fleet.start({ ...order, clock });
  return play(world, start, { calledMs: WINDOW_MS - GUARD_MS });
}

/** Where Debian and others install it; or the path from the environment. */
const LIBRARIES = [
  process.env["LIBFAKETIME"] ?? "",
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/** The same, with processes whose system clock is wrong for all code that reads it. */
export async function fakedClocks(world: World): Promise<Outcome> {
  const library = LIBRARIES.find((path) => path !== "" && existsSync(path));
  if (library === undefined) {
    return world.skipped("T38", "libfaketime is not installed here, and LIBFAKETIME names no library");
  }
  const file = join(world.folder, "steps.faketime");
  const set = () => writeFileSync(file, `${world.chance.integer(-30, 30)}s`.replace(/^(?!-)/, "+"));
  set();
  const stepping = setInterval(set, 1_000);
  // Histories are stamped by the monotonic clock, which is never faked.
  const own = { LD_PRELOAD: library, FAKETIME_DONT_FAKE_MONOTONIC: "1", DONT_FAKE_MONOTONIC: "1" };
  const faked: Readonly<Record<WrongClock, Readonly<Record<string, string>>>> = {
    behind: { FAKETIME: "-1h" },
    ahead: { FAKETIME: "+1h" },
    fast: { FAKETIME: "+0 x2.0" },
    slow: { FAKETIME: "+0 x0.5" },
    steps: { FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1" },
  };
  try {
    const start: Start = (order, kind) => world.fleet.start(order, { env: { ...own, ...faked[kind] } });
    return await play(world, start, { calledMs: WINDOW_MS });
  } finally {
    clearInterval(stepping);
  }
}

/** `calledMs`: no window of this length is over as called. */
async function play(world: World, start: Start, { calledMs }: { readonly calledMs: number }): Promise<Outcome> {
  const { fleet } = world;
  const forMs = 8_000 * world.scale;
  const echo = fleet.start({ role: "echo", seed: 0 });
  const echoPort = Number(await firstLine(echo));
  const order: Order<WorkerSpec> = {
    role: "worker",
    seed: 0,
    queue: QUEUE,
    leaseMs: LEASE_MS,
    concurrency: 8,
    graceMs: 500,
    echoPort,
    limiter: { max: MAX, duration: WINDOW_MS - GUARD_MS, guard: GUARD_MS },
  };
  const worker = (kind: WrongClock) => start({ ...order, seed: world.seed() }, kind);
  // Some hold their lease over several signs of life.
  await addJobs(world, QUEUE, 10, { do: "sleep", ms: LEASE_MS * 2 });
  await addJobs(world, QUEUE, (forMs / WINDOW_MS) * MAX, { do: "echo", limiter: QUEUE });
  const workers = CLOCKS.map(worker);
  for (const kind of CLOCKS) {
    // They come before the others: what keeps them from starting is their delay.
    const producer = { role: "producer", queue: QUEUE, maxAttempts: 20, delayed: 0.7, priority: 1 } as const;
    const work = [{ do: "nothing" }] as const;
    start({ ...producer, seed: world.seed(), forMs: forMs / 2, perSecond: 3, work }, kind);
  }
  world.count("clocks set wrong", CLOCKS.length * 2);
  await wait(forMs);
  // Jobs of a killed worker return in time, whatever the clocks of the sweeping workers show.
  await addJobs(world, QUEUE, MAX * 2, { do: "sleep", ms: LEASE_MS }, { priority: 1 });
  await wait(2 * WINDOW_MS);
  for (const [i, member] of workers.entries()) {
    fleet.kill(member);
    worker(CLOCKS[i]!);
    await wait(300);
  }
  await world.drain(30_000, QUEUE);
  const busy = await busyIn(fleet.live("worker"), IDLE_MS);
  const { history, final } = await world.collect();
  const limit = { limiter: queueLimitKey(QUEUE), max: MAX, windowMs: WINDOW_MS };
  const verdicts = [
    ...usual(history, final, { drained: true }),
    rate(history, { ...limit, windowMs: calledMs }),
    granted(history, limit),
    outsideRate(history, { limiter: QUEUE, max: MAX, windowMs: WINDOW_MS - GUARD_MS, guardMs: GUARD_MS }),
    use(before(history, workers), { ...limit, least: 0.9 }),
    recovery(history, final, { leaseMs: LEASE_MS, sweepMs: LEASE_MS / 6, slackMs: 500 + 2 * world.stallMs }),
    leasesKept(history, final),
    notEarly(history),
    busy,
  ];
  return world.outcome("T38", history, verdicts);
}

/** Everything before the first of them was killed: until then there was always more to do. */
function before(history: Digest, workers: readonly Member[]): Digest {
  const first = history.faults.find(({ kind, target }) => kind === "kill" && workers.some(({ p }) => p === target));
  return Object.assign(Object.create(history) as Digest, {
    runs: history.runs.filter(({ from }) => from < (first?.hr ?? Number.POSITIVE_INFINITY)),
  });
}

/** Only killed workers have lost a job. */
export function leasesKept(history: Digest, final: Final): Verdict {
  const found = new Finding("leases kept", "runs");
  const names = new Map(history.notes.flatMap(({ kind, p, text }) => (kind === "ready" ? [[text, p]] : [])));
  const killed = new Set(history.faults.flatMap(({ kind, target }) => (kind === "kill" ? [target] : [])));
  found.n = history.runs.length;
  for (const [job, attempts] of final.attempts) {
    for (const { worker, error } of attempts) {
      if (error.code !== "SLUICE_STALLED") continue;
      const p = names.get(worker) ?? worker;
      found.check(killed.has(p), () => `job ${job} was taken from ${p}, which lived`);
    }
  }
  return found.verdict;
}

/** Nothing starts before the delay is over that it was added with, by the clock that all processes share. */
export function notEarly(history: Digest): Verdict {
  const found = new Finding("delays", "delayed jobs");
  const first = new Map<string, number>();
  for (const { job, until } of history.claims) if (!first.has(job)) first.set(job, until);
  for (const { jobs, from } of history.adds) {
    for (const { id, inMs } of jobs) {
      const at = first.get(id);
      if (inMs === 0 || at === undefined) continue;
      found.check(at >= from + inMs, () => `job ${id} started ${round(from + inMs - at)} ms before it was due`);
    }
  }
  return found.verdict;
}

/** No process polls in a loop while there is nothing to do. */
async function busyIn(members: readonly Member[], forMs: number): Promise<Verdict> {
  const found = new Finding("idle", "processes");
  const from = members.map(processorMs);
  await wait(forMs);
  let most = 0;
  for (const [i, member] of members.entries()) {
    const share = (processorMs(member) - from[i]!) / forMs;
    most = Math.max(most, share);
    found.check(share <= BUSY, () => `${member.p} used ${Math.round(share * 100)} % of a processor with nothing to do`);
  }
  found.note = `at most ${(most * 100).toFixed(1)} % of a processor`;
  return found.verdict;
}

/** The CPU time that the system reports, in steps of a hundredth of a second. */
function processorMs({ child }: Member): number {
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
