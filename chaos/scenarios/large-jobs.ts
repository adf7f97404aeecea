import { setTimeout as wait } from "node:timers/promises";
import { Finding, type Verdict } from "../checkers/verdict.ts";
import type { Work } from "../child/spec.ts";
import { Proxy } from "../conductor/proxy.ts";
import type { Outcome, World } from "../conductor/world.ts";
import type { Digest } from "../history/digest.ts";
import { hr } from "../history/entry.ts";
import { throughProxy } from "./outages.ts";
import { usual } from "./usual.ts";

const BYTES = 500_000;
/** A worker has slots for far more jobs than its connection carries within a lease. */
const CONCURRENCY = 60;

/**
 * Large jobs over a slow connection whose bandwidth changes: a backlog of them waits when workers start that could run
 * all of it at once. It runs, little by little, and nothing is lost.
 */
export async function largeJobs(world: World): Promise<Outcome> {
  const { chance, fleet } = world;
  const queue = "large";
  const proxy = await Proxy.open(world.server!.port, () => chance.next());
  proxy.way = { bandwidth: 4_000_000 };
  const work: Work[] = [{ do: "nothing" }, { do: "sleep", ms: 20 }, { do: "sleep", ms: 200 }];
  const producer = { role: "producer", queue, perSecond: 15, work, bytes: BYTES, maxAttempts: 100 } as const;
  for (let i = 0; i < 2; i++) fleet.start({ ...producer, forMs: 2_000 * world.scale, seed: world.seed() });
  await Promise.all(fleet.live("producer").map(({ exited }) => exited));
  world.count("waiting", await world.unfinished(queue));
  const worker = { role: "worker", queue, leaseMs: 6_000, concurrency: CONCURRENCY, graceMs: 500 } as const;
  for (let i = 0; i < 2; i++) fleet.start({ ...worker, seed: world.seed(), via: throughProxy(world, proxy) });
  const end = hr() + 6_000 * world.scale;
  while (hr() < end && (await world.unfinished(queue)) > 0) {
    await wait(chance.integer(500, 1_500));
    proxy.way = { bandwidth: chance.pick([8_000_000, 4_000_000, 1_000_000, 300_000])! };
    world.count("changes of the way");
  }
  world.say("the way is good for the rest");
  proxy.way = { bandwidth: 8_000_000 };
  const drained = await world.drain(60_000, queue);
  const { history, final } = await world.collect();
  await proxy.close();
  return world.outcome("T15", history, [...usual(history, final, { drained, outages: true }), ran(history, drained)]);
}

/** All jobs have ended. */
function ran({ claims }: Digest, drained: boolean): Verdict {
  const found = new Finding("large jobs", "claims");
  found.n = claims.length;
  found.check(drained, () => "some of the jobs have not run");
  return found.verdict;
}
