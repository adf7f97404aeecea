import { setTimeout as wait } from "node:timers/promises";
import { Queue } from "../../src/queue/queue.ts";
import { Finding } from "../checkers/verdict.ts";
import type { Work } from "../child/spec.ts";
import type { Outcome, World } from "../conductor/world.ts";
import type { Digest } from "../history/digest.ts";
import { hr } from "../history/entry.ts";

const BULK = 1_000;

/** Far more jobs wait than will ever run: adding and claiming stay quick, and workers stay small. */
export async function backlog(world: World): Promise<Outcome> {
  const { fleet } = world;
  const waiting = Math.min(1_000_000, 20_000 * Math.ceil(world.scale) ** 2);
  const storage = world.open();
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>("backlog", { storage });
  const entries = (delay: number) =>
    Array.from({ length: BULK }, () => ({ type: "work", data: { do: "sleep", ms: 20 } as const, options: { delay } }));
  for (let n = 0; n < waiting; n += BULK) await queue.addBulk(entries(n % (BULK * 10) === 0 ? 3_600_000 : 0));
  world.say(`${waiting} jobs wait`);
  // Filling the queue kept the conductor busy, not the machine: the watch has to record that before it is reset.
  await wait(100);
  world.stallMs = 0;
  const adds: number[] = [];
  for (let i = 0; i < 2; i++) {
    const order = { role: "worker", queue: "backlog", leaseMs: 5_000, concurrency: 4, graceMs: 1_000 } as const;
    fleet.start({ ...order, seed: world.seed() });
  }
  const end = hr() + 3_000 * world.scale;
  while (hr() < end) {
    const from = hr();
    await queue.add("work", { do: "sleep", ms: 20 });
    adds.push(hr() - from);
    await wait(5);
  }
  await storage.close();
  const history = await world.end();
  world.count("waiting", waiting);
  const verdicts = [
    quick("add", adds, 20 + 2 * world.stallMs),
    quick("claim", claimTimes(history), 20 + 2 * world.stallMs),
    small(history, 150),
  ];
  return world.outcome("T37", history, verdicts);
}

/** Except for the first claim of each process, which waits for a connection whose plans are not made yet. */
function claimTimes(history: Digest): number[] {
  const first = new Map<string, number>();
  for (const { p, from } of history.claims) first.set(p, Math.min(from, first.get(p) ?? from));
  const later = history.claims.filter(({ p, from }) => from > first.get(p)!);
  return [...new Map(later.map(({ p, from, until }) => [`${p} ${from}`, until - from])).values()];
}

function quick(what: string, times: readonly number[], p99Ms: number): ReturnType<typeof verdictOf> {
  const found = new Finding(what, "times");
  const sorted = times.toSorted((a, b) => a - b);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.POSITIVE_INFINITY;
  found.check(p99 <= p99Ms, () => `${what}: p99 is ${p99.toFixed(1)} ms, ${p99Ms} allowed`);
  found.n = times.length;
  found.note = `p50 ${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
  return verdictOf(found);
}

function small(history: Digest, mb: number): ReturnType<typeof verdictOf> {
  const found = new Finding("memory", "samples");
  let most = 0;
  for (const { kind, value, p } of history.notes) {
    if (kind !== "memory") continue;
    most = Math.max(most, value);
    found.check(value <= mb * 2 ** 20, () => `${p} has ${Math.round(value / 2 ** 20)} MB`);
  }
  found.note = `largest ${Math.round(most / 2 ** 20)} MB`;
  return verdictOf(found);
}

const verdictOf = (found: Finding) => found.verdict;
