import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  type ILimiter,
  InMemoryRateLimiterStorage,
  type Limiter,
  RateLimiter,
} from "../../src/index.ts";
import { rate, remote, worstWindow } from "../limiter/support.ts";
import { deferred, open, work } from "./support.ts";

const many = (n: number) => Array.from({ length: n }, (_, i) => ({ type: "t", data: i }));

/** Counts what is asked of a storage. */
function counted<S extends object>(storage: S, calls: Record<string, number>): S {
  return new Proxy(storage, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        calls[String(key)] = (calls[String(key)] ?? 0) + 1;
        return (member as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

describe("limiter: { max, duration }", () => {
  it("the limiter shorthand is shared by all workers of the queue, exact, and never idle", async () => {
    const house = open();
    const starts: number[] = [];
    const workers = Array.from({ length: 3 }, () =>
      work(house, async () => void starts.push(house.clock.now()), {
        concurrency: 5,
        limiter: { max: 20, duration: 1_000 },
      }),
    );
    await house.queue.addBulk(many(100));
    await house.clock.advance(3_999);
    expect(starts).toHaveLength(80);
    expect(worstWindow(starts, 1_000)).toBe(20);
    await house.clock.advance(1);
    expect(starts).toHaveLength(100);
    for (const { worker, errors } of workers) {
      await worker.stop();
      expect(errors).toEqual([]);
    }
  });

  it('with scope: "worker" every worker has a window of its own', async () => {
    const house = open();
    const starts: number[] = [];
    const limiter = { max: 10, duration: 1_000, scope: "worker" } as const;
    const workers = [1, 2, 3].map(() =>
      work(house, async () => void starts.push(house.clock.now()), { concurrency: 5, limiter }),
    );
    await house.queue.addBulk(many(60));
    await house.clock.advance(999);
    expect(starts).toHaveLength(30);
    await house.clock.advance(1);
    expect(starts).toHaveLength(60);
    for (const { worker } of workers) await worker.stop();
  });

  it("a worker that the limit blocks asks the storage at most once a second, however often it is woken up", async () => {
    const house = open();
    const calls: Record<string, number> = {};
    const { worker } = work(house, async () => {}, {
      storage: counted(house.storage, calls),
      limiter: { max: 1, duration: "1h" },
      lease: "10d",
    });
    await house.queue.addBulk(many(2));
    await house.clock.advance(10);
    const before = calls["claim"] ?? 0;
    for (let i = 0; i < 100; i++) {
      await house.queue.add("t", i);
      await house.clock.advance(100);
    }
    expect((calls["claim"] ?? 0) - before).toBeLessThanOrEqual(11);
    const asleep = calls["claim"];
    await house.clock.advance(60_000);
    expect(calls["claim"]! - asleep!).toBeLessThanOrEqual(1);
    await worker.stop();
  });

  it("a blocked worker notices within seconds that the limit was cleared", async () => {
    const house = open();
    const starts: number[] = [];
    const { worker } = work(house, async () => void starts.push(house.clock.now()), {
      limiter: { max: 1, duration: "1h" },
    });
    await house.queue.addBulk(many(2));
    await house.clock.advance(100);
    expect(starts).toHaveLength(1);
    await house.storage.rates.clear("queue:q");
    await house.clock.advance(1_250);
    expect(starts).toHaveLength(2);
    await worker.stop();
  });

  it("a claim that met a paused process starts nothing, and is made again", async () => {
    const house = open();
    const starts: number[] = [];
    const claim = house.storage.claim.bind(house.storage);
    let pause = deferred();
    house.storage.claim = async (request) => {
      const claimed = await claim(request);
      if (claimed.jobs.length > 0) await pause.promise;
      return claimed;
    };
    await house.queue.addBulk(many(2));
    const { worker } = work(house, async () => void starts.push(house.clock.now()), {
      concurrency: 2,
      limiter: { max: 2, duration: "10s" },
    });
    await house.clock.advance(5_000);
    const wait = pause;
    pause = deferred();
    pause.resolve();
    wait.resolve();
    await house.clock.advance(20_000);
    expect(starts).toEqual([5_000, 5_000]);
    expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1, 1]);
    await worker.stop();
  });
});

describe("any limiter", () => {
  it("a limiter that several workers share is never exceeded", async () => {
    const house = open();
    let running = 0;
    let peak = 0;
    const limiter = new ConcurrencyLimiter(2);
    const ends: (() => void)[] = [];
    const handler = async () => {
      peak = Math.max(peak, ++running);
      await new Promise<void>((resolve) => ends.push(resolve));
      running -= 1;
    };
    const workers = [1, 2, 3].map(() => work(house, handler, { concurrency: 4, limiter }));
    await house.queue.addBulk(many(20));
    for (let done = 0; done < 20; done++) {
      await house.clock.advance(0);
      expect(running).toBe(Math.min(2, 20 - done));
      ends.shift()!();
    }
    await house.clock.advance(0);
    expect(peak).toBe(2);
    for (const { worker, errors } of workers) {
      await worker.stop();
      expect(errors).toEqual([]);
    }
    // Nothing is left behind: both slots are free.
    expect((await limiter.tryAcquire({ weight: 2 })).granted).toBe(true);
  });

  it("a limiter is not asked while no job waits, and gets back grants that no job was claimed for", async () => {
    const house = open();
    const rates = new InMemoryRateLimiterStorage({ clock: house.clock });
    const limiter = new RateLimiter(rates, "service", { maxExecutions: 3, windowSizeInSeconds: 3_600 });
    const epoch = new Date(0).toISOString();
    const { worker } = work(house, async () => {}, { concurrency: 10, limiter });
    await house.clock.advance(60_000);
    expect(await rates.getExecutionCount("service", epoch)).toBe(0);
    await house.queue.addBulk(many(2));
    await house.clock.advance(1);
    expect(await rates.getExecutionCount("service", epoch)).toBe(2);
    expect((await house.queue.counts()).completed).toBe(2);
    await worker.stop();
  });

  it("a limiter is asked for little more than there are jobs, however many could run", async () => {
    const house = open();
    const storage = remote(house.clock);
    const limiter = rate(house.clock, 1_000, "api", storage);
    const { worker, errors } = work(house, async () => {}, { concurrency: 100, limiter });
    for (let i = 0; i < 10; i++) {
      await house.queue.add("t", i);
      await house.clock.advance(100);
    }
    expect(await house.queue.counts()).toMatchObject({ completed: 10 });
    expect(storage.calls.length).toBeLessThanOrEqual(30);
    await house.queue.addBulk(many(500));
    await house.clock.advance(1_000);
    expect(await house.queue.counts()).toMatchObject({ completed: 510 });
    await worker.stop();
    expect(errors).toEqual([]);
  });

  it("a composite limiter spends no permit without a start, and no job is claimed without a permit", async () => {
    const house = open();
    const rates = new InMemoryRateLimiterStorage({ clock: house.clock });
    const limiter = new CompositeLimiter([
      new ConcurrencyLimiter(2, { clock: house.clock }),
      new RateLimiter(rates, "service", { maxExecutions: 5, windowSizeInSeconds: 1 }),
      new DelayLimiter(10, { clock: house.clock }),
    ]);
    const starts: number[] = [];
    const { worker } = work(house, async () => void starts.push(house.clock.now()), { concurrency: 8, limiter });
    await house.queue.addBulk(many(12));
    await house.clock.advance(3_000);
    expect(starts).toEqual([0, 10, 20, 30, 40, 1_000, 1_010, 1_020, 1_030, 1_040, 2_000, 2_010]);
    expect(await rates.getExecutionCount("service", new Date(0).toISOString())).toBe(12);
    expect((await house.queue.list()).jobs.every(({ attempt }) => attempt === 1)).toBe(true);
    await worker.stop();
  });

  it("a limiter with only six methods is asked, then the start is recorded, one claim at a time", async () => {
    const house = open();
    const log: string[] = [];
    let running = 0;
    const six: ILimiter = {
      canProceed: async () => running < 2,
      recordJobStart: async () => {
        running += 1;
        log.push("start");
      },
      recordJobCompletion: async () => {
        running -= 1;
        log.push("end");
      },
      getNextAvailableTime: async () => new Date(house.clock.wall()),
      setNextAvailableTime: async () => {},
      clear: async () => {},
    };
    let peak = 0;
    const ends: (() => void)[] = [];
    const handler = () => {
      peak = Math.max(peak, running);
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    const workers = [1, 2].map(() => work(house, handler, { concurrency: 4, limiter: six }));
    await house.queue.addBulk(many(6));
    for (let i = 0; i < 6; i++) {
      await house.clock.advance(200);
      expect(running).toBe(Math.min(2, 6 - i));
      ends.shift()!();
    }
    await house.clock.advance(200);
    expect(peak).toBe(2);
    expect(log.filter((entry) => entry === "start")).toHaveLength(6);
    expect(log.filter((entry) => entry === "end")).toHaveLength(6);
    for (const { worker, errors } of workers) {
      await worker.stop();
      expect(errors).toEqual([]);
    }
  });

  it("a limiter with only six methods records no start for a job that another worker claimed first", async () => {
    const house = open();
    const recorded: string[] = [];
    const six: ILimiter = {
      canProceed: async () => true,
      recordJobStart: async () => void recorded.push("start"),
      recordJobCompletion: async () => void recorded.push("end"),
      getNextAvailableTime: async () => new Date(house.clock.wall()),
      setNextAvailableTime: async () => {},
      clear: async () => {},
    };
    const claim = house.storage.claim.bind(house.storage);
    let taken = false;
    house.storage.claim = async (request) => {
      if (taken || request.max === 0) return claim(request);
      taken = true;
      return { jobs: [], stale: [], more: false, nextInMs: null, blockedBy: null };
    };
    const { worker } = work(house, async () => {}, { limiter: six });
    await house.queue.add("t", 1);
    await house.clock.advance(10);
    expect([taken, recorded]).toEqual([true, []]);
    await house.queue.add("t", 2);
    await house.clock.advance(10);
    expect(recorded).toEqual(["start", "end", "start", "end"]);
    await worker.stop();
  });

  it("a limiter that fails is asked again after a while, and no attempt is spent", async () => {
    const house = open();
    const good = new ConcurrencyLimiter(1);
    let broken = true;
    const limiter = new Proxy(good, {
      get(target, key) {
        const member: unknown = Reflect.get(target, key, target);
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          if (broken) throw new Error("the limiter is broken");
          return (member as (...args: unknown[]) => unknown).apply(target, args);
        };
      },
    }) as Limiter;
    const { worker, errors } = work(house, async () => "fine", { limiter });
    const job = await house.queue.add("t", null);
    await house.clock.advance(10_000);
    expect(errors.length).toBeGreaterThan(3);
    expect(errors.length).toBeLessThan(20);
    broken = false;
    await house.clock.advance(2_000);
    expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    await worker.stop();
  });

  it("the rate-limited event names the limiter that blocks", async () => {
    const house = open();
    const { worker } = work(house, async () => {}, { limiter: { max: 1, duration: 1_000 } });
    const events: unknown[] = [];
    house.queue.on("rate-limited", ({ blockedBy, retryInMs }) => events.push([blockedBy, retryInMs]));
    await house.queue.addBulk(many(2));
    await house.clock.advance(10);
    expect(events).toEqual([["queue:q", 1_000]]);
    await worker.stop();
  });
});
