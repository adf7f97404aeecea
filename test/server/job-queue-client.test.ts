import { describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  ConcurrencyLimiter,
  DuplicateJobError,
  type IJobExecuteContext,
  Job,
  JobError,
  JobNotFoundError,
  JobQueueClient,
  JobTimeoutError,
  MemoryStorage,
  OptionsError,
  PermanentJobError,
  Queue,
} from "../../src/index.ts";
import { sixMethods } from "../limiter/support.ts";
import { gated, numbers, open } from "./support.ts";

describe("JobQueueClient", () => {
  it("a client submits a job, and gets its output", async () => {
    class Upper extends Job<{ text: string }, { text: string }> {
      async execute({ text }: { text: string }): Promise<{ text: string }> {
        return { text: text.toUpperCase() };
      }
    }
    const { server, client } = await open(Upper);
    const handle = await client.submit({ text: "a" });
    expect(handle.created).toBe(true);
    expect(await handle.waitFor()).toEqual({ text: "A" });
    expect(await client.waitFor(handle.id)).toEqual({ text: "A" });
    expect(await client.getJob(handle.id)).toMatchObject({
      id: handle.id,
      queueName: "q",
      type: "default",
      status: "completed",
      input: { text: "a" },
      output: { text: "A" },
      attempt: 1,
    });
    await server.stop();
  });

  it("a client submits a batch in order, all or nothing", async () => {
    const { GatedJob, seen } = gated();
    const { clock, server, client } = await open(GatedJob);
    const handles = await client.submitBatch([1, 2, 3], { group: "g" });
    expect(handles).toHaveLength(3);
    expect(await client.submitBatch([])).toEqual([]);
    await expect(client.submitBatch([4, Number.NaN, 5])).rejects.toThrow(OptionsError);
    await clock.advance(0);
    expect(seen.started).toEqual([1]);
    expect(await client.size()).toBe(2);
    expect((await client.peek()).map(({ input, group }) => [input, group])).toEqual([
      [3, "g"],
      [2, "g"],
    ]);
    await Promise.all([server.stop({ timeout: 0 }), clock.advance(1_000)]);
  });

  it("a client finds the earlier job by its idempotency key", async () => {
    const { client, server } = await open(gated().GatedJob);
    const first = await client.submit(1, { idempotencyKey: "k" });
    const second = await client.submit(1, { idempotencyKey: "k" });
    expect([second.id, second.created]).toEqual([first.id, false]);
    await expect(client.submit(2, { idempotencyKey: "k" })).rejects.toThrow(DuplicateJobError);
    await server.stop({ timeout: 0 });
  });

  it("a client follows the progress of one job and no other, until it ends", async () => {
    class Steps extends Job<string, void> {
      async execute(input: string, { updateProgress }: IJobExecuteContext): Promise<void> {
        await updateProgress(25, `${input} began`);
        await updateProgress(75, undefined, { left: 1 });
        await updateProgress(100, "done", null);
      }
    }
    const { server, client } = await open(Steps);
    await server.stop();
    const [a, b] = await client.submitBatch(["a", "b"]);
    const ofHandle: unknown[] = [];
    const ofClient: unknown[] = [];
    const stopped: unknown[] = [];
    a!.onProgress((...args) => ofHandle.push(args));
    client.onJobProgress(b!.id, (...args) => ofClient.push(args));
    b!.onProgress((...args) => stopped.push(args))();
    const received: string[] = [];
    const stop = client.on("progress", ({ id, progress }) =>
      received.push(`${id === a!.id ? "a" : "b"}${progress.percent}`),
    );
    await server.start();
    await Promise.all([a!.waitFor(), b!.waitFor()]);
    stop();
    expect(ofHandle).toEqual([
      [25, "a began", undefined],
      [75, undefined, { left: 1 }],
      [100, "done", null],
    ]);
    expect(ofClient[0]).toEqual([25, "b began", undefined]);
    expect(stopped).toEqual([]);
    expect(received).toEqual(["a25", "a75", "a100", "b25", "b75", "b100"]);
    expect(await client.getJob(a!.id)).toMatchObject({ progress: { percent: 100, message: "done" } });
    await server.stop();
  });

  it("a client gets the events of the queue, whatever server runs it", async () => {
    class Fine extends Job<number, number> {
      async execute(input: number): Promise<number> {
        return input;
      }
    }
    const { server, client } = await open(Fine);
    const received: string[] = [];
    const stops = (["added", "started", "completed"] as const).map((name) =>
      client.on(name, () => received.push(name)),
    );
    await (await client.submit(1)).waitFor();
    for (const stop of stops) stop();
    await (await client.submit(2)).waitFor();
    expect(received).toEqual(["added", "started", "completed"]);
    await server.stop();
  });
});

