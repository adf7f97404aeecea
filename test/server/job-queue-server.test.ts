import { describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  type IJobExecuteContext,
  type ILimiter,
  InMemoryRateLimiterStorage,
  Job,
  JobQueueClient,
  JobQueueServer,
  MemoryStorage,
  NullLimiter,
  OptionsError,
  PermanentJobError,
  Queue,
  RateLimitedError,
  RateLimiter,
  RetryableJobError,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { SixMethodLimiter } from "../limiter/support.ts";
import { gated, numbers, open } from "./support.ts";

class Double extends Job<number, number> {
  async execute(input: number): Promise<number> {
    return input * 2;
  }
}

describe("JobQueueServer", () => {
  it("a server does not start by itself", async () => {
    const storage = new MemoryStorage();
    const server = new JobQueueServer(Double, { storage, queueName: "q" });
    const client = new JobQueueClient<number, number>({ storage, queueName: "q" });
    const handle = await client.submit(21);
    expect(server.isRunning()).toBe(false);
    expect(await client.size()).toBe(1);
    expect(await server.start()).toBe(server);
    expect(server.isRunning()).toBe(true);
    expect(await handle.waitFor()).toBe(42);
    expect(await server.stop()).toBe(server);
    expect(server.isRunning()).toBe(false);
  });

  it("a server makes an instance for every attempt, with its id and attempt", async () => {
    const seen: object[] = [];
    class Fails extends Job<{ n: number }, never> {
      static readonly type = "fails";
      remembered = 0;
      async execute(input: { n: number }, context: IJobExecuteContext): Promise<never> {
        const { id, queueName, type, attempt, maxAttempts, group, priority, createdAt } = this;
        expect(this.input).toBe(input);
        expect(context).toMatchObject({ attempt, signal: { aborted: false } });
        expect(context.token).toBeGreaterThan(0);
        seen.push({ id, queueName, type, attempt, maxAttempts, group, priority, createdAt, before: this.remembered++ });
        throw new Error("no");
      }
    }
    const { clock, storage, server } = await open(Fails);
    const client = new JobQueueClient({ storage, queueName: "q", clock, jobClass: Fails });
    const handle = await client.submit(
      { n: 1 },
      { maxAttempts: 2, group: "g", priority: 3, backoff: { kind: "fixed", delay: 10 } },
    );
    await clock.advance(100);
    const same = { id: handle.id, queueName: "q", type: "fails", maxAttempts: 2, group: "g", priority: 3, before: 0 };
    const createdAt = new Date(Date.UTC(2030, 0, 1));
    expect(seen).toEqual([
      { ...same, createdAt, attempt: 1 },
      { ...same, createdAt, attempt: 2 },
    ]);
    await server.stop();
  });

  it("a job class can be instantiated without a queue", async () => {
    const job = new Double({ input: 4 });
    expect(job).toMatchObject({ input: 4, id: "", type: "Double", attempt: 1 });
  });

  it("a server leaves jobs of other types to other workers, and runs jobs without a type", async () => {
    const { clock, storage, server, client } = await open(Double);
    const queue = new Queue("q", { storage, clock });
    const other = await queue.add("other", 1);
    const named = await queue.add("Double", 2);
    const unnamed = await client.submit(3);
    expect(await Promise.all([named.result(), unnamed.waitFor()])).toEqual([4, 6]);
    expect(await other.info()).toMatchObject({ state: "waiting" });
    await server.stop();
  });

  it("a server runs several classes, each for its own type", async () => {
    class Halve extends Job<number, number> {
      static readonly type = "halve";
      async execute(input: number): Promise<number> {
        return input / 2;
      }
    }
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    const server = new JobQueueServer([Double, Halve], { storage, queueName: "q", clock });
    await server.start();
    const client = new JobQueueClient<number, number>({ storage, queueName: "q", clock, jobClass: Double });
    const jobs = [
      await client.submit(10),
      await client.submit(10, { jobClass: Halve }),
      await client.submit(10, { type: "halve" }),
    ];
    expect(await Promise.all(jobs.map((job) => job.waitFor()))).toEqual([20, 5, 5]);
    // The class of the job would be ambiguous.
    await new JobQueueClient({ storage, queueName: "q", clock }).submit(1);
    await clock.advance(1_000);
    expect(await client.size("waiting")).toBe(1);
    await server.stop();
  });

  it("a server runs as many jobs at once as it has workers", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 3 });
    const handles = await client.submitBatch(numbers(10));
    await clock.advance(0);
    expect(seen.running).toBe(3);
    for (let left = 10; left > 0; left--) {
      end();
      await clock.advance(0);
    }
    expect(await Promise.all(handles.map((handle) => handle.waitFor()))).toEqual(numbers(10).map((n) => n * 2));
    expect(seen.peak).toBe(3);
    await server.stop();
    expect(clock.timers).toBe(0);
  });

  it("a server runs `concurrency` jobs for each of its workers", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 2, concurrency: 2 });
    await client.submitBatch(numbers(10));
    await clock.advance(0);
    expect(seen.running).toBe(4);
    const stopped = server.stop();
    end(4);
    await stopped;
    expect(seen.peak).toBe(4);
  });

  it("stop() lets jobs end, gives back those that do not end in time, and the server can be started again", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 2 });
    const [first, second, third] = await client.submitBatch([1, 2, 3]);
    await clock.advance(0);
    const stopped = server.stop({ timeout: "1s" });
    end(1);
    await clock.advance(2_000);
    await stopped;
    expect(await first!.waitFor()).toBe(2);
    expect(seen.started).toEqual([1, 2]);
    expect(await client.getJob(second!.id)).toMatchObject({ status: "waiting", attempt: 0 });

    await server.start();
    await clock.advance(0);
    expect(seen.started).toEqual([1, 2, 2, 3]);
    end(2);
    expect(await Promise.all([second!.waitFor(), third!.waitFor()])).toEqual([4, 6]);
    await server.stop();
    expect(clock.timers).toBe(0);
  });

  it("a second stop() without a timeout stops the server at once", async () => {
    const { GatedJob } = gated();
    const { clock, server, client } = await open(GatedJob);
    const handle = await client.submit(1);
    await clock.advance(0);
    const slow = server.stop({ timeout: "1h" });
    await clock.advance(1_000);
    await Promise.all([slow, server.stop({ timeout: 0 }), clock.advance(1_000)]);
    expect(await client.getJob(handle.id)).toMatchObject({ status: "waiting", attempt: 0 });
  });

  it("a server is stopped by `await using`", async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    {
      await using server = new JobQueueServer(Double, { storage, queueName: "q", clock });
      await server.start();
      expect(clock.timers).toBeGreaterThan(0);
    }
    expect(clock.timers).toBe(0);
  });

  it("stop() resolves at once if the server never started", async () => {
    const server = new JobQueueServer(Double, { storage: new MemoryStorage(), queueName: "q" });
    await server.stop();
    expect(server.isRunning()).toBe(false);
  });
});

