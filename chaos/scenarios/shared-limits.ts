import { setTimeout as wait } from "node:timers/promises";
import type { AddOptions } from "../../src/queue/add-options.ts";
import type { LimitDefinitions } from "../../src/limits/definition.ts";
import { Queue } from "../../src/queue/queue.ts";
import { recovery } from "../checkers/recovery.ts";
import { shared, sharedAsCalled, slotsBack } from "../checkers/shared.ts";
import type { Work } from "../child/spec.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const LEASE_MS = 1_200;
const STORM_MS = 8_000;
/** A sweep takes the same locks of limits as claims: it must be done within a second of the lease. */
const BACK_MS = 1_000;
const QUEUES = ["front", "back"] as const;
const GROUPS = ["big", "b", "c", "d"] as const;
const MODELS = ["large", "small"] as const;

const LIMITS: LimitDefinitions = {
  service: { max: 40, per: 500, types: ["call"] },
  tenant: { max: 6, per: 400, by: "group", overrides: { big: { max: 15 } }, types: ["serve"] },
  gpu: { concurrency: 5, types: ["infer"] },
  seat: { concurrency: 2, by: "group", types: ["infer"] },
  model: { max: 9, per: 500, by: "model", types: ["infer"] },
  pair: { concurrency: 1, by: ["group", "model"], types: ["infer"] },
  tokens: { max: 2_000, per: 500, weight: "tokens", estimate: 100, concurrency: 8, types: ["chat"] },
  paced: { every: 40, types: ["step"] },
};

type Jobs = Record<string, { data: Work; result: unknown }>;

/**
 * Eight processes of two queues under limits that all of them share: a window for all, one for each group and one for each value of a key,
 * concurrency for all, for each group and for groups with keys, weights that are settled, spacing. One of them is killed every moment. Neither as called nor by what
 * the storage wrote down was anything ever over, and in the end every slot is back.
 */
export async function sharedLimits(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const forMs = STORM_MS * world.scale;
  const worker = (queue: string): Order => ({
    role: "worker",
    seed: world.seed(),
    queue,
    leaseMs: LEASE_MS,
    concurrency: 6,
    graceMs: 500,
    duplicate: 0.05,
    limits: LIMITS,
  });
  await addJobs(world, forMs);
  for (let i = 0; i < 8; i++) fleet.start(worker(QUEUES[i % 2]!));
  const busy = world.scale > 1;
  const burners = busy ? world.burn() : [];
  await wait(500);
  const began = hr();
  while (hr() - began < forMs) {
    const victim = chance.pick(fleet.live("worker"));
    if (victim !== undefined) {
      fleet.kill(victim);
      fleet.start(worker((victim.order as { queue: string }).queue));
    }
    await wait(chance.integer(100, 400));
  }
  for (const burner of burners) fleet.terminate(burner);
  world.say("no more faults");
  // Slots of killed processes blocked other starts: the longer that lasted, the more is left to do. On a machine with all cores busy
  // beside it that took more than 20 s, and 8 to 13 s on a quiet one.
  await world.drain(40_000 * world.scale);
  const { history, final } = await world.collect();
  const verdicts = [
    ...usual(history, final, { drained: true, busy }),
    ...shared(history, final),
    sharedAsCalled(history, final),
    slotsBack(final),
    recovery(history, final, { leaseMs: LEASE_MS, sweepMs: 0, slackMs: BACK_MS + 2 * world.stallMs }),
  ];
  return world.outcome("T16 T19 T23 T41", history, verdicts);
}

/** About as many of each kind as its limit lets start while processes are killed. */
async function addJobs(world: World, forMs: number): Promise<void> {
  const { chance } = world;
  const storage = world.open();
  const queues = QUEUES.map((name) => new Queue<Jobs>(name, { storage, defaults: { maxAttempts: 1_000 } }));
  const seconds = forMs / 1_000;
  const kinds: readonly (readonly [type: string, perSecond: number, one: () => [Work, AddOptions]])[] = [
    ["call", 60, () => [{ do: "nothing" }, {}]],
    ["serve", 60, () => [{ do: "sleep", ms: 5 }, { group: chance.pick(GROUPS)! }]],
    [
      "infer",
      30,
      () => [
        { do: "sleep", ms: chance.integer(20, 80) },
        { group: chance.pick(GROUPS)!, keys: { model: chance.pick(MODELS)!, region: chance.pick(GROUPS)! } },
      ],
    ],
    ["step", 15, () => [{ do: "nothing" }, {}]],
    ["chat", 25, () => chat(chance.integer(1, 300), chance.integer(0, 100))],
  ];
  for (const [type, perSecond, one] of kinds) {
    for (const queue of queues) {
      const jobs = Array.from({ length: Math.ceil((perSecond * seconds) / queues.length) }, () => {
        const [data, options] = one();
        return { type, data, options };
      });
      world.recorded(await queue.addBulk(jobs));
    }
  }
  await storage.close();
}

/** Reserves so many, and uses a part of them. */
function chat(reserved: number, percent: number): [Work, AddOptions] {
  const tokens = Math.floor((reserved * percent) / 100);
  return [{ do: "use", ms: 20, tokens }, { weights: { tokens: reserved } }];
}
