import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defineLimits, MemoryStorage, Queue, Worker } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { chance, failingNetwork } from "./failing-network.ts";

const LIMITS = defineLimits({
  api: { max: 6, per: "2s", all: true },
  gpu: { concurrency: 2, types: ["infer"] },
  tenant: { max: 2, per: "1s", concurrency: 2, by: "group", types: ["serve"] },
  tokens: { max: 100, per: "3s", weight: "tokens", estimate: 40, types: ["chat"] },
});
const TYPES = ["infer", "serve", "chat"] as const;

/**
 * Workers of two queues behind networks that fail, delay, lose answers and fall silent, under limits that all of them share.
 * At every claim what is counted is within the limits and what is held is what runs. Then the faults end: everything is done,
 * and everything that was held is back.
 */
async function live(seed: number): Promise<void> {
  const random = chance(seed);
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const wrong: string[] = [];
  const claim = storage.claim.bind(storage);
  storage.claim = async (request) => {
    const claimed = await claim(request);
    wrong.push(...(await violations(storage)));
    return claimed;
  };
  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
  const names = ["a", "b", "a", "b"];
  const networks = names.map((_, i) => failingNetwork(storage, { clock, random, seed: seed + i }));
  const workers = names.map(
    (name, i) =>
      new Worker(
        name,
        async (job, { signal, settle }) => {
          await wait(random() * 1_000);
          if (job.type === "chat" && random() < 0.7) await settle({ tokens: Math.floor(random() * 40) });
          if (random() < 0.1) await wait(6_000);
          if (random() < 0.3) signal.throwIfAborted();
          if (random() < 0.15) throw new Error("by chance");
        },
        {
          storage: networks[i]!,
          clock,
          random,
          lease: "3s",
          concurrency: 1 + Math.floor(random() * 4),
          limits: LIMITS,
          onError: () => {},
        },
      ),
  );
  const queues = ["a", "b"].map((name) => new Queue(name, { storage, clock }));
  for (const queue of queues) {
    await queue.addBulk(
      Array.from({ length: 18 }, (_, i) => ({
        type: TYPES[i % 3]!,
        data: i,
        options: { maxAttempts: 50, ...(i % 3 === 1 && { group: i % 2 === 0 ? "x" : "y" }) },
      })),
    );
  }
  await clock.advance(60_000);
  for (const healed of networks) healed.heal();
  await clock.advance(300_000);

  for (const queue of queues) expect(await queue.counts()).toMatchObject({ completed: 18, active: 0, waiting: 0 });
  for (const { states } of await storage.limits.read({ name: null, group: null })) {
    for (const { held } of states) expect(held).toBe(0);
  }
  expect(wrong).toEqual([]);
  await Promise.all(workers.map((worker) => worker.stop({ timeout: 0 })).concat(clock.advance(1_000) as never));
  expect(clock.timers).toBe(0);
}

/** Is more counted or held than may be, or something else held than what runs? */
async function violations(storage: MemoryStorage): Promise<string[]> {
  const running = (queue: string) => {
    const all = { type: null, group: null, since: null, until: null, limit: 100, cursor: null };
    return storage.list({ queue, states: ["active"], ...all });
  };
  // Asked in one step: this storage answers all of it before the next call.
  const [a, b, limits] = await Promise.all([
    running("a"),
    running("b"),
    storage.limits.read({ name: null, group: null }),
  ]);
  const active = new Map<string, number>();
  for (const { type, group } of [...a.jobs, ...b.jobs]) {
    for (const key of [type, `${type} ${group}`]) active.set(key, (active.get(key) ?? 0) + 1);
  }
  const found: string[] = [];
  for (const { rule, states } of limits) {
    const { max, concurrency } = rule.quota;
    for (const { group, used, held } of states) {
      if (max !== null && used > max) found.push(`${rule.name}: ${used} of ${max}`);
      if (concurrency === null) continue;
      const runs = active.get(group === null ? rule.types![0]! : `${rule.types![0]!} ${group}`) ?? 0;
      if (held > concurrency || held !== runs) found.push(`${rule.name}: ${held} held, ${runs} run`);
    }
  }
  return found;
}

describe("workers behind networks that fail, under shared limits", () => {
  it("workers behind failing networks never exceed shared limits, leak nothing, and finish", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), (seed) => live(seed)),
      { numRuns: 15 },
    );
  });
});
