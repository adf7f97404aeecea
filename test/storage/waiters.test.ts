import { describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  JobNotFoundError,
  JobTimeoutError,
  MemoryStorage,
  Queue,
  type QueuedJob,
  StorageError,
  Worker,
} from "../../src/index.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { Waiters } from "../../src/storage/waiters.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock, faultyStorage } from "../../src/testing/index.ts";

const STORAGES: readonly (readonly [string, (clock: FakeClock) => JobStorage])[] = [
  ["memory", (clock) => new MemoryStorage({ clock })],
  ["sqlite", (clock) => new SqliteStorage(":memory:", { clock })],
];

/** A queue over a storage whose calls are counted. `deaf`: it receives no notifications. */
function open(make: (clock: FakeClock) => JobStorage, { deaf = false } = {}) {
  const clock = new FakeClock();
  const inner = make(clock);
  const counts = { looks: 0, asked: 0, subscriptions: 0, others: 0 };
  const storage = new Proxy(inner, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== "function") return member;
      return (...given: unknown[]): unknown => {
        if (key === "endings") {
          counts.looks += 1;
          counts.asked += (given[0] as unknown[]).length;
        } else if (key !== "subscribe") counts.others += 1;
        const answer: unknown = member.apply(target, key === "subscribe" && deaf ? [{ queue: null }] : given);
        if (key !== "subscribe") return answer;
        counts.subscriptions += 1;
        return () => {
          counts.subscriptions -= 1;
          (answer as () => void)();
        };
      };
    },
  });
  return { clock, inner, storage, counts, queue: new Queue("q", { storage, clock }) };
}

const many = (n: number) => Array.from({ length: n }, (_, data) => ({ type: "t", data }));
const zero = (counts: Record<string, number>) =>
  Object.keys(counts).forEach((key) => key !== "subscriptions" && (counts[key] = 0));

describe.each(STORAGES)("8,000 waiters on %s", (_, make) => {
  it("8,000 waiters need one subscription, and one look-up of 500 jobs a second and a sweep every 10 s while nothing happens", async () => {
    const { clock, counts, queue } = open(make);
    const jobs = await queue.addBulk(many(8_000));
    zero(counts);
    const waits = Promise.allSettled(jobs.map((job) => job.result({ timeout: 61_500 })));
    await clock.advance(500);
    expect(counts).toEqual({ looks: 16, asked: 8_000, subscriptions: 1, others: 0 });
    zero(counts);
    await clock.advance(60_000);
    // Six sweeps.
    expect(counts).toMatchObject({ subscriptions: 1, others: 6 });
    // Every one of them three times.
    expect(counts.looks).toBeLessThanOrEqual(60);
    expect(counts.asked).toBeGreaterThan(3 * 8_000);
    await clock.advance(2_000);
    expect((await waits).every((one) => one.status === "rejected" && one.reason instanceof JobTimeoutError)).toBe(true);
    expect([counts.subscriptions, clock.timers]).toEqual([0, 0]);
  });

  it("waiters are resolved by the workers of their process without a look-up", async () => {
    const { clock, counts, queue, storage } = open(make);
    const jobs = await queue.addBulk(many(8_000));
    const waits = Promise.all(jobs.map((job) => job.result()));
    await clock.advance(1);
    zero(counts);
    const worker = new Worker("q", async ({ data }) => data, { storage, clock, concurrency: 100 });
    expect(await waits).toEqual(jobs.map((_job, i) => i));
    expect(counts.looks).toBe(0);
    await worker.stop();
    expect(counts.subscriptions).toBe(0);
  });

  it("waiters look up jobs that other processes settled, hundreds at a time", async () => {
    const { clock, counts, queue, inner } = open(make);
    const jobs = await queue.addBulk(many(8_000));
    const waits = Promise.all(jobs.map((job) => job.result()));
    await clock.advance(1);
    zero(counts);
    // It has a storage object of its own, as a worker in another process has.
    const worker = new Worker("q", async ({ data }) => data, {
      storage: faultyStorage(inner, () => {}),
      clock,
      concurrency: 100,
    });
    await clock.advance(1_000);
    expect(await waits).toEqual(jobs.map((_job, i) => i));
    expect(counts.asked).toBeLessThanOrEqual(8_000 + 500);
    expect(counts.looks).toBeLessThanOrEqual(8_000 / 500 + 10);
    await worker.stop();
  });
});

