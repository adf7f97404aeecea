import { setTimeout as wait } from "node:timers/promises";
import { attemptsKept, stopsInTime } from "../checkers/moments.ts";
import { liveness } from "../checkers/liveness.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { slotsOf, usual } from "./usual.ts";

const GRACE_MS = 300;

/**
 * Workers are stopped by a signal under load and replaced, again and again, with jobs that are shorter and longer than their grace
 * and some that do not listen: they claim nothing more, end in time and with code 0, and what they were in the middle of is
 * claimed by others at once, its attempt not spent.
 */
export async function graceful(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: "graceful",
    leaseMs: 3_000,
    concurrency: 4,
    graceMs: GRACE_MS,
    duplicate: 0.1,
  });
  const forMs = 8_000 * world.scale;
  for (let i = 0; i < 3; i++) fleet.start(worker());
  fleet.start({
    role: "producer",
    seed: world.seed(),
    queue: "graceful",
    forMs,
    perSecond: 12,
    maxAttempts: 2,
    work: [
      { do: "nothing" },
      { do: "sleep", ms: 100 },
      { do: "sleep", ms: 400 },
      { do: "sleep", ms: 600, deaf: true },
      { do: "sleep", ms: 1_500 },
    ],
  });
  await wait(600);
  const end = Date.now() + forMs - 1_000;
  while (Date.now() < end) {
    const member = chance.pick(fleet.live("worker"));
    if (member !== undefined) {
      fleet.terminate(member);
      fleet.start(worker());
    }
    await wait(chance.integer(150, 450));
  }
  await wait(1_000);
  await world.drain(15_000 + 5_000 * world.scale);
  const { history, final } = await world.collect();
  const verdicts = [
    ...usual(history, final, { drained: true }),
    stopsInTime(history, fleet.exits, { claimMs: 100, exitMs: GRACE_MS + 1_000 + 2 * world.stallMs }),
    attemptsKept(history),
    liveness(history, { queue: "graceful", workers: slotsOf(history), longestMs: 1_500 + 2 * world.stallMs }),
  ];
  return world.outcome("T09", history, verdicts);
}
