import { setTimeout as wait } from "node:timers/promises";
import { queueLimitKey } from "../../src/worker/admission.ts";
import { rate, use } from "../checkers/rates.ts";
import type { WorkerSpec } from "../child/spec.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { leasesKept, notEarly } from "./clocks.ts";
import { addJobs } from "./limits.ts";
import { usual } from "./usual.ts";

const QUEUE = "ahead";
const MAX = 20;
const WINDOW_MS = 500;
const LEASE_MS = 2_000;
const EVERY_MS = 1_500;

/**
 * Again and again a process whose clock is two days fast adds a few jobs and ends, beside workers and producers whose clocks are
 * right, under one limit; some jobs hold their lease over several heartbeats. No window is over as called, the allowance is used, no lease
 * is lost, and neither a delay nor an instant that was given by a right clock ends early.
 */
export async function aheadOnce(world: World): Promise<Outcome> {
  const { fleet } = world;
  const forMs = 6_000 * world.scale;
  const order: Order<WorkerSpec> = {
    role: "worker",
    seed: 0,
    queue: QUEUE,
    leaseMs: LEASE_MS,
    concurrency: 8,
    graceMs: 500,
    limiter: { max: MAX, duration: WINDOW_MS },
  };
  await addJobs(world, QUEUE, 5, { do: "sleep", ms: LEASE_MS * 2 });
  await addJobs(world, QUEUE, (forMs / WINDOW_MS) * MAX, { do: "nothing" });
  for (let i = 0; i < 3; i++) fleet.start({ ...order, seed: world.seed() });
  const producer = { role: "producer", queue: QUEUE, maxAttempts: 20, work: [{ do: "nothing" }] } as const;
  // They come before the others: only their delay keeps them from starting.
  const delayed = { ...producer, delayed: 0.8, given: 0.5, priority: 1, perSecond: 5 };
  fleet.start({ ...delayed, seed: world.seed(), forMs: forMs - EVERY_MS });
  let set = 0;
  for (let passed = 0; passed < forMs; passed += EVERY_MS) {
    await wait(EVERY_MS);
    fleet.start({ ...producer, seed: world.seed(), forMs: 300, perSecond: 10, clock: "days" });
    set += 1;
  }
  world.count("clocks two days ahead", set);
  await world.drain(60_000, QUEUE);
  const { history, final } = await world.collect();
  const limit = { limiter: queueLimitKey(QUEUE), max: MAX, windowMs: WINDOW_MS };
  const verdicts = [
    ...usual(history, final, { drained: true }),
    rate(history, limit),
    use(history, { ...limit, least: 0.8 }),
    leasesKept(history, final),
    notEarly(history),
  ];
  return world.outcome("T38 T40", history, verdicts);
}