describe("scaleWorkers", () => {
  it("scaling up starts workers at once", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob);
    await client.submitBatch(numbers(6));
    await clock.advance(0);
    expect(seen.running).toBe(1);
    await server.scaleWorkers(4);
    await clock.advance(0);
    expect(seen.running).toBe(4);
    expect(server.getWorkerCount()).toBe(4);
    const stopped = server.stop();
    end(4);
    await stopped;
  });

  it("scaling down lets jobs end, and never aborts one", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 3 });
    await client.submitBatch(numbers(9));
    await clock.advance(0);
    let scaled = false;
    const scaling = server.scaleWorkers(1).then(() => (scaled = true));
    await clock.advance(120_000);
    expect([seen.running, scaled]).toEqual([3, false]);
    end(3);
    await clock.advance(0);
    await scaling;
    expect(seen.running).toBe(1);
    expect(server.getStats()).toMatchObject({ completedJobs: 3, abortedJobs: 0 });
    const stopped = server.stop();
    end();
    await stopped;
  });

  it("a server never runs more workers than it was scaled to, however often it is scaled", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 3 });
    await client.submitBatch(numbers(20));
    await clock.advance(0);
    const changes = [1, 3, 2, 3, 0, 3].map((workers) => server.scaleWorkers(workers));
    await clock.advance(1_000);
    expect(seen.running).toBe(3);
    while (seen.started.length < 20 || seen.running > 0) {
      end();
      await clock.advance(0);
    }
    await Promise.all(changes);
    expect(seen.peak).toBe(3);
    expect(await client.size("completed")).toBe(20);
    await server.stop();
  });

  it("scaling down removes idle workers first", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 3 });
    await client.submit(1);
    await clock.advance(0);
    await server.scaleWorkers(1);
    expect(seen.running).toBe(1);
    end();
    await client.submit(2);
    await clock.advance(0);
    expect(seen.started).toEqual([1, 2]);
    const stopped = server.stop();
    end();
    await stopped;
  });

  it("a server can be scaled to 0 and up again", async () => {
    const { clock, server, client } = await open(Double);
    await server.scaleWorkers(0);
    const handle = await client.submit(1);
    await clock.advance(60_000);
    expect(await client.size("waiting")).toBe(1);
    await server.scaleWorkers(1);
    expect(await handle.waitFor()).toBe(2);
    await server.stop();
  });

  it("a server reports its number of workers before it is started", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob);
    await server.stop();
    await server.scaleWorkers(2);
    await client.submitBatch(numbers(4));
    await clock.advance(0);
    expect(seen.running).toBe(0);
    await server.start();
    await clock.advance(0);
    expect(seen.running).toBe(2);
    const stopped = server.stop();
    end(2);
    await stopped;
  });
});

