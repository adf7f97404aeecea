import { setTimeout as wait } from "node:timers/promises";
import { cancelReceived } from "../checkers/moments.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const LEASE_MS = 900;

/**
 * Commands cancel, remove, retry, promote, drain and purge while jobs run, and workers are killed: no unknown job appears, nothing
 * that was removed comes back, and handlers of removed jobs are aborted.
 */
export async function commands(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const forMs = 6_000 * world.scale;
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: "commands",
    leaseMs: LEASE_MS,
    concurrency: 12,
    graceMs: 300,
  });
  for (let i = 0; i < 3; i++) fleet.start(worker());
  fleet.start({
    role: "producer",
    seed: world.seed(),
    queue: "commands",
    forMs,
    perSecond: 30,
    maxAttempts: 20,
    groups: 3,
    delayed: 0.3,
    work: [
      { do: "nothing" },
      { do: "sleep", ms: 30 },
      { do: "sleep", ms: 150 },
      { do: "sleep", ms: 100, deaf: true },
      { do: "fail", until: 2 },
      // Long enough to be cancelled while it runs, and ignores its signal: the instant of the abort is recorded.
      ...Array.from({ length: 2 }, () => ({ do: "sleep", ms: 2_000, deaf: true }) as const),
    ],
  });
  for (let i = 0; i < 2; i++) fleet.start({ role: "commander", seed: world.seed(), queue: "commands", forMs });
  const began = hr();
  await wait(600);
  while (hr() - began < forMs) {
    const victim = chance.pick(fleet.live("worker"));
    if (victim !== undefined) {
      fleet.kill(victim);
      fleet.start(worker());
    }
    await wait(chance.integer(500, 900));
  }
  await wait(500);
  await world.drain(10_000 + 5_000 * world.scale);
  const { history, final } = await world.collect();
  world.count("commands", history.changes.length);
  return world.outcome("T33", history, [
    ...usual(history, final, { drained: true }),
    cancelReceived(history, 1_000 + 2 * world.stallMs),
  ]);
}