describe.each(STORAGES)("waiting for a job on %s", (_, make) => {
  it("a waiter finds the end of its job by a look-up if the notification is lost", async () => {
    const { clock, inner, queue } = open(make, { deaf: true });
    const job = await queue.add("t", 7);
    const result = job.result();
    await clock.advance(10);
    const worker = new Worker("q", async () => "done", { storage: faultyStorage(inner, () => {}), clock });
    await clock.advance(1_000);
    expect(await result).toBe("done");
    await worker.stop();
  });

  it("a waiter gets a JobNotFoundError when the job is removed", async () => {
    const { clock, queue, counts } = open(make);
    const job = await queue.add("t", null);
    const result = expect(job.result()).rejects.toThrow(JobNotFoundError);
    await clock.advance(10);
    await job.remove();
    await clock.advance(1_000);
    await result;
    expect([counts.subscriptions, clock.timers]).toEqual([0, 0]);
  });

  it("all waiters of a job end when it is cancelled in any way", async () => {
    const { clock, queue, counts } = open(make);
    const job = await queue.add("t", null);
    const others = await queue.get(job.id);
    const waits = [job.result(), job.result(), others!.result()].map((one) =>
      expect(one).rejects.toThrow(AbortSignalJobError),
    );
    await clock.advance(10);
    await job.cancel();
    await clock.advance(10);
    await Promise.all(waits);
    expect([counts.subscriptions, clock.timers]).toEqual([0, 0]);
  });

  it("a waiter that gives up leaves nothing behind, and the others go on", async () => {
    const { clock, queue, counts, storage } = open(make);
    const job = await queue.add("t", null);
    const controller = new AbortController();
    const aborted = expect(job.result({ signal: controller.signal })).rejects.toThrow("enough");
    const late = expect(job.result({ timeout: 100 })).rejects.toThrow(JobTimeoutError);
    const patient = job.result();
    await clock.advance(10);
    controller.abort(new Error("enough"));
    await aborted;
    await clock.advance(100);
    await late;
    expect(counts.subscriptions).toBe(1);
    const worker = new Worker("q", async () => "done", { storage, clock });
    expect(await patient).toBe("done");
    await worker.stop();
    await clock.advance(0);
    expect([counts.subscriptions, clock.timers]).toEqual([0, 0]);
    await expect(job.result({ signal: controller.signal })).rejects.toThrow("enough");
    expect(await job.result()).toBe("done");
  });

  it("a waiter gets a StorageError as soon as the storage is closed", async () => {
    const { clock, queue, storage } = open(make);
    const jobs = await queue.addBulk(many(3));
    const waits = jobs.map((job) => expect(job.result()).rejects.toThrow(StorageError));
    await clock.advance(10);
    await storage.close();
    await Promise.all(waits);
    expect(clock.timers).toBe(0);
  });

  it("a waiter gets the error of a job that is dead by its deadline, or by its last lease, though no worker runs", async () => {
    const { clock, queue, storage } = open(make);
    const claim = { worker: "w", queue: "q", types: ["lost"], max: 1, leaseMs: 5_000, limits: [], settle: [] };
    const lost = await queue.add("lost", null, { maxAttempts: 1 });
    expect((await storage.claim(claim as never)).jobs).toHaveLength(1);
    const late = await queue.add("late", null, { deadline: "5s" });
    const waits = Promise.allSettled([late.result(), lost.result()]);
    await clock.advance(20_000);
    const [byDeadline, byLease] = await waits;
    expect(byDeadline).toMatchObject({ reason: expect.any(JobTimeoutError) });
    expect(byLease).toMatchObject({ reason: { name: "JobError", message: expect.stringContaining("lease") } });
    expect(clock.timers).toBe(0);
  });

  it("a sweep that fails does not end a wait", async () => {
    const clock = new FakeClock();
    const storage = faultyStorage(make(clock), ({ member }) =>
      member === "sweep" ? { kind: "fail-before" } : undefined,
    );
    const queue = new Queue("q", { storage, clock });
    const result = (await queue.add("t", null)).result({ timeout: 30_000 });
    const late = expect(result).rejects.toThrow(JobTimeoutError);
    await clock.advance(31_000);
    await late;
    expect(storage.calls.filter(({ member }) => member === "sweep")).toHaveLength(2);
    expect(clock.timers).toBe(0);
  });

  it("a waiter gets the error of a failed look-up", async () => {
    const clock = new FakeClock();
    const storage = faultyStorage(make(clock), ({ member }) =>
      member === "endings" ? { kind: "fail-before" } : undefined,
    );
    const queue = new Queue("q", { storage, clock });
    await expect((await queue.add("t", null)).result()).rejects.toThrow("endings failed");
    expect(clock.timers).toBe(0);
  });

  it("a waiter gets the result of a job that was settled again after a lost answer", async () => {
    const clock = new FakeClock();
    let lost = 0;
    const storage = faultyStorage(make(clock), ({ member, args }) => {
      const settles = member === "claim" && (args[0] as { settle: unknown[] }).settle.length > 0;
      return settles && lost++ === 0 ? { kind: "fail-after" } : undefined;
    });
    const queue = new Queue("q", { storage, clock });
    const job = await queue.add("t", null);
    const result = job.result();
    const worker = new Worker("q", async () => "done", { storage, clock, onError: () => {} });
    await clock.advance(5_000);
    expect(await result).toBe("done");
    expect(lost).toBeGreaterThan(0);
    await worker.stop();
  });
});