describe("every way out settles waitFor", () => {
  it("waitFor() rejects when the job is aborted while it waits to start", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, server, client } = await open(GatedJob);
    const [first, second] = await client.submitBatch([1, 2]);
    await clock.advance(0);
    const waiting = expect(second!.waitFor()).rejects.toThrow(AbortSignalJobError);
    expect(await second!.abort()).toBe(true);
    await waiting;
    expect(await second!.abort()).toBe(false);
    end();
    expect(await first!.waitFor()).toBe(2);
    await clock.advance(10_000);
    expect(seen.started).toEqual([1]);
    expect(await client.getJob(second!.id)).toMatchObject({ status: "cancelled" });
    await server.stop();
  });

  it("waitFor() rejects when the job is aborted while it runs", async () => {
    const { GatedJob, seen } = gated();
    const { clock, server, client } = await open(GatedJob);
    const handle = await client.submit(1);
    await clock.advance(0);
    expect(seen.running).toBe(1);
    const waiting = expect(client.waitFor(handle.id)).rejects.toThrow(AbortSignalJobError);
    expect(await client.abort(handle.id)).toBe(true);
    await waiting;
    expect(seen.running).toBe(0);
    expect(server.getStats()).toMatchObject({ abortedJobs: 1 });
    await server.stop();
  });

  it("waitFor() rejects before the next heartbeat when the job is aborted while it is being claimed", async () => {
    const { GatedJob, seen, end } = gated();
    for (const limiter of [undefined, new ConcurrencyLimiter(1), sixMethods()]) {
      const { clock, storage, server, client } = await open(GatedJob, { limiter });
      const claim = storage.claim.bind(storage);
      const answered = Promise.withResolvers<void>();
      storage.claim = async (request) => {
        const claimed = await claim(request);
        if (claimed.jobs.length > 0) await answered.promise;
        return claimed;
      };
      const handle = await client.submit(1);
      await clock.advance(0);
      expect(await client.getJob(handle.id)).toMatchObject({ status: "active" });
      const waiting = expect(handle.waitFor()).rejects.toThrow(AbortSignalJobError);
      expect(await handle.abort()).toBe(true);
      answered.resolve();
      await clock.advance(1_000);
      expect(await client.getJob(handle.id)).toMatchObject({ status: "cancelled" });
      await waiting;
      expect(seen.running).toBe(0);

      // That was then: asked for again, it runs.
      await new Queue("q", { storage, clock }).retry(handle.id);
      await clock.advance(1_000);
      expect(seen.running).toBe(1);
      end();
      expect(await handle.waitFor()).toBe(2);
      await server.stop();
    }
  });

  it("waitFor() rejects when the job is dead", async () => {
    class Fails extends Job<boolean, never> {
      async execute(permanently: boolean): Promise<never> {
        throw permanently ? new PermanentJobError("never") : new TypeError("bad luck");
      }
    }
    const { clock, server, client } = await open(Fails);
    const never = await client.submit(true);
    await expect(never.waitFor()).rejects.toThrow(PermanentJobError);
    const unlucky = await client.submit(false, { maxAttempts: 2 });
    const waiting = unlucky.waitFor().catch((error: unknown) => error);
    await clock.advance(60_000);
    const error = await waiting;
    expect(error).toBeInstanceOf(JobError);
    expect(error).toMatchObject({ message: "bad luck", cause: { name: "TypeError" } });
    await server.stop();
  });

  it("waitFor() rejects for a job that was removed, never existed, or is in another queue", async () => {
    const { GatedJob } = gated();
    const { clock, storage, server, client } = await open(GatedJob);
    await server.stop();
    const handle = await client.submit(1);
    const waiting = expect(handle.waitFor()).rejects.toThrow(JobNotFoundError);
    await new Queue("q", { storage, clock }).remove(handle.id);
    await clock.advance(1_000);
    await waiting;
    await expect(client.waitFor(handle.id)).rejects.toThrow(JobNotFoundError);
    await expect(client.abort(handle.id)).rejects.toThrow(JobNotFoundError);
    const elsewhere = await new Queue("other", { storage, clock }).add("t", 1);
    await expect(client.waitFor(elsewhere.id)).rejects.toThrow(JobNotFoundError);
    expect(await client.getJob(elsewhere.id)).toBeUndefined();
  });

  it("waitFor() rejects after its timeout", async () => {
    const { GatedJob } = gated();
    const { clock, server, client } = await open(GatedJob);
    const handle = await client.submit(1);
    const late = expect(handle.waitFor({ timeout: "5s" })).rejects.toThrow(JobTimeoutError);
    await clock.advance(5_000);
    await late;
    await expect(handle.waitFor({ signal: AbortSignal.abort(new Error("bored")) })).rejects.toThrow("bored");
    await Promise.all([server.stop({ timeout: 0 }), clock.advance(1_000)]);
    expect(clock.timers).toBe(0);
  });
});

