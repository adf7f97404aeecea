import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemoryStorage, Queue, Worker } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { worstWindow } from "../limiter/support.ts";
import { chance, failingNetwork } from "./failing-network.ts";

interface Start {
  readonly id: string;
  readonly at: number;
  readonly token: number;
  readonly attempt: number;
}

/**
 * A small world in virtual time: several workers, each behind a network of its own that fails, delays, loses answers and
 * falls silent; handlers that are slow, fail or ignore their signal; a limit. Then the faults end, and all must be well.
 */
async function live(seed: number): Promise<void> {
  const random = chance(seed);
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("q", { storage, clock });
  const starts: Start[] = [];
  const settled: string[] = [];
  for (const name of ["completed", "dead", "cancelled"] as const) queue.on(name, ({ id }) => settled.push(id));

  const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
  const networks = [0, 1, 2].map((i) => failingNetwork(storage, { clock, random, seed: seed + i }));
  const workers = networks.map(
    (network) =>
      new Worker(
        "q",
        async (job, { signal, token, attempt }) => {
          starts.push({ id: job.id, at: clock.now(), token, attempt });
          await wait(random() * 2_000);
          if (random() < 0.1) await wait(6_000);
          if (random() < 0.3) signal.throwIfAborted();
          if (random() < 0.15) throw new Error("by chance");
          return token;
        },
        {
          storage: network,
          clock,
          random,
          lease: "3s",
          concurrency: 1 + Math.floor(random() * 4),
          limiter: { max: 5, duration: "2s" },
          onError: () => {},
        },
      ),
  );
  const jobs = await queue.addBulk(
    Array.from({ length: 30 }, (_, i) => ({ type: "t", data: i, options: { maxAttempts: 50 } })),
  );
  await clock.advance(60_000);
  for (const network of networks) network.heal();
  await clock.advance(200_000);

  const infos = await Promise.all(jobs.map((job) => job.info()));
  // Nothing is lost, everything ends, once.
  expect(infos.map((info) => info?.state)).toEqual(jobs.map(() => "completed"));
  expect(settled.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
  // What was kept came from the latest lease.
  for (const info of infos) {
    const tokens = starts.filter(({ id }) => id === info!.id).map(({ token }) => token);
    expect(info!.result).toBe(Math.max(...tokens));
  }
  // Tokens only grow, and the limit held at every instant, for all that was ever called.
  for (const { id } of jobs) {
    const mine = starts.filter((start) => start.id === id);
    expect(mine.map(({ token }) => token)).toEqual(mine.map(({ token }) => token).toSorted((a, b) => a - b));
  }
  expect(
    worstWindow(
      starts.map(({ at }) => at),
      2_000,
    ),
  ).toBeLessThanOrEqual(5);
  await Promise.all(workers.map((worker) => worker.stop({ timeout: 0 })).concat(clock.advance(1_000) as never));
  expect(clock.timers).toBe(0);
}

describe("workers behind networks that fail", () => {
  it("workers behind failing networks lose no job, settle each once, keep the limit, and recover", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), (seed) => live(seed)),
      { numRuns: 25 },
    );
  });
});
