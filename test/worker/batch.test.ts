import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import {
  type BatchContext,
  type BatchHandler,
  type BatchWorkerOptions,
  type JobView,
  Worker,
} from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { rule, window } from "../../src/testing/suite/limit-words.ts";
import { worstWindow } from "../limiter/support.ts";
import { type House, HOUSES, open } from "./support.ts";

const many = (n: number, options = {}) => Array.from({ length: n }, (_, i) => ({ type: "t", data: i, options }));

function workInBatches(
  house: House,
  handler: BatchHandler<number> | Record<string, BatchHandler<number>>,
  options: Partial<BatchWorkerOptions>,
) {
  const errors: unknown[] = [];
  const worker = new Worker<Record<string, { data: number }>>("q", handler, {
    storage: house.storage,
    clock: house.clock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    batch: { size: 10 },
    ...options,
  });
  return { worker, errors };
}

describe("a batch", () => {
  it("a batch has up to `size` jobs, and each is settled on its own", async () => {
    const house = open();
    const sizes: number[] = [];
    const { worker } = workInBatches(
      house,
      async (jobs) => {
        sizes.push(jobs.length);
        return jobs.map(({ data }) => (data % 3 === 0 ? new Error(`no ${data}`) : data * 2));
      },
      {},
    );
    const jobs = await house.queue.addBulk(many(25, { maxAttempts: 1 }));
    await worker.onIdle();
    expect(sizes).toEqual([10, 10, 5]);
    for (const [i, job] of jobs.entries()) {
      if (i % 3 === 0) await expect(job.result()).rejects.toThrow(`no ${i}`);
      else expect(await job.result()).toBe(i * 2);
    }
    await worker.stop();
  });

  it("each job of a batch counts against the limit", async () => {
    const house = open();
    const starts: number[] = [];
    const handler = async (jobs: readonly JobView[]) => {
      for (const _ of jobs) starts.push(house.clock.now());
    };
    const shared = workInBatches(house, handler, { concurrency: 3, limiter: { max: 12, duration: 1_000 } });
    await house.queue.addBulk(many(30));
    await house.clock.advance(2_500);
    expect(starts).toHaveLength(30);
    expect(worstWindow(starts, 1_000)).toBe(12);
    await shared.worker.stop();

    starts.length = 0;
    await house.clock.advance(10_000);
    const limiter = { max: 12, duration: 1_000, scope: "worker" } as const;
    const own = workInBatches(house, handler, { concurrency: 3, limiter });
    await house.queue.addBulk(many(30));
    await house.clock.advance(2_500);
    expect(starts).toHaveLength(30);
    expect(worstWindow(starts, 1_000)).toBe(12);
    await own.worker.stop();
  });

  it("an Error of another realm, as test runners make them, fails its job", async () => {
    const house = open();
    const foreign = () => runInNewContext("new TypeError('of another realm')") as Error;
    const { worker } = workInBatches(house, async (jobs) => jobs.map(foreign), {});
    const [job] = await house.queue.addBulk(many(1, { maxAttempts: 1 }));
    await worker.onIdle();
    await expect(job!.result()).rejects.toThrow("of another realm");
    await worker.stop();
  });

  it("outcomes of a batch that are promises are awaited, and each fails its own job", async () => {
    const house = open();
    const { worker, errors } = workInBatches(
      house,
      async (jobs) =>
        jobs.map(async ({ data }) => {
          await new Promise<void>((resolve) => house.clock.after(10 * data, resolve));
          if (data === 1) throw new Error("one");
          return data;
        }),
      { batch: { size: 3 } },
    );
    const added = await house.queue.addBulk(many(3, { maxAttempts: 1 }));
    await house.clock.advance(19);
    expect((await house.queue.counts()).active).toBe(3);
    await house.clock.advance(1);
    const infos = await Promise.all(added.map((job) => job.info()));
    expect(infos.map((info) => [info!.state, info!.result ?? info!.error?.message])).toEqual([
      ["completed", 0],
      ["dead", "one"],
      ["completed", 2],
    ]);
    expect(errors).toEqual([]);
    await worker.stop();
  });

  it("all jobs of a batch fail when the handler throws, or does not return one outcome for each", async () => {
    const house = open();
    const answers: (() => unknown)[] = [
      () => {
        throw new Error("all of them");
      },
      () => [1],
      () => "fine",
    ];
    const { worker } = workInBatches(house, (async () => answers.shift()?.()) as BatchHandler<number>, {});
    for (const message of ["all of them", /one outcome for each of its 3 jobs, got 1/, /got string/]) {
      const jobs = await house.queue.addBulk(many(3, { maxAttempts: 1 }));
      for (const job of jobs) await expect(job.result()).rejects.toThrow(message);
    }
    await worker.stop();
  });

  it("a batch waits for more jobs as long as `linger`, and not at all when it is full", async () => {
    const house = open();
    const calls: [at: number, size: number][] = [];
    const { worker } = workInBatches(house, async (jobs) => void calls.push([house.clock.now(), jobs.length]), {
      batch: { size: 5, linger: 100 },
      lease: "10d",
    });
    await house.clock.advance(1_000);
    for (let i = 0; i < 3; i++) {
      await house.queue.add("t", i);
      await house.clock.advance(20);
    }
    await house.clock.advance(200);
    expect(calls).toEqual([[1_100, 3]]);
    calls.length = 0;
    await house.queue.addBulk(many(12));
    await house.clock.advance(1_000);
    expect(calls.map(([, size]) => size)).toEqual([5, 5, 2]);
    // The first lingers, for it cannot know; then there is a backlog, and none waits.
    expect(new Set(calls.map(([at]) => at)).size).toBe(1);
    await worker.stop();
  });

  it("a batch has a signal for each job, and one for all of them", async () => {
    const house = open();
    const seen: { context: BatchContext; jobs: readonly JobView<number>[] }[] = [];
    const end = Promise.withResolvers<void>();
    const { worker } = workInBatches(
      house,
      async (jobs, context) => {
        seen.push({ jobs, context });
        await context.of(jobs[0]!).updateProgress(10);
        await end.promise;
        return jobs.map(() => "done");
      },
      {},
    );
    const [first, second] = await house.queue.addBulk(many(2));
    await house.clock.advance(0);
    const { context, jobs } = seen[0]!;
    await first!.cancel();
    expect([context.of(jobs[0]!).signal.aborted, context.of(jobs[1]!).signal.aborted]).toEqual([true, false]);
    expect(context.signal.aborted).toBe(false);
    expect(() => context.of({ ...jobs[0]! })).toThrow(/expected one of the jobs of this batch/);
    end.resolve();
    expect(await second!.result()).toBe("done");
    expect(await first!.info()).toMatchObject({ state: "cancelled", progress: { percent: 10 } });
    await worker.stop();
  });
});