describe("looking at the queue", () => {
  it("a client counts and lists jobs that have not started, or jobs with a status", async () => {
    const { GatedJob, end } = gated();
    const { clock, server, client } = await open(GatedJob);
    await client.submitBatch(numbers(4));
    await client.submit(9, { delay: "1m" });
    await clock.advance(0);
    expect(await Promise.all([client.size(), client.size("active"), client.size("scheduled")])).toEqual([4, 1, 1]);
    expect((await client.peek()).map(({ input }) => input)).toEqual([9, 3, 2, 1]);
    expect((await client.peek("waiting", 2)).map(({ input, status }) => [input, status])).toEqual([
      [3, "waiting"],
      [2, "waiting"],
    ]);
    end();
    await clock.advance(0);
    expect((await client.peek("completed")).map(({ output }) => output)).toEqual([0]);
    expect(await client.size("dead")).toBe(0);
    await Promise.all([server.stop({ timeout: 0 }), clock.advance(1_000)]);
  });
});

describe("options of a client", () => {
  const storage = new MemoryStorage();
  const client = new JobQueueClient({ storage, queueName: "q" });

  it.each([
    ["a misspelt one", { queueNmae: "q" }, "did you mean `queueName`?"],
    ["no queue name", { storage }, "queueName"],
    ["no storage", { queueName: "q" }, "storage"],
    ["a bad type", { storage, queueName: "q", type: "" }, "type"],
    ["a bad class", { storage, queueName: "q", jobClass: {} }, "jobClass"],
    ["bad defaults", { storage, queueName: "q", defaults: { maxAttempts: 0 } }, "maxAttempts"],
  ])("a client refuses %s", (_, options, hint) => {
    expect(() => new JobQueueClient(options as never)).toThrow(OptionsError);
    expect(() => new JobQueueClient(options as never)).toThrow(hint);
  });

  it("a client refuses invalid options of a job", async () => {
    // @ts-expect-error -- misspelt
    await expect(client.submit(1, { maxAtempts: 3 })).rejects.toThrow("did you mean `maxAttempts`?");
    await expect(client.submit(1, { type: "" })).rejects.toThrow(OptionsError);
    await expect(client.submit(undefined)).rejects.toThrow(OptionsError);
    await expect(client.submit(1, null as never)).rejects.toThrow(OptionsError);
    await expect(client.submitBatch([1], { idempotencyKey: "k" } as never)).rejects.toThrow("one key is for one job");
    await expect(client.submitBatch(1 as never)).rejects.toThrow(OptionsError);
    await expect(client.size("pending" as never)).rejects.toThrow(OptionsError);
    await expect(client.peek("pending" as never)).rejects.toThrow(OptionsError);
    await expect(client.peek("waiting", 0)).rejects.toThrow(OptionsError);
    await expect(client.peek("waiting", 10n as never)).rejects.toThrow("peek: expected `num` to be");
    expect(() => client.onJobProgress("id", undefined as never)).toThrow(OptionsError);
    expect(() => client.onJobProgress(7 as never, () => {})).toThrow("onJobProgress: expected `id` to be a string");
    expect(() => client.on("finished" as never, () => {})).toThrow(OptionsError);
    expect(await client.size()).toBe(0);
  });
});