describe("the limiter of a server", () => {
  it("a limiter is shared by all workers of a server", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 3, limiter: new ConcurrencyLimiter(2) });
    await client.submitBatch(numbers(9));
    while (seen.started.length < 9 || seen.running > 0) {
      await clock.advance(0);
      expect(seen.running).toBe(Math.min(2, 9 - seen.started.length + seen.running));
      end();
    }
    expect(seen.peak).toBe(2);
    await server.stop();
  });

  it("a limiter of the user is shared by all workers of a server", async () => {
    const calls: string[] = [];
    let running = 0;
    const own: ILimiter = {
      canProceed: async () => running < 2,
      recordJobStart: async () => {
        running += 1;
        calls.push("start");
      },
      recordJobCompletion: async () => {
        running -= 1;
        calls.push("end");
      },
      getNextAvailableTime: async () => new Date(0),
      setNextAvailableTime: async () => {},
      clear: async () => {},
    };
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob, { workerCount: 4, limiter: own });
    await client.submitBatch(numbers(8));
    while (seen.started.length < 8 || seen.running > 0) {
      await clock.advance(100);
      expect(seen.running).toBe(Math.min(2, 8 - seen.started.length + seen.running));
      end();
    }
    expect(seen.peak).toBe(2);
    await clock.advance(0);
    expect(calls.filter((call) => call === "start")).toHaveLength(8);
    expect(calls.filter((call) => call === "end")).toHaveLength(8);
    await server.stop();
  });

  it("the methods of a subclassed limiter are called", async () => {
    class Door extends ConcurrencyLimiter {
      open = false;
      override async canProceed(): Promise<boolean> {
        return this.open && super.canProceed();
      }
    }
    const clock = new FakeClock();
    const limiter = new Door(2, { clock });
    const { GatedJob, seen, end } = gated();
    const { server, client } = await open(GatedJob, { workerCount: 3, limiter }, clock);
    await client.submitBatch(numbers(4));
    await clock.advance(5_000);
    expect(seen.started).toEqual([]);
    limiter.open = true;
    await clock.advance(1_000);
    expect([seen.running, limiter.running]).toEqual([2, 2]);
    for (let i = 0; i < 4; i++) {
      end();
      await clock.advance(1_000);
    }
    expect([seen.started.length, seen.peak, limiter.running]).toEqual([4, 2, 0]);
    await server.stop();
  });

  it.each([
    { max: 2, workerCount: 1 },
    { max: 10, workerCount: 4 },
    { max: 3, workerCount: 8 },
    { max: 150, workerCount: 1 },
  ])("the limiter of a server decides how many run: $max with $workerCount workers", async ({ max, workerCount }) => {
    const { GatedJob, seen, end } = gated();
    const clock = new FakeClock();
    const limiter = new CompositeLimiter([
      new ConcurrencyLimiter(max, { clock }),
      new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "api", {
        maxExecutions: 500,
        windowSizeInSeconds: 60,
      }),
    ]);
    const { server, client, errors } = await open(GatedJob, { workerCount, limiter }, clock);
    await client.submitBatch(numbers(2 * max));
    await clock.advance(10);
    expect(seen.running).toBe(max);
    expect(server.getStats()).toMatchObject({ runningJobs: max, totalJobs: max });
    end(max);
    await clock.advance(10);
    end(max);
    await clock.advance(10);
    expect([seen.started.length, seen.peak]).toEqual([2 * max, max]);
    await server.stop();
    expect([errors, clock.timers]).toEqual([[], 0]);
  });

  it("a limiter of the user decides how many jobs run", async () => {
    const clock = new FakeClock();
    const { GatedJob, seen, end } = gated();
    const { server, client } = await open(GatedJob, { limiter: new SixMethodLimiter(10) }, clock);
    await client.submitBatch(numbers(30));
    await clock.advance(1_000);
    expect(seen.running).toBe(10);
    for (let i = 0; i < 30; i++) {
      end();
      await clock.advance(100);
    }
    expect([seen.started.length, seen.peak]).toEqual([30, 10]);
    await server.stop();
  });

  it("a limiter decides how many jobs run however many workers are left, and when it is raised", async () => {
    const clock = new FakeClock();
    const limiter = new ConcurrencyLimiter(6, { clock });
    const { GatedJob, seen, end } = gated();
    const { server, client } = await open(GatedJob, { workerCount: 4, limiter }, clock);
    await client.submitBatch(numbers(60));
    await clock.advance(10);
    const scaled = server.scaleWorkers(1);
    end(6);
    await clock.advance(10);
    await scaled;
    expect([server.getWorkerCount(), seen.running]).toEqual([1, 6]);
    limiter.maxConcurrentJobs = 20;
    await clock.advance(10);
    expect(seen.running).toBe(20);
    await server.scaleWorkers(3);
    await clock.advance(10);
    expect(seen.running).toBe(20);
    const stopped = server.stop();
    end(20);
    await stopped;
    expect(seen.peak).toBe(20);
  });

  it("with a limiter that limits nothing each worker runs one job", async () => {
    for (const limiter of [new NullLimiter(), new CompositeLimiter([new NullLimiter()])]) {
      const { GatedJob, seen, end } = gated();
      const { clock, server, client } = await open(GatedJob, { workerCount: 3, limiter });
      await client.submitBatch(numbers(9));
      await clock.advance(10);
      expect(seen.running).toBe(3);
      const stopped = server.stop();
      end(3);
      await stopped;
    }
  });

  it("with a limiter of rates alone each worker runs up to a hundred jobs at once", async () => {
    const clock = new FakeClock();
    const rates = (maxExecutions: number) =>
      new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "api", { maxExecutions, windowSizeInSeconds: 1 });
    for (const [limiter, options, running] of [
      [rates(30), {}, 30],
      [rates(1_000), {}, 100],
      [rates(1_000), { workerCount: 2 }, 200],
      [rates(1_000), { workerCount: 2, concurrency: 5 }, 10],
    ] as const) {
      const { GatedJob, seen, end } = gated();
      const { server, client } = await open(GatedJob, { ...options, limiter }, clock);
      await client.submitBatch(numbers(300));
      await clock.advance(10);
      expect(seen.running).toBe(running);
      const stopped = server.stop();
      end(running);
      await stopped;
    }
  });

  it("a limiter spaces the starts of all workers of a server", async () => {
    const clock = new FakeClock();
    const starts: number[] = [];
    class Note extends Job<number, void> {
      async execute(): Promise<void> {
        starts.push(clock.now());
      }
    }
    const limiter = new DelayLimiter(200, { clock });
    const { server, client } = await open(Note, { workerCount: 5, limiter }, clock);
    await client.submitBatch(numbers(5));
    await clock.advance(10_000);
    expect(starts).toEqual([0, 200, 400, 600, 800]);
    await server.stop();
  });

  it("the limiter may be the shorthand, which the whole queue shares", async () => {
    const clock = new FakeClock();
    const starts: number[] = [];
    class Note extends Job<number, void> {
      async execute(): Promise<void> {
        starts.push(clock.now());
      }
    }
    const options = { workerCount: 2, limiter: { max: 2, duration: "1s" } } as const;
    const { storage, server, client } = await open(Note, options, clock);
    const second = new JobQueueServer(Note, { storage, queueName: "q", clock, ...options });
    await second.start();
    await client.submitBatch(numbers(6));
    await clock.advance(10_000);
    expect(starts).toEqual([0, 0, 1_000, 1_000, 2_000, 2_000]);
    await Promise.all([server.stop(), second.stop()]);
  });

  it("the limiter decides when to try again, unless the error has a date", async () => {
    const clock = new FakeClock();
    const starts: number[] = [];
    const limiter = new ConcurrencyLimiter(1, { clock });
    class Busy extends Job<{ inMs?: number }, string> {
      async execute(input: { inMs?: number }): Promise<string> {
        starts.push(clock.now());
        if (this.attempt > 1) return "done";
        if (input.inMs !== undefined) throw new RetryableJobError("busy", new Date(clock.wall() + input.inMs));
        await limiter.setNextAvailableTime(new Date(clock.wall() + 60_000));
        throw new RetryableJobError("busy");
      }
    }
    const { server, client } = await open(Busy, { limiter, random: () => 0.5 }, clock);
    const dated = await client.submit({ inMs: 4_000 });
    await clock.advance(5_000);
    expect(await dated.waitFor()).toBe("done");
    expect(starts).toEqual([0, 4_000]);

    const undated = await client.submit({});
    await clock.advance(0);
    expect((await client.getJob(undated.id))?.runAt).toEqual(new Date(clock.wall() + 60_000));
    await clock.advance(60_000);
    expect(await undated.waitFor()).toBe("done");
    expect(starts.slice(2)).toEqual([5_000, 65_000]);
    await server.stop();
  });
});

