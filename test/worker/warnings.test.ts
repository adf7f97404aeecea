import { describe, expect, it } from "vitest";
import { Job, type JobContext, JobQueueServer, Worker } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { open, work } from "./support.ts";

const linesOf = async (job: { history(): Promise<{ log: readonly { text: string }[] }> }) =>
  (await job.history()).log.map(({ text }) => text);

const fail = () => {
  throw new Error("not to be looked at");
};

describe("progress", () => {
  it.each([
    [101, 100],
    [100.000_000_01, 100],
    [Number.POSITIVE_INFINITY, 100],
    [-1, 0],
    [Number.NEGATIVE_INFINITY, 0],
    [12.5, 12.5],
  ])("progress of %d is kept as %d", async (said, kept) => {
    const house = open();
    const { worker } = work(house, async (_job, context) => context.updateProgress(said));
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    await job.result();
    expect((await job.info())?.progress).toEqual({ percent: kept });
    expect(await linesOf(job)).toEqual([]);
    await worker.stop();
  });

  it("progress that is no number keeps the last percent, with one warning for all of them", async () => {
    const house = open();
    const { worker, errors } = work(house, async (_job, context: JobContext) => {
      await context.updateProgress(40);
      for (const wrong of [Number.NaN, "50", undefined, null, 60n, {}]) {
        await context.updateProgress(wrong as number, "still here");
      }
    });
    const warnings: unknown[] = [];
    house.queue.on("warning", (event) => warnings.push(event));
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    await job.result();
    expect((await job.info())?.progress).toEqual({ percent: 40, message: "still here" });
    expect(await linesOf(job)).toEqual(["warning: percent was ignored: expected a number"]);
    expect(warnings).toMatchObject([{ id: job.id, attempt: 1, about: "progress" }]);
    expect(errors).toEqual([]);
    await worker.stop();
  });

  it("progress keeps what can be stored of message and details, and never fails the job", async () => {
    const house = open();
    const hostile = { toString: fail, toJSON: fail };
    const said: readonly (readonly [unknown, unknown])[] = [
      [new Error("a message"), { at: new Date(0) }],
      [404, { n: 10n }],
      [hostile, hostile],
      ["a\u0000b\ud800", "x".repeat(100_000)],
      [null, null],
    ];
    const seen: unknown[] = [];
    house.queue.on("progress", ({ progress }) => seen.push(progress));
    const { worker } = work(house, async (_job, context: JobContext) => {
      for (const [message, details] of said) await context.updateProgress(1, message as string, details);
    });
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    await job.result();
    expect(seen).toEqual([
      { percent: 1, message: "Error: a message", details: { at: "1970-01-01T00:00:00.000Z" } },
      { percent: 1, message: "404" },
      { percent: 1 },
      { percent: 1, message: "ab\ufffd" },
      { percent: 1, details: null },
    ]);
    expect(await linesOf(job)).toEqual([
      expect.stringMatching(/^warning: details was kept as JSON.stringify writes it/),
    ]);
    await worker.stop();
  });
});

describe("log lines", () => {
  it("log lines that are no strings are converted, or left out with a warning, and never fail the job", async () => {
    const house = open();
    const { worker } = work(house, async (_job, context: JobContext) => {
      for (const line of ["text", 7, { a: 1 }, new TypeError("wrong"), undefined, Symbol("s")]) {
        await context.log(line as string);
      }
      await context.log(new Proxy({}, { get: fail }) as unknown as string);
    });
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    await job.result();
    expect(await linesOf(job)).toEqual([
      "text",
      "7",
      '{"a":1}',
      "TypeError: wrong",
      "undefined",
      "Symbol(s)",
      "warning: a line was left out: it cannot be shown as text",
    ]);
    await worker.stop();
  });
});

describe("a storage that cannot write what a handler says", () => {
  it("a storage that cannot write reports fails no job, and onError is called", async () => {
    const house = open();
    const storage = faultyStorage(house.storage, ({ member }) =>
      member === "report" ? { kind: "fail-before" } : undefined,
    );
    const { worker, errors } = work(
      house,
      async (_job, context) => {
        await context.updateProgress(50);
        await context.log("a line");
        await context.settle({ tokens: 1 });
        return { thread: undefined };
      },
      { storage },
    );
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    expect(await job.result()).toEqual({});
    expect(errors).toHaveLength(4);
    await worker.stop();
  });
});

describe("results that cannot be kept", () => {
  it("results that cannot be kept complete the jobs of a batch, each on its own", async () => {
    const house = open();
    const hidden = new Proxy({}, { getPrototypeOf: () => expect.unreachable() });
    const worker = new Worker("q", async () => [10n, { a: undefined }, hidden, "fine"], {
      storage: house.storage,
      clock: house.clock,
      batch: { size: 4 },
    });
    const jobs = await house.queue.addBulk(
      [0, 1, 2, 3].map((data) => ({ type: "t", data, options: { maxAttempts: 1 } })),
    );
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([undefined, {}, {}, "fine"]);
    expect((await Promise.all(jobs.map(linesOf))).map((lines) => lines.length)).toEqual([1, 1, 1, 0]);
    await worker.stop();
  });

  it("results that cannot be kept complete the jobs of a class", async () => {
    const house = open();
    class Mail extends Job<null> {
      async execute() {
        return { sent: new Date(0), thread: undefined };
      }
    }
    const server = new JobQueueServer(Mail, { queueName: "q", storage: house.storage, clock: house.clock });
    await server.start();
    const job = await house.queue.add("Mail", null, { maxAttempts: 1 });
    expect(await job.result()).toEqual({ sent: "1970-01-01T00:00:00.000Z" });
    expect(server.getStats()).toMatchObject({ completedJobs: 1, failedJobs: 0 });
    await server.stop();
  });
});