/** Handlers by type that take so long each, and what they recorded. `claimedAt`: when the latest claim was made. */
function slowHandlers({ clock }: House, ms: Readonly<Record<string, number>>, claimedAt = () => clock.now()) {
  const seen = { order: [] as string[], jobs: 0, running: 0, peak: 0, oldest: 0 };
  const handlers: Record<string, BatchHandler<number>> = {};
  for (const [type, took] of Object.entries(ms)) {
    handlers[type] = async (jobs) => {
      seen.order.push(type);
      seen.jobs += jobs.length;
      seen.oldest = Math.max(seen.oldest, clock.now() - claimedAt());
      seen.peak = Math.max(seen.peak, ++seen.running);
      await new Promise<void>((resolve) => clock.after(took, resolve));
      seen.running -= 1;
    };
  }
  return { seen, handlers };
}

/** Every second for so long, one job of each of these types: the first in the list goes first. */
async function keepComing({ clock, queue }: House, types: readonly string[], seconds: number): Promise<void> {
  for (let i = 0; i < seconds; i++) {
    await queue.addBulk(types.map((type, rank) => ({ type, data: i, options: { priority: types.length - rank } })));
    await clock.advance(1_000);
  }
}

for (const { name, open: openHouse } of HOUSES) {
  describe(`${name}: a batch for several handlers`, () => {
    it("a batch under a limit calls each handler in its turn, however long the handlers before it take", async () => {
      const house = openHouse();
      await house.storage.limits.define([rule("api", window(100, 1_000))]);
      let claimedAt = 0;
      const storage = faultyStorage(house.storage, ({ member, args }) => {
        if (member === "claim" && (args[0] as { max: number }).max > 0) claimedAt = house.clock.now();
        return undefined;
      });
      const { seen, handlers } = slowHandlers(house, { a: 3_000, b: 2_500, c: 2_100 }, () => claimedAt);
      const { worker, errors } = workInBatches(house, handlers, { storage, batch: { size: 100 } });
      await keepComing(house, ["a", "b", "c"], 60);
      expect(seen.order.join("")).toMatch(/^(abc){7}/);
      expect(seen.peak).toBe(1);
      expect(seen.oldest).toBeLessThanOrEqual(2_000);
      expect(errors).toEqual([]);
      await Promise.all([worker.stop(), house.clock.advance(10_000)]);
    });

    it("a batch under a limit calls quick handlers one after the other", async () => {
      const house = openHouse();
      await house.storage.limits.define([rule("api", window(100, 1_000))]);
      const { seen, handlers } = slowHandlers(house, { a: 100, b: 100 });
      const { worker, errors } = workInBatches(house, handlers, {});
      let back = 0;
      house.queue.on("retried", () => (back += 1));
      await keepComing(house, ["a", "b"], 10);
      expect(seen.order.join("")).toBe("ab".repeat(10));
      expect([back, errors]).toEqual([0, []]);
      await worker.stop();
    });

    it("a batch calls the next handler once all jobs of a handler that never ends were abandoned", async () => {
      const house = openHouse();
      const done: number[] = [];
      const handlers: Record<string, BatchHandler<number>> = {
        a: () => new Promise<void>(() => {}),
        b: async (jobs) => void done.push(...jobs.map(({ data }) => data)),
      };
      const { worker } = workInBatches(house, handlers, { lease: 1_000 });
      const [first] = await house.queue.addBulk([
        { type: "a", data: 1, options: { timeout: 500, maxAttempts: 1, priority: 1 } },
        { type: "b", data: 2 },
      ]);
      await house.clock.advance(2_000);
      expect(await first!.info()).toMatchObject({ state: "dead" });
      expect(done).toEqual([2]);
      await house.queue.addBulk([{ type: "b", data: 3 }]);
      await house.clock.advance(10);
      expect(done).toEqual([2, 3]);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("a batch without a limit calls handlers one after the other, in the order of their jobs, however long they take", async () => {
      const house = openHouse();
      const { seen, handlers } = slowHandlers(house, { a: 3_000, b: 2_500 });
      const { worker, errors } = workInBatches(house, handlers, {});
      await keepComing(house, ["a", "b"], 20);
      await house.clock.advance(60_000);
      expect(seen.order.join("")).toMatch(/^(ab)+$/);
      expect([seen.jobs, seen.peak]).toEqual([40, 1]);
      expect(errors).toEqual([]);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });
  });
}

it("a batch reports a job that was cancelled before the batch began", async () => {
  const house = open();
  let cancelled = false;
  house.queue.on("started", ({ id }) => {
    if (cancelled) return;
    cancelled = true;
    void house.queue.cancel(id);
  });
  const worker = new Worker<Record<string, { data: number }>>("q", async (jobs) => jobs.map(({ data }) => data), {
    storage: house.storage,
    clock: house.clock,
    batch: { size: 5 },
  });
  const [first, second] = await house.queue.addBulk(many(2));
  await house.clock.advance(10);
  expect(await first!.info()).toMatchObject({ state: "cancelled" });
  expect(await second!.info()).toMatchObject({ state: "completed", result: 1 });
  await worker.stop();
});

it("batches of several types keep to the concurrency", async () => {
  const house = open();
  let running = 0;
  let peak = 0;
  const handler = async () => {
    peak = Math.max(peak, ++running);
    await new Promise<void>((resolve) => house.clock.after(10, resolve));
    running -= 1;
  };
  const worker = new Worker<Record<string, { data: number }>>(
    "q",
    { a: () => handler(), b: () => handler(), c: () => handler() },
    { storage: house.storage, clock: house.clock, batch: { size: 10 } },
  );
  await house.queue.addBulk(["a", "b", "c", "a"].map((type, data) => ({ type, data })));
  await house.clock.advance(1_000);
  expect((await house.queue.counts()).completed).toBe(4);
  expect(peak).toBe(1);
  await worker.stop();
});