describe("getStats", () => {
  it("stats count how attempts ended", async () => {
    const clock = new FakeClock();
    class Mixed extends Job<string, string> {
      async execute(input: string, { signal }: IJobExecuteContext): Promise<string> {
        await new Promise<void>((resolve) => clock.after(100, resolve));
        if (input === "dead") throw new PermanentJobError("no");
        if (input === "gone") throw new AbortSignalJobError("given up");
        if (input === "abort")
          await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        if (this.attempt === 1 && input === "retry") throw new Error("once");
        if (input === "held" && clock.now() < 1_000) throw new RateLimitedError(1_000);
        return input;
      }
    }
    const { server, client } = await open(Mixed, { workerCount: 10, random: () => 0 }, clock);
    expect(server.getStats()).toEqual({
      totalJobs: 0,
      runningJobs: 0,
      completedJobs: 0,
      failedJobs: 0,
      abortedJobs: 0,
      retriedJobs: 0,
      heldJobs: 0,
      averageProcessingTime: undefined,
      lastUpdateTime: new Date(clock.wall()),
    });
    const inputs = ["fine", "dead", "gone", "abort", "retry", "held"];
    const handles = await client.submitBatch(inputs);
    await clock.advance(50);
    expect(server.getStats()).toMatchObject({ totalJobs: 6, runningJobs: 6, completedJobs: 0 });
    await clock.advance(50);
    await handles[3]!.abort();
    await clock.advance(5_000);
    expect(server.getStats()).toMatchObject({
      totalJobs: 8,
      runningJobs: 0,
      completedJobs: 3,
      failedJobs: 1,
      abortedJobs: 2,
      retriedJobs: 1,
      heldJobs: 1,
      averageProcessingTime: 100,
    });
    expect(server.getStats().lastUpdateTime.getTime()).toBeLessThan(clock.wall());
    await server.stop();
  });

  it("stats count neither jobs that another worker has by now, nor jobs that were given back", async () => {
    const { GatedJob, end } = gated();
    const { clock, storage, server, client } = await open(GatedJob, { lease: 100 });
    await client.submit(1);
    await clock.advance(0);
    // Another worker claims it: the process was paused for longer than its lease.
    const heartbeat = storage.heartbeat.bind(storage);
    storage.heartbeat = async () => ({ lost: [], cancelled: [] });
    await clock.advance(150);
    storage.heartbeat = heartbeat;
    end();
    await clock.advance(0);
    expect(server.getStats()).toMatchObject({ completedJobs: 0 });
    await Promise.all([server.stop({ timeout: 0 }), clock.advance(1_000)]);
    expect(server.getStats()).toMatchObject({ completedJobs: 0, abortedJobs: 0, failedJobs: 0, heldJobs: 0 });
  });
});

