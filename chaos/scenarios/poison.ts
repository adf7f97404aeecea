import { setTimeout as wait } from "node:timers/promises";
import { Queue } from "../../src/queue/queue.ts";
import { poisonDies } from "../checkers/moments.ts";
import type { Work } from "../child/spec.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { usual } from "./usual.ts";

const LEASE_MS = 1_000;
const MAX_ATTEMPTS = 3;

/** Jobs that kill their process, by abort or by filling its heap, among good ones; killed processes are replaced. */
export async function poison(world: World): Promise<Outcome> {
  const { fleet } = world;
  const each = world.planted ? 1 : Math.min(5, 2 * world.scale);
  const good = world.planted ? 20 : 150 * world.scale;
  const storage = world.open();
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>("poison", {
    storage,
    defaults: { maxAttempts: MAX_ATTEMPTS },
  });
  const add = async (work: Work, count: number, maxAttempts: number) => {
    const entry = { type: "work", data: work, options: { maxAttempts } };
    const jobs = await queue.addBulk(Array.from({ length: count }, () => entry));
    world.recorded(jobs);
    return jobs.map(({ id }) => id);
  };
  // Good ones share a process with bad ones: they may be killed as often.
  await add({ do: "sleep", ms: 20 }, good / 2, 100);
  const bad = new Set([
    ...(await add({ do: "abort" }, each, MAX_ATTEMPTS)),
    ...(await add({ do: "exhaust" }, each, MAX_ATTEMPTS)),
  ]);
  await add({ do: "sleep", ms: 20 }, good / 2, 100);
  await storage.close();

  const worker = (): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: "poison",
    leaseMs: LEASE_MS,
    concurrency: 2,
    graceMs: 500,
  });
  let supervising = true;
  const supervise = () => {
    const member = fleet.start(worker(), { heapMb: 64 });
    void member.exited.then(() => {
      if (!supervising || member.retired || fleet.members.length > 200) return;
      fleet.died(member);
      supervise();
    });
  };
  for (let i = 0; i < 2; i++) supervise();
  await wait(500);
  await world.drain(30_000 * world.scale);
  supervising = false;
  const { history, final } = await world.collect();
  const poisoned = final.jobs.filter(({ id }) => bad.has(id));
  const verdicts = [...usual(history, final, { drained: true }), poisonDies(history, poisoned, MAX_ATTEMPTS)];
  return world.outcome("T32", history, verdicts);
}
