import { setTimeout as wait } from "node:timers/promises";
import type { LimitDefinitions } from "../../src/limits/definition.ts";
import { Limits } from "../../src/limiter/shared/limits.ts";
import type { AddOptions } from "../../src/queue/add-options.ts";
import { Queue } from "../../src/queue/queue.ts";
import { queueLimitKey } from "../../src/worker/admission.ts";
import { granted, rate } from "../checkers/rates.ts";
import { shared, sharedAsCalled } from "../checkers/shared.ts";
import type { Work, WorkerSpec } from "../child/spec.ts";
import type { Member, Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const FOR_MS = 10_000;
const LEASE_MS = 3_000;
const GROUPS = ["big", "b", "c"] as const;

const SHARED = "shared";
const LIMITS: LimitDefinitions = {
  service: { max: 20, per: 500, types: ["call"] },
  tenant: { max: 4, per: 400, by: "group", overrides: { big: { max: 8 } }, types: ["serve"] },
  tokens: { max: 2_000, per: 500, weight: "tokens", estimate: 100, types: ["chat"] },
  paced: { every: 50, types: ["step"] },
  burst: { max: 6, per: 300, every: 10, types: ["burst"] },
};

const LIMITED = "limited";
const MAX = 20;
const WINDOW_MS = 500;

const COMPOSED = "composed";
const COMPOSITE = [
  { name: "second", max: 10, windowMs: 1_000 },
  { name: "three-seconds", max: 24, windowMs: 3_000 },
] as const;

type Jobs = Record<string, { data: Work; result: unknown }>;

/**
 * Every kind of limit on a machine that has no time: two processes burn its processors, handlers block their event loops, and
 * every moment some process is stopped, for milliseconds or for longer than a start may wait for its call, or killed. By the
 * stamps of handlers, permits and wrapped functions no window is over, and nothing comes too soon after what was before it.
 */
export async function busyMachine(world: World): Promise<Outcome> {
  const { fleet, chance } = world;
  const forMs = FOR_MS * world.scale;
  await addJobs(world, forMs);
  const began = hr();
  const left = () => forMs - (hr() - began);
  const order = (queue: string, more: Partial<Order<WorkerSpec>>): Order<WorkerSpec> => ({
    role: "worker",
    seed: world.seed(),
    queue,
    leaseMs: LEASE_MS,
    concurrency: 8,
    graceMs: 500,
    duplicate: 0.05,
    ...more,
  });
  const caller = (): Order => ({
    role: "caller",
    seed: world.seed(),
    forMs: Math.max(500, left()),
    limits: COMPOSITE,
    shared: ["service", "paced"],
    cancel: 0.1,
    callers: 4,
    duplicate: 0.2,
  });
  const limiter = { max: MAX, duration: WINDOW_MS };
  const orders: readonly (() => Order)[] = [
    () => order(SHARED, { limits: LIMITS }),
    () => order(SHARED, { limits: LIMITS }),
    () => order(SHARED, { limits: LIMITS, batch: 4, concurrency: 3 }),
    () => order(LIMITED, { limiter }),
    () => order(LIMITED, { limiter, batch: 5, concurrency: 2 }),
    () => order(COMPOSED, { composite: COMPOSITE }),
    caller,
  ];
  const again = new Map<Member, () => Order>();
  const start = (make: () => Order) => void again.set(fleet.start(make()), make);
  for (const make of orders) start(make);
  world.burn();
  await wait(1_500);
  const stops: Promise<void>[] = [];
  while (left() > 0) {
    await wait(chance.integer(50, 350));
    const victim = chance.pick([...fleet.live("worker"), ...fleet.live("caller")]);
    if (victim === undefined) continue;
    if (chance.chance(0.35)) {
      fleet.kill(victim);
      start(again.get(victim)!);
    } else {
      stops.push(stop(world, victim));
    }
  }
  await Promise.all(stops);
  const { history, final } = await world.collect();
  const own = { limiter: queueLimitKey(LIMITED), max: MAX, windowMs: WINDOW_MS };
  const verdicts = [
    ...usual(history, final, { drained: false, busy: true }),
    sharedAsCalled(history, final),
    ...shared(history, final),
    rate(history, own),
    granted(history, own),
    ...COMPOSITE.map(({ name, max, windowMs }) => rate(history, { limiter: name, max, windowMs })),
  ];
  return world.outcome("T16 T22 T23 T26", history, verdicts);
}

/** Mostly for a moment; now and then for longer than a start may wait for its call. */
async function stop({ fleet, chance }: World, member: Member): Promise<void> {
  const forMs = chance.chance(0.8) ? chance.integer(5, 400) : chance.integer(1_000, 2_500);
  // No other fault may choose it meanwhile.
  member.retired = true;
  fleet.pause(member);
  await wait(forMs);
  fleet.resume(member);
  member.retired = false;
}

/** More of each kind than its limit lets start. */
async function addJobs(world: World, forMs: number): Promise<void> {
  const { chance } = world;
  const storage = world.open();
  await storage.setup();
  // Callers ask for them as soon as they live.
  await new Limits(storage).define(LIMITS);
  const seconds = forMs / 1_000 + 2;
  const block = (): Work => ({ do: "spin", ms: chance.integer(0, 4) });
  const inGroup = (): AddOptions => ({ group: chance.pick(GROUPS)! });
  const kinds: readonly (readonly [queue: string, type: string, perSecond: number, one: () => [Work, AddOptions]])[] = [
    [SHARED, "call", 40, () => [block(), {}]],
    [SHARED, "serve", 40, () => [block(), inGroup()]],
    [SHARED, "chat", 40, () => chat(chance.integer(50, 300), chance.integer(0, 100))],
    [SHARED, "step", 20, () => [block(), {}]],
    [SHARED, "burst", 20, () => [block(), {}]],
    [LIMITED, "work", 45, () => [block(), {}]],
    [COMPOSED, "work", 5, () => [block(), {}]],
  ];
  for (const [name, type, perSecond, one] of kinds) {
    const queue = new Queue<Jobs>(name, { storage, defaults: { maxAttempts: 1_000 } });
    const jobs = Array.from({ length: Math.ceil(perSecond * seconds) }, () => {
      const [data, options] = one();
      return { type, data, options };
    });
    world.recorded(await queue.addBulk(jobs));
  }
  await storage.close();
}

/** Reserves so many, and uses a part of them. */
function chat(reserved: number, percent: number): [Work, AddOptions] {
  const tokens = Math.floor((reserved * percent) / 100);
  return [{ do: "use", ms: 20, tokens }, { weights: { tokens: reserved } }];
}
