import { describe, expect, it } from "vitest";
import {
  type BatchContext,
  type BatchHandler,
  type BatchWorkerOptions,
  type JobView,
  Worker,
} from "../../src/index.ts";
import { worstWindow } from "../limiter/support.ts";
import { open } from "./support.ts";

type House = ReturnType<typeof open>;

const many = (n: number, options = {}) => Array.from({ length: n }, (_, i) => ({ type: "t", data: i, options }));

function workInBatches(house: House, handler: BatchHandler<number>, options: Partial<BatchWorkerOptions>) {
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
  it("gets up to `size` jobs at once, and each is settled on its own", async () => {
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

  it("counts each of its jobs against the limit", async () => {
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

  it("fails as a whole when the handler throws, or returns what is not one outcome for each", async () => {
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

  it("waits for more as long as it lingers, and not at all when there is enough", async () => {
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

  it("has a signal for each job, and one for all of them", async () => {
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
    expect(() => context.of({ ...jobs[0]! })).toThrow(/not in this batch/);
    end.resolve();
    expect(await second!.result()).toBe("done");
    expect(await first!.info()).toMatchObject({ state: "cancelled", progress: { percent: 10 } });
    await worker.stop();
  });
});
