import { expect, it } from "vitest";
import { type JobContext, MemoryStorage, Queue, StaleLeaseError, Worker } from "../../src/index.ts";
import { FakeClock, faultyStorage } from "../../src/testing/index.ts";
import { deferred, jumps, many, open, work } from "./support.ts";

const untilAborted = (_job: unknown, { signal }: JobContext) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });

it("a job whose lease cannot be renewed is aborted before another worker can claim it", async () => {
  const house = open();
  const storage = faultyStorage(house.storage, ({ member }) =>
    member === "heartbeat" ? { kind: "fail-before" } : undefined,
  );
  const abortedAt: number[] = [];
  const { worker } = work(
    house,
    (job, context) => {
      const from = house.clock.now();
      context.signal.addEventListener("abort", () => abortedAt.push(house.clock.now() - from));
      return untilAborted(job, context);
    },
    { storage, lease: "30s", concurrency: 2 },
  );
  await house.queue.add("t", 1);
  await house.clock.advance(4_000);
  await house.queue.add("t", 2);
  await house.clock.advance(29_999 - 4_000);
  expect(abortedAt[0]).toBeLessThan(30_000);
  await house.clock.advance(4_000);
  expect(abortedAt[1]).toBeLessThan(30_000);
  expect(abortedAt[1]).toBeGreaterThan(25_000);
  await worker.stop({ timeout: 0 });
});

it("a lease survives one heartbeat that is never answered", async () => {
  const house = open();
  const storage = faultyStorage(house.storage, ({ member, nth }) =>
    member === "heartbeat" && nth === 1 ? { kind: "never" } : undefined,
  );
  const { worker } = work(house, untilAborted, { storage, lease: "30s" });
  const job = await house.queue.add("t", 1);
  await house.clock.advance(120_000);
  expect(await job.info()).toMatchObject({ state: "active", attempt: 1 });
  await worker.stop({ timeout: 0 });
});

it("a lost lease does not end the new lease of the same job", async () => {
  const house = open();
  const aborted: [token: number, reason: unknown][] = [];
  const { worker } = work(
    house,
    (_job, { signal, token }) => {
      signal.addEventListener("abort", () => aborted.push([token, signal.reason]));
      return new Promise<never>(() => {});
    },
    { lease: "3s", concurrency: 2 },
  );
  const job = await house.queue.add("t", null);
  await house.clock.advance(100);
  const heartbeat = house.storage.heartbeat.bind(house.storage);
  // For a while the storage receives nothing, and the worker does not know: the lease expires and is won again.
  house.storage.heartbeat = async () => ({ lost: [], cancelled: [] });
  await house.clock.advance(4_000);
  house.storage.heartbeat = heartbeat;
  await house.clock.advance(10_000);
  const info = await job.info();
  expect(info).toMatchObject({ state: "active", attempt: 2 });
  expect(aborted).toEqual([[1, expect.any(StaleLeaseError)]]);
  const stopped = worker.stop({ timeout: 0 });
  await house.clock.advance(1_000);
  await stopped;
});

it("after a pause of the process a worker aborts the jobs it lost before it starts others", async () => {
  const still = new FakeClock();
  let pausedFor = 0;
  // Time has passed, and no timer has been called yet.
  const clock = {
    now: () => still.now() + pausedFor,
    wall: () => still.wall() + pausedFor,
    after: (ms: number, callback: () => void) => still.after(ms, callback),
  };
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("q", { storage, clock });
  const signals: AbortSignal[] = [];
  const abortedBefore: boolean[] = [];
  const handler = async (_job: unknown, { signal }: JobContext) => {
    abortedBefore.push(...signals.map(({ aborted }) => aborted));
    signals.push(signal);
    if (signals.length === 1) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  };
  const worker = new Worker("q", handler, { storage, clock, concurrency: 2, lease: "1s", onError: () => {} });
  await queue.add("t", 1);
  await still.advance(0);
  pausedFor = 5_000;
  await queue.add("t", 2);
  await still.advance(0);
  expect(abortedBefore).toEqual([true]);
  await worker.stop({ timeout: 0 });
});

it("each pause of the process is reported, though the next handler starts before the timer fires", async () => {
  const house = open();
  const jump = jumps(house.clock);
  const end = deferred();
  const blocks = async () => void (jump.by += 5_000);
  const { worker, errors } = work(house, { slow: () => end.promise, blocks }, { concurrency: 2, lease: 3_000 });
  await house.queue.add("slow", null);
  await house.clock.advance(0);
  await house.queue.addBulk(many(3, "blocks"));
  await house.clock.advance(0);
  expect(errors.map(String)).toEqual(Array(3).fill(expect.stringMatching("process paused, for [45]000 ms")));
  await house.clock.advance(3_000);
  expect(errors).toHaveLength(3);
  end.resolve();
  await Promise.all([worker.stop(), house.clock.advance(3_000)]);
});

it("jobs start in the end though every claim is answered late", async () => {
  const house = open();
  const storage = faultyStorage(
    house.storage,
    ({ member }) => (member === "claim" ? { kind: "delay", ms: 2_100 } : undefined),
    { clock: house.clock },
  );
  const starts: number[] = [];
  const { worker } = work(house, async () => void starts.push(house.clock.now()), {
    storage,
    limiter: { max: 5, duration: 1_000 },
  });
  await house.queue.addBulk(many(5));
  await house.clock.advance(60_000);
  expect(starts).toHaveLength(5);
  const stopped = worker.stop({ timeout: 0 });
  await house.clock.advance(10_000);
  await stopped;
});
