import { setTimeout as wait } from "node:timers/promises";
import { idempotency } from "../checkers/idempotency.ts";
import { liveness } from "../checkers/liveness.ts";
import { order } from "../checkers/order.ts";
import { recovery } from "../checkers/recovery.ts";
import { Finding } from "../checkers/verdict.ts";
import type { Work } from "../child/spec.ts";
import type { Member, Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { slotsOf, usual } from "./usual.ts";

const LEASE_MS = 1_200;
const SLOTS = 4;
/** How long one storm takes. In its middle all workers are killed at once. */
const STORM_MS = 14_000;

/**
 * Eight processes on one file with a log that is written back all the time; workers and producers are killed every moment,
 * paused beyond their lease now and then, killed all together once, and started again at once. Jobs of all lengths, some in
 * groups, some with keys that several producers add, some in bulks.
 */
export async function storm(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const forMs = STORM_MS * world.scale;
  const workers = 6;
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: "storm",
    leaseMs: LEASE_MS,
    concurrency: SLOTS,
    graceMs: 500,
    checkpoint: 10,
    duplicate: 0.05,
  });
  const producer = (left: number, keyed: boolean): Order => ({
    role: "producer",
    seed: world.seed(),
    queue: "storm",
    forMs: left,
    perSecond: keyed ? 40 : 60,
    maxAttempts: 1_000,
    work: keyed ? [{ do: "nothing" }] : mixed(),
    ...(keyed ? { keyMs: 50 } : { groups: 5, bulk: { size: 1_000, probability: 0.002 }, delayed: 0.1 }),
  });
  const began = hr();
  const left = () => forMs - (hr() - began);
  const again = (member: Member) => {
    const { order: before } = member;
    if (before.role === "worker") fleet.start(worker());
    else if (left() > 500) fleet.start(producer(left(), before.role === "producer" && before.keyMs !== undefined));
  };
  for (let i = 0; i < workers; i++) fleet.start(worker());
  for (const keyed of [false, true, true, true]) fleet.start(producer(forMs, keyed));
  await wait(700);

  const sound = new Finding("integrity", "checks");
  let killAllAt = STORM_MS / 2;
  while (left() > 0) {
    if (forMs - left() > killAllAt) {
      killAllAt += STORM_MS;
      const all = fleet.live("worker");
      for (const member of all) fleet.kill(member);
      world.say(`kill all ${all.length} workers`);
      await wait(1_000);
      const damage = await world.ground.integrity(world.database);
      sound.check(damage.length === 0, () => damage.join("; "));
      for (const member of all) again(member);
      await wait(500);
      continue;
    }
    const victim = chance.pick([...fleet.live("worker"), ...(chance.chance(0.4) ? fleet.live("producer") : [])]);
    if (victim !== undefined && chance.chance(0.12) && victim.order.role === "worker") {
      void pauseFor(world, victim, LEASE_MS * 2);
    } else if (victim !== undefined) {
      fleet.kill(victim);
      again(victim);
    }
    await wait(chance.integer(100, 400));
  }
  world.say("no more faults");
  await wait(300);
  await world.drain(30_000);
  const { history, final } = await world.collect();
  const verdicts = [
    ...usual(history, final, { drained: true }),
    sound.verdict,
    idempotency(history, final),
    order(history, { sideBySide: world.ground.name === "postgres" }),
    liveness(history, { queue: "storm", workers: slotsOf(history), longestMs: 1_500 + 2 * world.stallMs }),
    recovery(history, final, { leaseMs: LEASE_MS, sweepMs: LEASE_MS / 6, slackMs: 500 + 2 * world.stallMs }),
  ];
  return world.outcome("T01 T02 T04 T05 T08 T19 T27 T41", history, verdicts);
}

function mixed(): Work[] {
  return [
    { do: "nothing" },
    { do: "nothing" },
    { do: "sleep", ms: 5 },
    { do: "sleep", ms: 30 },
    { do: "sleep", ms: 120 },
    { do: "sleep", ms: 200, deaf: true },
    { do: "fail", until: 2 },
    { do: "spin", ms: 5 },
  ];
}

/** Stopped, and left alone until it goes on. */
export async function pauseFor(world: World, member: Member, ms: number): Promise<void> {
  member.retired = true;
  world.fleet.pause(member);
  await wait(ms);
  world.fleet.resume(member);
  member.retired = false;
}
