import { describe, expect, it } from "vitest";
import {
  type BatchHandler,
  ConcurrencyLimiter,
  type JobContext,
  type JobStorage,
  MemoryStorage,
  Queue,
  StorageError,
  Worker,
} from "../../src/index.ts";
import type { ClaimRequest, Outcome } from "../../src/storage/job-storage.ts";
import { type FaultPlan, faultyStorage } from "../../src/testing/index.ts";
import { many, open, work } from "./support.ts";

/** A queue whose worker sees a storage that fails as planned. */
function openFaulty(plan: FaultPlan) {
  const house = open();
  return { house, storage: faultyStorage(house.storage, plan, { clock: house.clock }) };
}

describe("a worker whose storage fails", () => {
  it.each(["fail-before", "fail-after"] as const)(
    "a worker settles a job again when settling failed: %s",
    async (kind) => {
      let failed = false;
      const { house, storage } = openFaulty(({ member, args }) => {
        const settles = member === "claim" && (args[0] as { settle: unknown[] }).settle.length > 0;
        if (!(settles || member === "settle") || failed) return undefined;
        failed = true;
        return { kind };
      });
      let runs = 0;
      const { worker, errors } = work(house, async () => ++runs, { storage });
      const job = await house.queue.add("t", null);
      await house.clock.advance(1_000);
      expect(await job.info()).toMatchObject({ state: "completed", result: 1, attempt: 1 });
      await house.clock.advance(60_000);
      expect([runs, errors.length]).toEqual([1, 1]);
      await worker.stop();
    },
  );

  it("a worker gives back its permit while the storage fails", async () => {
    const { house, storage } = openFaulty(({ member, args }) =>
      member === "claim" && (args[0] as { max: number }).max > 0 ? { kind: "fail-before" } : undefined,
    );
    const limiter = new ConcurrencyLimiter(1);
    const { worker } = work(house, async () => "ran", { storage, limiter });
    const job = await house.queue.add("t", null);
    await house.clock.advance(1);
    const permit = await limiter.tryAcquire();
    expect(permit.granted).toBe(true);
    storage.heal();
    await house.clock.advance(5_000);
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 0 });
    if (permit.granted) await permit.release();
    await house.clock.advance(5_000);
    expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    await worker.stop();
  });

  it("a worker waits half a minute for an answer, and gives back the jobs of a later one", async () => {
    const { house, storage } = openFaulty(({ member, nth }) =>
      member === "claim" && nth === 1 ? { kind: "delay-answer", ms: 31_000 } : undefined,
    );
    const ran: number[] = [];
    const job = await house.queue.add("t", null);
    const { worker, errors } = work(house, async () => void ran.push(house.clock.now()), { storage, lease: "1h" });
    await house.clock.advance(30_999);
    expect(errors).toEqual([expect.any(StorageError)]);
    await house.clock.advance(1_000);
    expect(ran).toEqual([31_000]);
    expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    await worker.stop();
  });

  /** The answer to the first claim comes too late for its jobs to be called, and then the outcomes that `refuses` names cannot be written. */
  const lateClaim = (refuses: (ids: readonly string[]) => boolean) =>
    openFaulty(({ member, nth, args: [given] }) => {
      if (member === "claim" && nth === 1) return { kind: "delay-answer", ms: 600 };
      if (member !== "claim" && member !== "settle") return undefined;
      const outcomes = member === "claim" ? (given as ClaimRequest).settle : (given as readonly Outcome[]);
      return refuses(outcomes.map(({ id }) => id)) ? { kind: "fail-before" } : undefined;
    });

  it("a job that was claimed and not called is called when the storage answers again, long after its lease expired", async () => {
    const { house, storage } = lateClaim(() => true);
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    const { worker } = work(house, async () => "ran", { storage, lease: "1s" });
    await house.clock.advance(60_000);
    expect(await job.info()).toMatchObject({ state: "dead" });
    storage.heal();
    await house.clock.advance(5_000);
    expect(await job.info()).toMatchObject({ state: "completed", result: "ran", attempt: 1 });
    await worker.stop();
  });

  it("a job that was claimed and not called is called, though others of its claim were given back before it", async () => {
    const { house, storage } = lateClaim((ids) => ids.length !== 1 || ids[0] === jobs[0]!.id);
    const jobs = await house.queue.addBulk(many(3, "t", { maxAttempts: 1 }));
    const { worker } = work(house, async () => "ran", { storage, lease: "1s", concurrency: 3 });
    await house.clock.advance(10_000);
    storage.heal();
    await house.clock.advance(5_000);
    for (const job of jobs) expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    await worker.stop();
  });

  it("a job that lost its lease before its handler was called spends no attempt", async () => {
    const { house, storage } = openFaulty(({ member }) =>
      member === "heartbeat" ? { kind: "fail-before" } : undefined,
    );
    const called: string[] = [];
    await house.queue.add("first", null, { maxAttempts: 1 });
    const second = await house.queue.add("second", null, { maxAttempts: 1 });
    const first: BatchHandler = async (_jobs, { signal }) => {
      called.push("first");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    };
    const worker = new Worker(
      "q",
      { first, second: async () => void called.push("second") },
      { storage, clock: house.clock, batch: { size: 2 }, lease: "3s", onError: () => {} },
    );
    await house.clock.advance(2_500);
    expect(called).toEqual(["first"]);
    await house.clock.advance(10_000);
    expect(called).toEqual(["first", "second"]);
    expect(await second.info()).toMatchObject({ state: "completed", attempt: 1 });
    await worker.stop();
  });

  it("a stopped worker gives back the jobs of a late claim, and no attempt is spent", async () => {
    const { house, storage } = openFaulty(({ member, nth }) =>
      member === "claim" && nth === 1 ? { kind: "delay-answer", ms: 10_000 } : undefined,
    );
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    const { worker } = work(house, async () => "ran", { storage, lease: "1h" });
    await house.clock.advance(100);
    const stopped = worker.stop({ timeout: 0 });
    await house.clock.advance(5_000);
    await stopped;
    expect(await job.info()).toMatchObject({ state: "active" });
    await house.clock.advance(10_000);
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 0 });
  });

  it("a heartbeat cancels a job whose cancellation was not notified", async () => {
    const house = open();
    const deaf = new Proxy(house.storage, {
      get(target, key) {
        const member: unknown = Reflect.get(target, key);
        if (typeof member !== "function") return member;
        if (key !== "subscribe") return member.bind(target) as unknown;
        return (subscriber: Parameters<JobStorage["subscribe"]>[0]) =>
          target.subscribe({ ...subscriber, cancelled: undefined });
      },
    });
    const handler = (_job: unknown, { signal }: JobContext) =>
      new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const { worker } = work(house, handler, { storage: deaf, lease: "3s" });
    const job = await house.queue.add("t", null);
    await house.clock.advance(0);
    await job.cancel();
    await house.clock.advance(1_000);
    expect(await job.info()).toMatchObject({ state: "cancelled" });
    await worker.stop();
  });

  it("a job that a stopping worker cannot settle returns when its lease expires", async () => {
    const { house, storage } = openFaulty(({ member }) => (member === "settle" ? { kind: "fail-before" } : undefined));
    const { worker } = work(house, () => new Promise<never>(() => {}), { storage, lease: "60s" });
    const job = await house.queue.add("t", null, { maxAttempts: 5 });
    await house.clock.advance(0);
    const stopped = worker.stop({ timeout: 0 });
    await house.clock.advance(20_000);
    await stopped;
    expect(await job.info()).toMatchObject({ state: "active" });
    await house.clock.advance(60_000);
    await house.storage.sweep();
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 1 });
  });

  it("a worker writes the reports of a job before it settles it, awaited or not", async () => {
    const { house, storage } = openFaulty(({ member }) =>
      member === "report" ? { kind: "delay", ms: 100 } : undefined,
    );
    const { worker } = work(
      house,
      async (_job, context) => {
        context.log("the last word").catch(() => {});
        context.updateProgress(100).catch(() => {});
      },
      { storage },
    );
    const job = await house.queue.add("t", null);
    await house.clock.advance(1_000);
    expect(await job.info()).toMatchObject({ state: "completed", progress: { percent: 100 } });
    expect((await job.history()).log.map(({ text }) => text)).toEqual(["the last word"]);
    await worker.stop();
  });

  it("a worker starts as soon as the storage can be set up", async () => {
    const { house, storage } = openFaulty(({ member }) => (member === "setup" ? { kind: "fail-before" } : undefined));
    const { worker, errors } = work(house, async () => "ran", { storage });
    const job = await house.queue.add("t", null);
    await house.clock.advance(10_000);
    expect(errors.length).toBeGreaterThan(3);
    storage.heal();
    await house.clock.advance(5_000);
    expect(await job.info()).toMatchObject({ state: "completed" });
    await worker.stop();
  });
});

it("a worker goes on when its storage throws synchronously", async () => {
  const house = open();
  let rude = false;
  const storage = new Proxy(house.storage, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        if (rude && key !== "subscribe") throw new Error("rude");
        return (member as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const { worker } = work(house, async () => "done", { storage });
  await worker.onIdle();
  rude = true;
  const job = await house.queue.add("t", null);
  await house.clock.advance(10_000);
  rude = false;
  await house.clock.advance(10_000);
  expect(await job.info()).toMatchObject({ state: "completed" });
  await worker.stop();
});

it("timers fire while a worker is busy", async () => {
  const storage = new MemoryStorage();
  const queue = new Queue("q", { storage });
  await queue.addBulk(many(10_000));
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  await using worker = new Worker("q", async () => {}, { storage, concurrency: 1 });
  await worker.onIdle();
  clearInterval(timer);
  expect(turns).toBeGreaterThan(2);
});
