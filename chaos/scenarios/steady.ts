import { setTimeout as wait } from "node:timers/promises";
import { queueLimitKey } from "../../src/worker/admission.ts";
import { granted, rate, steady, use } from "../checkers/rates.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { addJobs } from "./limits.ts";
import { usual } from "./usual.ts";

const MAX = 32;
const WINDOW_MS = 1_000;
const WORKERS = 5;
/** A quarter of an hour, where there is time. */
const LONG_MS = 900_000;
const SHORT_MS = 13_000;
/** Where a call comes later after its grant, a larger part of the allowance is unused for safety. */
const LEAST_USE = { sqlite: 0.99, postgres: 0.985 } as const;

/**
 * Five processes under one limit of 32 a second that always have more to do, and nothing else happens to them: next to nothing of the
 * allowance is left unused, on the whole and in every stretch of it, however long it goes on.
 */
export async function steadyLimit(world: World): Promise<Outcome> {
  const { fleet, scale } = world;
  const queue = "steady";
  const long = scale > 1;
  const forMs = long ? LONG_MS : SHORT_MS * scale;
  await addJobs(world, queue, (forMs / WINDOW_MS + 5) * MAX * 1.1, { do: "nothing" });
  for (let i = 0; i < WORKERS; i++) {
    fleet.start({
      role: "worker",
      seed: world.seed(),
      queue,
      leaseMs: 3_000,
      concurrency: 10,
      graceMs: 500,
      limiter: { max: MAX, duration: WINDOW_MS },
    });
  }
  await wait(500 + forMs);
  const { history, final } = await world.collect();
  const limit = { limiter: queueLimitKey(queue), max: MAX, windowMs: WINDOW_MS };
  const stretch = { windows: long ? 10 : 4, least: 0.95, slackMs: 2 * world.stallMs };
  const verdicts = [
    ...usual(history, final, { drained: false }),
    rate(history, limit),
    granted(history, limit),
    use(history, { ...limit, least: long ? LEAST_USE[world.ground.name] : 0.98 }),
    steady(history, { ...limit, ...stretch }),
  ];
  return world.outcome("T21", history, verdicts);
}