describe("options of a server", () => {
  const storage = new MemoryStorage();
  const make =
    (options: object, jobClass: unknown = Double) =>
    () =>
      new JobQueueServer(jobClass as typeof Double, { storage, queueName: "q", ...options });

  it.each([
    ["a misspelt one", { worerCount: 2 }, "did you mean `workerCount`?"],
    ["no queue name", { queueName: undefined }, "queueName"],
    ["no storage", { storage: {} }, "storage"],
    ["no workers", { workerCount: 0 }, "workerCount"],
    ["no concurrency at all", { concurrency: null }, "`concurrency`"],
    ["a bad limiter", { limiter: { max: 0, duration: 1 } }, "max"],
    ["a limiter that lacks methods", { limiter: { canProceed() {} } }, "recordJobStart"],
    ["a window for each worker", { limiter: { max: 1, duration: 1, scope: "worker" } }, "limiter.scope"],
    ["a bad lease", { lease: 1 }, "lease"],
    ["a bad age", { deleteAfterCompletionMs: -1 }, "deleteAfterCompletionMs"],
    ["a bad interval", { cleanupIntervalMs: 0 }, "cleanupIntervalMs"],
    ["polling", { pollIntervalMs: 100 }, "do not poll"],
    ["a listener that is none", { onError: "log" }, "onError"],
  ])("a server refuses %s", (_, options, hint) => {
    expect(make(options)).toThrow(OptionsError);
    expect(make(options)).toThrow(hint);
  });

  it.each([
    ["nothing", null],
    ["a function", () => {}],
    ["an instance", new Double({ input: 1 })],
    [
      "a class without execute",
      class {
        run() {}
      },
    ],
    [
      "a class without a name",
      (() =>
        class extends Job<number, number> {
          async execute() {
            return 1;
          }
        })(),
    ],
    [
      "a class with a bad type",
      class X extends Double {
        static type = "";
      },
    ],
    ["no classes", []],
    ["the same class twice", [Double, Double]],
  ])("a server refuses %s as a class of jobs", (_, jobClass) => {
    expect(make({}, jobClass)).toThrow(OptionsError);
  });

  it("a server refuses bad arguments before anything happens", async () => {
    const server = await make({})().start();
    // @ts-expect-error -- misspelt
    await expect(server.stop({ timeuot: 1 })).rejects.toThrow("did you mean `timeout`?");
    await expect(server.scaleWorkers(-1)).rejects.toThrow(OptionsError);
    await expect(server.scaleWorkers(1.5)).rejects.toThrow(OptionsError);
    await expect(server.scaleWorkers(2, { timeout: -1 })).rejects.toThrow(OptionsError);
    // @ts-expect-error -- no such event
    expect(() => server.on("finished", () => {})).toThrow(OptionsError);
    expect(server.isRunning()).toBe(true);
    expect(server.getWorkerCount()).toBe(1);
    await server.stop();
  });
});