describe.each(STORAGES)("following the progress of jobs on %s", (_, make) => {
  it("all followers of progress share one subscription, with one for the ends of their jobs, and each gets the progress of its own job until it ends", async () => {
    const { clock, queue, storage, counts } = open(make);
    const jobs = await queue.addBulk(many(1_000));
    const received = jobs.map((): number[] => []);
    zero(counts);
    const offs = jobs.map((job, i) => job.onProgress(({ percent }) => received[i]!.push(percent)));
    jobs[0]!.onProgress(() => {
      throw new Error("a listener");
    });
    offs[1]!();
    await clock.advance(10);
    expect(counts).toMatchObject({ looks: 2, subscriptions: 2, others: 0 });
    const worker = new Worker("q", async ({ data }, { updateProgress }) => updateProgress((data as number) / 10), {
      storage,
      clock,
      concurrency: 50,
    });
    await worker.onIdle();
    await worker.stop();
    expect(received).toEqual(jobs.map((_job, i) => (i === 1 ? [] : [i / 10])));
    expect(counts.subscriptions).toBe(0);
    // A job that has ended has no more progress.
    jobs[5]!.onProgress(() => {});
    await clock.advance(1);
    expect(counts.subscriptions).toBe(0);
  });

  it("followers of a job that is removed, drained, replaced or cancelled end", async () => {
    const { clock, queue, counts } = open(make);
    const ends = {
      removed: (job: QueuedJob) => job.remove(),
      drained: () => queue.drain(),
      cancelled: (job: QueuedJob) => job.cancel(),
      replaced: () => queue.add("t", 2, { idempotencyKey: "replaced", onDuplicate: "replace" }),
    };
    for (const [how, end] of Object.entries(ends)) {
      const job = await queue.add("t", 1, { idempotencyKey: how });
      job.onProgress(() => {});
      const off = job.onProgress(() => {});
      await clock.advance(1);
      expect(counts.subscriptions, how).toBeGreaterThan(0);
      await end(job);
      await clock.advance(1_001);
      expect(counts.subscriptions, how).toBe(0);
      off();
    }
  });

  it("followers get progress whose event comes after a worker of their process has settled the job", async () => {
    const { clock, queue, inner, storage, counts } = open(make);
    const subscribe = inner.subscribe.bind(inner);
    inner.subscribe = ({ event, ...others }) =>
      subscribe({ ...others, ...(event && { event: (one) => void clock.after(50, () => event(one)) }) });
    const received: number[] = [];
    const job = await queue.add("t", null);
    job.onProgress(({ percent }) => received.push(percent));
    const worker = new Worker("q", async (_job, { updateProgress }) => updateProgress(7), { storage, clock });
    await clock.advance(5);
    expect((await job.info())!.state).toBe("completed");
    await clock.advance(100);
    expect(received).toEqual([7]);
    await worker.stop();
    expect(counts.subscriptions).toBe(0);
  });

  it("followers stay when a look-up fails, and end when the storage closes", async () => {
    const { clock, queue, inner, storage, counts } = open(make);
    const job = await queue.add("t", 1);
    const received: number[] = [];
    job.onProgress(({ percent }) => received.push(percent));
    await clock.advance(1);
    inner.endings = () => Promise.reject(new StorageError("no answer"));
    await clock.advance(3_000);
    expect(counts).toMatchObject({ subscriptions: 2, looks: 4 });
    const progress = { percent: 5, message: null, details: null };
    await storage.publish({ event: "progress", queue: "q", id: job.id, type: "t", progress } as never);
    await clock.advance(1_000);
    expect(received).toEqual([5]);
    const { looks } = counts;
    await storage.close();
    await clock.advance(5_000);
    expect(counts).toMatchObject({ subscriptions: 0, looks });
    expect(clock.timers).toBe(0);
  });
});

it("an awaited job is looked up in its turn though more and more jobs are awaited", async () => {
  const clock = new FakeClock();
  let isOver = false;
  const endings = async (ids: readonly string[]) => ({
    ended: isOver && ids.includes("old") ? [{ id: "old", state: "completed" as const, result: null }] : [],
    more: false,
  });
  const sweep = async () => ({ stalled: 0, deleted: 0, more: false });
  const waiters = new Waiters({ endings, sweep, subscribe: () => () => {} }, clock);
  let ended = false;
  const add = (id: string, onEnded = () => {}) =>
    waiters.add(id, { before: undefined, after: undefined, ended: onEnded, failed: () => {} });
  add("old", () => (ended = true));
  // More than are looked up meanwhile, and each of them waits on.
  for (let second = 0; second < 20; second++) {
    isOver = second > 3;
    for (let n = 0; n < 600; n++) add(`new-${second}-${n}`);
    await clock.advance(1_000);
  }
  expect(ended).toBe(true);
  waiters.close();
  expect(clock.timers).toBe(0);
});
