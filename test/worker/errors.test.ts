import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { Job, type JobEvents, JobQueueServer, type JobReference, Queue, Worker } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { sixMethods } from "../limiter/support.ts";
import { open, work } from "./support.ts";

/** A storage that cannot be set up until it is healed. */
function openBroken() {
  const house = open();
  const storage = faultyStorage(house.storage, ({ member }) =>
    member === "setup" ? { kind: "fail-before" } : undefined,
  );
  return { house, storage };
}

describe('worker.on("error")', () => {
  it("a listener is called with errors that do not come from handlers, beside onError, until it is removed", async () => {
    const { house, storage } = openBroken();
    const { worker, errors } = work(house, async () => "ran", { storage });
    const reported: Error[] = [];
    const off = worker.on("error", (error: Error) => reported.push(error));
    await house.clock.advance(1_000);
    expect(reported.length).toBeGreaterThan(0);
    expect(reported).toEqual(errors);
    off();
    const before = reported.length;
    await house.clock.advance(10_000);
    expect(reported).toHaveLength(before);
    expect(errors.length).toBeGreaterThan(before);
    await worker.stop({ timeout: 0 });
  });

  it("a worker without a listener prints errors on the console, and one with a listener does not", async () => {
    const line = vi.spyOn(console, "error").mockImplementation(() => {});
    try {
      const { house, storage } = openBroken();
      const options = { storage, clock: house.clock };
      const reported: unknown[] = [];
      const loud = new Worker("q", async () => {}, options);
      loud.on("error", (error) => reported.push(error));
      await house.clock.advance(1_000);
      expect(reported.length).toBeGreaterThan(0);
      expect(line).not.toHaveBeenCalled();
      const silent = new Worker("q", async () => {}, options);
      await house.clock.advance(1_000);
      expect(line).toHaveBeenCalledTimes(1);
      await Promise.all([loud.stop({ timeout: 0 }), silent.stop({ timeout: 0 })]);
    } finally {
      line.mockRestore();
    }
  });

  it("a listener that throws keeps neither other listeners nor the worker from going on", async () => {
    const { house, storage } = openBroken();
    const { worker } = work(house, async () => "ran", { storage });
    const reported: unknown[] = [];
    worker.on("error", () => {
      throw new Error("a listener");
    });
    worker.on("error", (error) => reported.push(error));
    await house.clock.advance(100);
    storage.heal();
    const job = await house.queue.add("t", null);
    await house.clock.advance(5_000);
    expect(await job.result()).toBe("ran");
    expect(reported.length).toBeGreaterThan(0);
    await worker.stop();
  });

  it("a rejection of an asynchronous listener or onError is not left unhandled", async () => {
    const { house, storage } = openBroken();
    const reported: unknown[] = [];
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", note);
    try {
      const reject = ((error) => {
        reported.push(error);
        return Promise.reject(new Error("the pager cannot be reached"));
      }) as (error: unknown) => void;
      const { worker } = work(house, async () => "ran", { storage, onError: reject });
      worker.on("error", reject);
      await house.clock.advance(100);
      expect(reported.length).toBeGreaterThan(1);
      // Node reports them after the turn in which they were not handled.
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      expect(unhandled).toEqual([]);
      await worker.stop({ timeout: 0 });
    } finally {
      process.off("unhandledRejection", note);
    }
  });

  it("a listener gets an Error and the job it is about, whatever was thrown", async () => {
    const house = open();
    const permit = { granted: true, release: () => Promise.reject("not an error"), cancel: async () => {} };
    const limiter = sixMethods({ acquire: async () => permit, tryAcquire: async () => permit });
    const { worker, errors } = work(house, async () => "ran", { limiter: limiter as never });
    const reported: (readonly [Error, JobReference | undefined])[] = [];
    worker.on("error", (error, about) => reported.push([error, about]));
    const job = await house.queue.add("t", null);
    expect(await job.result()).toBe("ran");
    await house.clock.advance(1);
    expect(errors).toEqual(["not an error"]);
    expect(reported).toHaveLength(1);
    expect(reported[0]![0]).toBeInstanceOf(Error);
    expect(reported[0]![0].message).toBe("not an error");
    expect(reported[0]![1]).toEqual({ id: job.id, queue: "q", type: "t", attempt: 1 });
    await worker.stop();
  });

  it("an unknown event name is refused with the list of names, and a listener that is no function is refused", () => {
    const { house, storage } = openBroken();
    const worker = new Worker("q", async () => {}, { storage, clock: house.clock, autostart: false });
    expect(() => worker.on("errors" as "error", () => {})).toThrow(/"drained".*"error"/);
    expect(() => worker.on("error", "no" as never)).toThrow(/`listener`/);
  });

  it('a listener of "error" has typed arguments', () => {
    const check = (worker: Worker) => {
      worker.on("error", (error, job) => {
        expectTypeOf(error).toEqualTypeOf<Error>();
        expectTypeOf(job).toEqualTypeOf<JobReference | undefined>();
      });
      worker.on("warning", (event) => expectTypeOf(event).toEqualTypeOf<JobEvents["warning"]>());
    };
    expect(check).toBeTypeOf("function");
  });
});

describe('server.on("error")', () => {
  class Noop extends Job<null, void> {
    async execute() {}
  }

  it("a server reports the errors of its workers and of its clean-up", async () => {
    const house = open();
    const storage = faultyStorage(house.storage, ({ member }) =>
      member === "setup" || member === "change" ? { kind: "fail-before" } : undefined,
    );
    const server = new JobQueueServer(Noop, {
      queueName: "q",
      storage,
      clock: house.clock,
      workerCount: 2,
      deleteAfterCompletionMs: 0,
    });
    const reported: string[] = [];
    server.on("error", ({ message }) => reported.push(message));
    void server.start();
    await house.clock.advance(10);
    expect(reported.filter((message) => message.startsWith("setup"))).toHaveLength(2);
    expect(reported.filter((message) => message.startsWith("change"))).toHaveLength(1);
    const stopped = server.stop({ timeout: 0 });
    await house.clock.advance(10_000);
    await stopped;
  });
});

describe('queue.on("error")', () => {
  it('a queue refuses "error" and names the places that report errors', () => {
    const queue = new Queue("q", { storage: open().storage });
    expect(() => queue.on("error" as never, () => {})).toThrow(/rejects.*worker\.on\("error"\)/);
  });
});
