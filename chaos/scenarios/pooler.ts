import { setTimeout as wait } from "node:timers/promises";
import type { LimitDefinitions } from "../../src/limits/definition.ts";
import { Queue } from "../../src/queue/queue.ts";
import { shared, sharedAsCalled, slotsBack } from "../checkers/shared.ts";
import type { Work } from "../child/spec.ts";
import type { Order } from "../conductor/fleet.ts";
import { hasPgBouncer, PgBouncer } from "../conductor/pgbouncer.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const QUEUE = "pooled";
const LEASE_MS = 2_000;
const FOR_MS = 8_000;
const PER_SECOND = 80;

const LIMITS: LimitDefinitions = {
  service: { max: 40, per: 500, types: ["call"] },
  gpu: { concurrency: 3, types: ["infer"] },
};

/**
 * Six workers reach the server through a real PgBouncer in transaction mode, with half as many connections behind it. It is killed
 * and started again in the middle of transactions, and workers are killed. No limit is over as called, nothing is lost, and every
 * slot comes back.
 */
export async function pooler(world: World): Promise<Outcome> {
  if (!hasPgBouncer()) return world.skipped("T12", "PgBouncer is not installed here");
  const { fleet, chance } = world;
  const bouncer = await PgBouncer.open({ to: world.server!.port, poolSize: 3 });
  const via = world.server!.url.replace(`:${world.server!.port}/`, `:${bouncer.port}/`);
  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: QUEUE,
    leaseMs: LEASE_MS,
    concurrency: 5,
    graceMs: 500,
    limits: LIMITS,
    via,
  });
  try {
    const forMs = FOR_MS * world.scale;
    await addJobs(world, (forMs / 1_000) * PER_SECOND);
    for (let i = 0; i < 6; i++) fleet.start(worker());
    await wait(1_500);
    const end = hr() + forMs;
    while (hr() < end) {
      if (chance.next() < 0.5) {
        await bouncer.kill();
        await wait(chance.integer(0, 300));
        await bouncer.start();
        world.count("poolers killed");
      } else {
        const victim = chance.pick(fleet.live("worker"));
        if (victim !== undefined) fleet.kill(victim);
        fleet.start(worker());
      }
      await wait(chance.integer(1_000, 2_000));
    }
    world.say("no more faults");
    await world.drain(30_000, QUEUE);
    const { history, final } = await world.collect();
    const verdicts = [
      ...usual(history, final, { drained: true, outages: true }),
      ...shared(history, final),
      sharedAsCalled(history, final),
      slotsBack(final),
    ];
    return world.outcome("T12", history, verdicts);
  } finally {
    await bouncer.close();
  }
}

async function addJobs(world: World, jobs: number): Promise<void> {
  const storage = world.open();
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>(QUEUE, {
    storage,
    defaults: { maxAttempts: 1_000 },
  });
  const kinds = [
    { type: "call", data: { do: "nothing" } },
    { type: "infer", data: { do: "sleep", ms: 30 } },
  ] as const;
  world.recorded(await queue.addBulk(Array.from({ length: jobs }, (_, i) => kinds[i % 2]!)));
  await storage.close();
}
