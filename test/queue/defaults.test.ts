import { describe, expect, it } from "vitest";
import {
  type JobDefaults,
  JobQueueClient,
  MemoryStorage,
  OptionsError,
  Queue,
  type QueueDefaults,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { open, work } from "../worker/support.ts";

interface Jobs {
  send_email: { data: string; result: void };
  resize: { data: number; result: void };
}

function queueWith(defaults: QueueDefaults<Jobs>) {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  return { clock, storage, queue: new Queue<Jobs>("q", { storage, clock, defaults }) };
}

const message = (make: () => unknown) => {
  try {
    make();
  } catch (error) {
    return error instanceof OptionsError ? error.message : error;
  }
  return undefined;
};

describe("defaults by type", () => {
  it("options of a job come first, then those of its type, then of the queue, then the built-in defaults", async () => {
    const { queue, storage } = queueWith({
      maxAttempts: 9,
      timeout: "1m",
      send_email: { maxAttempts: 3, backoff: { kind: "fixed", delay: "2s" }, weights: { mails: 2 } },
    });
    const ids = [
      await queue.add("send_email", "a", { maxAttempts: 1, timeout: "5s" }),
      await queue.add("send_email", "a"),
      await queue.add("resize", 1),
    ].map(({ id }) => id);
    const found = await storage.find(ids);
    expect(found.map((job) => [job?.maxAttempts, job?.timeout, job?.backoff, job?.weights, job?.priority])).toEqual([
      [1, 5_000, { kind: "fixed", delay: 2_000 }, { mails: 2 }, 0],
      [3, 60_000, { kind: "fixed", delay: 2_000 }, { mails: 2 }, 0],
      [9, 60_000, { kind: "exponential", initial: 1_000, max: 600_000 }, null, 0],
    ]);
  });

  it("an option that is undefined counts as left out, of a job and of a type", async () => {
    const { queue } = queueWith({
      maxAttempts: 9,
      send_email: { maxAttempts: undefined, priority: 4 },
      resize: undefined,
    });
    const job = await queue.add("send_email", "a", { priority: undefined });
    expect(await job.info()).toMatchObject({ maxAttempts: 9, priority: 4 });
  });

  it("each job of a bulk has the defaults of its own type", async () => {
    const { queue, storage } = queueWith({ send_email: { maxAttempts: 3 }, resize: { maxAttempts: 7 } });
    const jobs = await queue.addBulk([
      { type: "send_email", data: "a" },
      { type: "resize", data: 1 },
      { type: "resize", data: 1, options: { maxAttempts: 2 } },
      { type: "constructor" as "resize", data: 1 },
    ]);
    const found = await storage.find(jobs.map(({ id }) => id));
    expect(found.map((job) => job?.maxAttempts)).toEqual([3, 7, 2, 5]);
  });

  it("a wrong default is refused when the queue is made, with its place", () => {
    const storage = new MemoryStorage();
    const make = (defaults: object) => () => new Queue("q", { storage, defaults: defaults as JobDefaults });
    expect(message(make({ send_email: { maxAttemps: 3 } }))).toMatch(/^Queue defaults\.send_email: .*maxAttempts/s);
    expect(message(make({ send_email: { maxAttempts: 0 } }))).toMatch(
      /^Queue defaults\.send_email: .*integer from 1 to 2147483647/s,
    );
    expect(message(make({ send_email: { delay: "1s" } }))).toMatch(/no such option/);
    expect(message(make({ maxAttemps: 3 }))).toMatch(/^Queue defaults: .*did you mean `maxAttempts`/s);
    expect(message(make({ backof: { kind: "fixed", delay: 1 } }))).toMatch(/^Queue defaults\.backof: .*`kind`/s);
    expect(message(make({ "": { maxAttempts: 3 } }))).toMatch(/^Queue defaults: .*`type`/s);
    expect(message(make([]))).toMatch(/^Queue: .*`defaults`/s);
  });

  it("a JobQueueClient has defaults, too", async () => {
    const storage = new MemoryStorage();
    const client = new JobQueueClient({
      storage,
      queueName: "q",
      type: "b",
      defaults: { a: { priority: 1 }, b: { priority: 2 } },
    });
    const handle = await client.submit(null);
    expect((await storage.find([handle.id]))[0]?.priority).toBe(2);
  });
});

describe("the same defaults given to a worker", () => {
  it("a job that was added without a timeout gets the default of its type from the worker", async () => {
    const house = open();
    const defaults = { timeout: "1h", slow: { timeout: "2s", maxAttempts: 1 } } as const;
    const { worker } = work(
      house,
      async (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        }),
      { defaults },
    );
    const job = await house.queue.add("slow", null, { maxAttempts: 1 });
    const patient = await house.queue.add("slow", null, { maxAttempts: 1, timeout: "3s" });
    await house.clock.advance(2_000);
    expect((await job.info())?.error?.message).toBe("the attempt took longer than 2000 ms");
    await house.clock.advance(2_999);
    expect((await patient.info())?.state).toBe("active");
    await house.clock.advance(1);
    expect((await patient.info())?.error?.message).toBe("the attempt took longer than 3000 ms");
    await worker.stop();
  });

  it("wrong defaults are refused when the worker is made", () => {
    const house = open();
    expect(message(() => work(house, () => {}, { defaults: { send_email: { timeout: 0 } } }))).toMatch(
      /^Worker defaults\.send_email: .*`timeout`/s,
    );
  });
});
