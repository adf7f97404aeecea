import { setTimeout as wait } from "node:timers/promises";
import type { AddOptions } from "../../src/queue/add-options.ts";
import { Queue } from "../../src/queue/queue.ts";
import { queueLimitKey } from "../../src/worker/admission.ts";
import { startsInTime } from "../checkers/liveness.ts";
import { granted, outsideRate, rate, use } from "../checkers/rates.ts";
import type { Work, WorkerSpec } from "../child/spec.ts";
import { firstLine, type Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const MAX = 40;
const WINDOW_MS = 1_000;
/** The service's window is so much shorter than ours: what calls may come closer on the way. */
const GUARD_MS = 100;
const LEASE_MS = 1_000;
/** A start whose process was killed before its confirmation counts from its latest possible instant. */
const LEAST_USE = 0.9;
const BULK = 5_000;

const COMPOSED = "composed";
const COMPOSITE = [
  { name: "second", max: 10, windowMs: 1_000 },
  { name: "ten-seconds", max: 100, windowMs: 10_000 },
] as const;

/**
 * A limit that four workers share and that is never without work, two limits together that three processes with many
 * callers each ask for, permits taken back twice, workers and callers killed. Neither as called, nor by the storage's clock, nor
 * at the service is any window over, and little of the allowance is wasted.
 */
export async function limits(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const echo = fleet.start({ role: "echo", seed: 0 });
  const echoPort = Number(await firstLine(echo));
  const queue = "limited";
  const busy = world.scale > 1;
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue,
    leaseMs: LEASE_MS,
    concurrency: 10,
    graceMs: 500,
    echoPort,
    limiter: { max: MAX, duration: WINDOW_MS - GUARD_MS, guard: GUARD_MS },
  });
  const forMs = 13_000 * world.scale;
  const caller = (left: number): Order => ({
    role: "caller",
    seed: world.seed(),
    forMs: left,
    limits: COMPOSITE,
    cancel: 0.3,
    callers: 10,
    duplicate: 0.5,
  });
  // More than can start in time: the limit is saturated until the end.
  await addJobs(world, queue, Math.ceil((forMs / WINDOW_MS + 6) * MAX * 1.2), { do: "echo", limiter: queue });
  await addJobs(world, COMPOSED, 30 * world.scale, { do: "nothing" });
  for (let i = 0; i < 4; i++) fleet.start(worker());
  for (let i = 0; i < 3; i++) fleet.start(caller(forMs));
  if (busy) world.burn();
  // Workers under the same two limits: they and the callers share one quota.
  const { limiter: _, ...unlimited } = worker() as Order<WorkerSpec>;
  for (let i = 0; i < 2; i++) fleet.start({ ...unlimited, queue: COMPOSED, composite: COMPOSITE }).retired = true;
  const began = hr();
  const left = () => forMs - (hr() - began);
  while (left() > 0) {
    await wait(chance.integer(600, 1_400));
    const victim = chance.pick([...fleet.live("worker"), ...fleet.live("caller")]);
    // A worker that holds a lease keeps what it started; another takes its place.
    if (victim === undefined || left() < 1_000) continue;
    fleet.kill(victim);
    fleet.start(victim.order.role === "worker" ? worker() : caller(left()));
  }
  const { history, final } = await world.collect();
  const key = queueLimitKey(queue);
  const own = { limiter: key, max: MAX, windowMs: WINDOW_MS };
  const verdicts = [
    ...usual(history, final, { drained: false, busy }),
    rate(history, own),
    granted(history, own),
    use(history, { ...own, least: LEAST_USE }),
    outsideRate(history, { limiter: queue, max: MAX, windowMs: WINDOW_MS - GUARD_MS, guardMs: GUARD_MS }),
    ...COMPOSITE.map(({ name, max, windowMs }) => rate(history, { limiter: name, max, windowMs })),
  ];
  return world.outcome("T16 T17", history, verdicts);
}

const FAST_MAX = 100;
const FAST_WINDOW_MS = 100;

/** A thousand starts a second under one limit, from four processes of which one is killed every now and then. */
export async function fastLimit(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const queue = "fast";
  const busy = world.scale > 1;
  const forMs = 10_500 * world.scale;
  const most = Math.ceil((forMs / FAST_WINDOW_MS) * FAST_MAX * 1.1);
  await addJobs(world, queue, most, { do: "nothing" });
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue,
    leaseMs: LEASE_MS,
    concurrency: 50,
    graceMs: 500,
    limiter: { max: FAST_MAX, duration: FAST_WINDOW_MS },
  });
  for (let i = 0; i < 4; i++) fleet.start(worker());
  if (busy) world.burn();
  const end = hr() + forMs;
  while (hr() < end) {
    await wait(chance.integer(700, 1_500));
    const victim = chance.pick(fleet.live("worker"))!;
    fleet.kill(victim);
    fleet.start(worker());
  }
  const { history, final } = await world.collect();
  const own = { limiter: queueLimitKey(queue), max: FAST_MAX, windowMs: FAST_WINDOW_MS };
  const verdicts = [...usual(history, final, { drained: false, busy }), rate(history, own), granted(history, own)];
  return world.outcome("T16", history, verdicts);
}

export async function addJobs(
  world: World,
  name: string,
  count: number,
  data: Work,
  options: AddOptions = {},
): Promise<void> {
  const storage = world.open();
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>(name, { storage });
  for (let left = Math.ceil(count); left > 0; left -= BULK) {
    const all = Array.from({ length: Math.min(left, BULK) }, () => ({ type: "call", data, options }));
    world.recorded(await queue.addBulk(all));
  }
  await storage.close();
}

const ALONE_MAX = 5;
const ALONE_WINDOW_MS = 200;

/** Fills a limit, lets it run dry, adds one job: it starts within a window and a moment. This is repeated round after round. */
export async function limiterLiveness(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const name = "alone";
  for (let i = 0; i < 2; i++) {
    fleet.start({
      role: "worker",
      seed: world.seed(),
      queue: name,
      leaseMs: LEASE_MS,
      concurrency: 5,
      graceMs: 500,
      limiter: { max: ALONE_MAX, duration: ALONE_WINDOW_MS },
    });
  }
  const storage = world.open();
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>(name, { storage });
  const singles: string[] = [];
  const rounds = world.planted ? 8 : 18 * world.scale;
  let stuck = false;
  await wait(600);
  for (let round = 0; round < rounds && !stuck; round++) {
    const many = chance.integer(ALONE_MAX, ALONE_MAX * 2);
    world.recorded(
      await queue.addBulk(Array.from({ length: many }, () => ({ type: "call", data: { do: "nothing" } }))),
    );
    stuck = !(await world.drain(5_000));
    await wait(chance.integer(0, ALONE_WINDOW_MS));
    const job = await queue.add("call", { do: "nothing" });
    world.recorded([job]);
    singles.push(job.id);
    stuck ||= !(await world.drain(5_000));
  }
  world.count("saturations", rounds);
  await storage.close();
  const { history, final } = await world.collect();
  const alone = final.jobs.filter(({ id }) => singles.includes(id));
  const own = { limiter: queueLimitKey(name), max: ALONE_MAX, windowMs: ALONE_WINDOW_MS };
  const verdicts = [
    ...usual(history, final, { drained: true }),
    rate(history, own),
    granted(history, own),
    startsInTime(alone, ALONE_WINDOW_MS + 100 + 2 * world.stallMs),
  ];
  return world.outcome("T20", history, verdicts);
}
