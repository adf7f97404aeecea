import { describe, expect, it } from "vitest";
import {
  ConcurrencyLimiter,
  type ILimiter,
  type JobContext,
  type Limiter,
  MemoryStorage,
  Queue,
  RateLimitedError,
  RetryableJobError,
  StaleLeaseError,
  Worker,
} from "../../src/index.ts";
import { FakeClock, faultyStorage } from "../../src/testing/index.ts";
import { worstWindow } from "../limiter/support.ts";
import { deferred, many, open, work } from "./support.ts";

/** A limiter with six methods that counts what runs. */
class Six implements ILimiter {
  running = 0;
  readonly #max: number;
  constructor(max: number) {
    this.#max = max;
  }
  async canProceed(): Promise<boolean> {
    return this.running < this.#max;
  }
  async recordJobStart(): Promise<void> {
    this.running += 1;
  }
  async recordJobCompletion(): Promise<void> {
    this.running -= 1;
  }
  async getNextAvailableTime(): Promise<Date> {
    return new Date(0);
  }
  async setNextAvailableTime(): Promise<void> {}
  async clear(): Promise<void> {}
}

const untilAborted = (_job: unknown, { signal }: JobContext) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });

describe("a worker and its limiter", () => {
  it("a limiter counts from the call, however long the claim takes after the grant", async () => {
    const house = open();
    const starts: number[] = [];
    let slow = true;
    const storage = faultyStorage(
      house.storage,
      ({ member, args }) => {
        if (member !== "claim" || (args[0] as { max: number }).max === 0 || !slow) return undefined;
        slow = false;
        return { kind: "delay", ms: 900 };
      },
      { clock: house.clock },
    );
    const { worker } = work(house, async () => void starts.push(house.clock.now()), {
      storage,
      concurrency: 5,
      limiter: { max: 5, duration: 1_000, scope: "worker" },
    });
    await house.queue.addBulk(many(15));
    await house.clock.advance(5_000);
    expect(starts).toHaveLength(15);
    expect(worstWindow(starts, 1_000)).toBe(5);
    await worker.stop();
  });

  it("a job that cannot be read leaves no lock and no recorded start in its limiter", async () => {
    const house = open();
    const limiter = new Six(5);
    const claim = house.storage.claim.bind(house.storage);
    house.storage.claim = async (request) => {
      const claimed = await claim(request);
      for (const job of claimed.jobs) if (job.data === '"bad"') Object.assign(job, { data: "{" });
      return claimed;
    };
    const bad = await house.queue.add("t", "bad");
    const good = await house.queue.add("t", "good");
    const { worker } = work(house, async () => "ran", { limiter });
    expect(await good.result()).toBe("ran");
    expect(await bad.info()).toMatchObject({ state: "dead" });
    await worker.stop();
    expect(limiter.running).toBe(0);
  });

  it("a job is put off, and no end is recorded, if its limiter cannot record the start", async () => {
    const house = open();
    const limiter = new Six(1);
    let fails = 1;
    const start = limiter.recordJobStart.bind(limiter);
    limiter.recordJobStart = async () => {
      if (fails-- > 0) throw new Error("away");
      await start();
    };
    let running = 0;
    let peak = 0;
    const { worker, errors } = work(
      house,
      async () => {
        peak = Math.max(peak, ++running);
        await new Promise<void>((resolve) => house.clock.after(100, resolve));
        running -= 1;
      },
      { limiter, concurrency: 4 },
    );
    const jobs = await house.queue.addBulk(
      many(4).map(({ type, data }) => ({ type, data, options: { maxAttempts: 1 } })),
    );
    await house.clock.advance(10_000);
    for (const job of jobs) expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    expect([peak, limiter.running, errors.length]).toEqual([1, 0, 1]);
    await worker.stop();
  });

  it("a limiter is asked for no more grants than there are slots, however slowly it answers", async () => {
    const house = open();
    const inner = new ConcurrencyLimiter(10);
    let held = 0;
    let most = 0;
    const limiter = {
      async tryAcquire() {
        await new Promise<void>((resolve) => house.clock.after(50, resolve));
        const answer = await inner.tryAcquire();
        if (!answer.granted) return answer;
        most = Math.max(most, ++held);
        const back = async () => {
          held -= 1;
          await answer.release();
        };
        return { ...answer, release: back, cancel: back, settle: async () => {} };
      },
      acquire: inner.acquire.bind(inner),
      canProceed: async () => true,
      recordJobStart: async () => {},
      recordJobCompletion: async () => {},
      getNextAvailableTime: async () => new Date(0),
      setNextAvailableTime: async () => {},
      clear: async () => {},
    } as unknown as Limiter;
    const { worker } = work(house, () => new Promise<void>((resolve) => house.clock.after(500, resolve)), {
      limiter,
      concurrency: 2,
    });
    for (let i = 0; i < 20; i++) {
      await house.queue.add("t", i);
      await house.clock.advance(37);
    }
    await house.clock.advance(20_000);
    expect((await house.queue.counts()).completed).toBe(20);
    expect(most).toBe(2);
    expect(held).toBe(0);
    await worker.stop();
  });

  it("a worker does not spin when its limiter answers never", async () => {
    const house = open();
    let asked = 0;
    const limiter = Object.assign(new Six(0), {
      tryAcquire: async () => {
        asked += 1;
        return { granted: false, blockedBy: "mine", retryInMs: null, never: true } as const;
      },
      acquire: () => Promise.reject(new Error("never")),
    });
    const { worker, errors } = work(house, async () => {}, { limiter: limiter as Limiter });
    await house.queue.add("t", null);
    await house.clock.advance(10_000);
    expect(asked).toBeLessThan(20);
    expect(String(errors[0])).toMatch(/mine/);
    await worker.stop();
  });
});

describe("what a handler throws", () => {
  it("a job is settled whatever its handler throws, and the worker can be stopped", async () => {
    const house = open();
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const { worker } = work(
      house,
      {
        revoked: async () => {
          throw proxy;
        },
        strategy: async () => {
          throw new Error("fine");
        },
      },
      {
        backoffs: {
          broken: () => {
            throw new Error("the strategy is broken");
          },
        },
      },
    );
    const revoked = await house.queue.add("revoked", null, { maxAttempts: 1 });
    const strategy = await house.queue.add("strategy", null, {
      maxAttempts: 2,
      backoff: { kind: "custom", name: "broken" },
    });
    await house.clock.advance(60_000);
    expect(await revoked.info()).toMatchObject({ state: "dead" });
    expect(await strategy.info()).toMatchObject({ state: "dead", attempt: 2 });
    await worker.stop();
  });

  it("a failed job is settled though its limiter does not answer, or answers nonsense", async () => {
    for (const next of [() => new Promise<Date>(() => {}), async () => new Date(Number.NaN)]) {
      const house = open();
      const limiter = Object.assign(new Six(5), { getNextAvailableTime: next });
      const { worker } = work(
        house,
        async () => {
          throw new RetryableJobError("later");
        },
        { limiter },
      );
      const job = await house.queue.add("t", null, { maxAttempts: 2 });
      await house.clock.advance(60_000);
      expect(await job.info()).toMatchObject({ state: "dead", attempt: 2 });
      await worker.stop();
    }
  });

  it("a RateLimitedError with an invalid delay is refused", () => {
    for (const retry of ["5s", -1, Number.NaN, {}, null]) {
      expect(() => new RateLimitedError(retry as never)).toThrow(/`retry`/);
    }
  });
});

it("jobs that ended while all writes failed for a short time are settled afterwards, and not run again", async () => {
  const house = open();
  let failing = false;
  const storage = faultyStorage(
    house.storage,
    ({ member }) => (failing && (member === "claim" || member === "settle") ? { kind: "fail-before" } : undefined),
    { clock: house.clock },
  );
  let runs = 0;
  const { worker } = work(
    house,
    async () => {
      runs += 1;
      await new Promise<void>((resolve) => house.clock.after(20 + runs, resolve));
    },
    { storage, concurrency: 30 },
  );
  await house.queue.addBulk(many(30));
  await house.clock.advance(10);
  failing = true;
  await house.clock.advance(5_000);
  failing = false;
  await house.clock.advance(60_000);
  expect(runs).toBe(30);
  expect((await house.queue.counts()).completed).toBe(30);
  await worker.stop();
});

it("a job that is abandoned while its limiter records the start is not called", async () => {
  for (const how of ["stop", "cancel"] as const) {
    const house = open();
    const limiter = new Six(1);
    const start = limiter.recordJobStart.bind(limiter);
    limiter.recordJobStart = async () => {
      await new Promise<void>((resolve) => house.clock.after(1_500, resolve));
      await start();
    };
    let runs = 0;
    const { worker } = work(house, async () => void (runs += 1), { limiter });
    const job = await house.queue.add("t", null, { timeout: "60s" });
    await house.clock.advance(100);
    if (how === "cancel") await job.cancel();
    const stopped = how === "stop" ? worker.stop({ timeout: 0 }) : undefined;
    await house.clock.advance(5_000);
    await stopped;
    expect([how, runs, limiter.running]).toEqual([how, 0, 0]);
    expect(await job.info()).toMatchObject({ state: how === "stop" ? "waiting" : "cancelled" });
    await worker.stop();
    expect(house.clock.timers).toBe(0);
  }
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

it("a batch whose returned value throws when it is read is settled", async () => {
  const house = open();
  const strange = new Proxy(
    {},
    {
      getPrototypeOf: () => {
        throw new Error("do not ask");
      },
    },
  );
  const worker = new Worker<Record<string, { data: number }>>(
    "q",
    { a: async (jobs) => jobs.map(() => strange), b: async (jobs) => jobs.map(() => 1) },
    { storage: house.storage, clock: house.clock, batch: { size: 10 }, onError: () => {} },
  );
  const jobs = await house.queue.addBulk(["a", "b"].map((type, data) => ({ type, data, options: { maxAttempts: 1 } })));
  await house.clock.advance(1_000);
  expect(await jobs[0]!.info()).toMatchObject({ state: "completed" });
  expect(await jobs[1]!.info()).toMatchObject({ state: "completed" });
  await worker.stop();
});

it("a job is settled though its permit throws when it is given back", async () => {
  const house = open();
  const permit = {
    granted: true,
    release: () => {
      throw new Error("no");
    },
    cancel: () => {
      throw new Error("no");
    },
    settle: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
  const limiter = Object.assign(new Six(5), { tryAcquire: async () => permit, acquire: async () => permit });
  const { worker } = work(house, async () => "done", { limiter: limiter as unknown as Limiter });
  expect(await (await house.queue.add("t", null)).result()).toBe("done");
  await worker.stop();
});

it("a worker that has stopped leaves no subscription and no timer, whenever the storage answers", async () => {
  const house = open();
  const storage = faultyStorage(
    house.storage,
    ({ member }) => (member === "setup" ? { kind: "delay-answer", ms: 20_000 } : undefined),
    { clock: house.clock },
  );
  let subscribed = 0;
  const subscribe = house.storage.subscribe.bind(house.storage);
  house.storage.subscribe = (subscriber) => {
    subscribed += 1;
    return subscribe(subscriber);
  };
  const { worker } = work(house, async () => {}, { storage });
  await house.clock.advance(10);
  const stopped = worker.stop({ timeout: 0 });
  await house.clock.advance(5_000);
  await stopped;
  await house.clock.advance(30_000);
  expect([subscribed, house.clock.timers]).toEqual([0, 0]);
});

it("a worker leaves no timer if the time to stop is up while it publishes that it has stopped", async () => {
  const house = open();
  const publish = Promise.withResolvers<void>();
  const storage = new Proxy(house.storage, {
    get(target, key) {
      if (key === "publish") return ({ event }: { event: string }) => event === "worker-stopped" && publish.promise;
      const member: unknown = Reflect.get(target, key);
      return typeof member === "function" ? (member as () => unknown).bind(target) : member;
    },
  });
  const worker = new Worker("q", async () => {}, { storage, clock: house.clock });
  await house.clock.advance(10);
  const stopped = worker.stop({ timeout: 100 });
  await house.clock.advance(100);
  publish.resolve();
  await stopped;
  expect(house.clock.timers).toBe(0);
});

it("a worker is idle when its jobs were removed while it waited for its limiter", async () => {
  const house = open();
  const limiter = new ConcurrencyLimiter(1);
  const permit = await limiter.acquire();
  const { worker } = work(house, async () => {}, { limiter });
  const job = await house.queue.add("t", null);
  await house.clock.advance(10);
  let idle = false;
  void worker.onIdle().then(() => (idle = true));
  await job.cancel();
  await house.queue.add("other", null, { delay: 10 }).then((other) => other.remove());
  await house.clock.advance(3_000);
  expect(idle).toBe(true);
  await permit.release();
  await worker.stop();
});

it("an outcome that the storage cannot write does not hold up the others", async () => {
  const house = open();
  const refusing = new Proxy(house.storage, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        const [first] = args as [{ settle?: { to: string }[] } | { to: string }[] | undefined];
        const outcomes =
          key === "settle" ? (first as { to: string }[]) : key === "claim" ? (first as never)["settle"] : [];
        if ((outcomes as { to: string }[]).some(({ to }) => to === "dead")) {
          return Promise.reject(new Error("a constraint failed"));
        }
        return (member as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const { worker, errors } = work(
    house,
    async (job) => {
      if (job.data === "poison") throw new Error("dead, then");
    },
    { storage: refusing, concurrency: 2 },
  );
  await house.queue.add("t", "poison", { maxAttempts: 1 });
  const good = await house.queue.addBulk(many(5));
  await house.clock.advance(20_000);
  for (const job of good) expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
  expect(errors.map(String).some((text) => text.includes("could not be written"))).toBe(true);
  await worker.stop();
});

describe("reports", () => {
  it("reports of other jobs do not hold up a job that has ended", async () => {
    const house = open();
    const storage = faultyStorage(
      house.storage,
      ({ member }) => (member === "report" ? { kind: "delay", ms: 4 } : undefined),
      { clock: house.clock },
    );
    let quickRuns = 0;
    const { worker } = work(
      house,
      {
        chatty: async (_job, context) => {
          for (let i = 0; i < 500; i++) {
            await context.updateProgress(1);
            await new Promise<void>((resolve) => house.clock.after(2, resolve));
          }
        },
        quick: async (_job, context) => {
          quickRuns += 1;
          await context.log("hi");
        },
      },
      { storage, concurrency: 5, lease: 400 },
    );
    await house.queue.addBulk([1, 2, 3, 4].map((data) => ({ type: "chatty", data })));
    const quick = await house.queue.add("quick", null);
    await house.clock.advance(50);
    expect(await quick.info()).toMatchObject({ state: "completed" });
    expect(quickRuns).toBe(1);
    const stopped = worker.stop({ timeout: 0 });
    await house.clock.advance(10_000);
    await stopped;
  });

  it("a report that is not awaited may fail", async () => {
    const house = open();
    const storage = faultyStorage(house.storage, ({ member }) =>
      member === "report" ? { kind: "fail-before" } : undefined,
    );
    const { worker } = work(
      house,
      async (_job, context) => {
        void context.log("not awaited");
        void context.updateProgress(50);
        return "done";
      },
      { storage },
    );
    expect(await (await house.queue.add("t", null)).result()).toBe("done");
    await worker.stop();
  });

  it("a report keeps its details as they were, though the handler changes the object afterwards", async () => {
    const house = open();
    const { worker } = work(house, async (_job, context) => {
      const details: Record<string, unknown> = { left: 1 };
      const reported = context.updateProgress(50, "half", details);
      details["left"] = 10n;
      await reported;
    });
    const job = await house.queue.add("t", null);
    await job.result();
    expect((await job.info())?.progress).toEqual({ percent: 50, message: "half", details: { left: 1 } });
    await worker.stop();
  });
});

describe("leases that cannot be renewed", () => {
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
    // For a while the storage hears nothing, and the worker does not know: the lease runs out and is won again.
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
});

it("a worker settles only the latest lease of a job, and not the outcome under an older one", async () => {
  const house = open();
  const ends: ((value: string) => void)[] = [];
  const sent: string[][] = [];
  const storage = faultyStorage(house.storage, ({ args }) => {
    const outcomes = (args[0] as { settle?: { id: string }[] } | undefined)?.settle ?? [];
    sent.push(outcomes.map(({ id }) => id));
  });
  const { worker } = work(house, () => new Promise<string>((resolve) => ends.push(resolve)), {
    storage,
    lease: "3s",
    concurrency: 3,
  });
  const job = await house.queue.add("t", null);
  await house.clock.advance(100);
  const heartbeat = house.storage.heartbeat.bind(house.storage);
  house.storage.heartbeat = async (leases) => ({ lost: leases.map(({ id }) => id), cancelled: [] });
  await house.clock.advance(1_000);
  house.storage.heartbeat = heartbeat;
  await house.clock.advance(3_000);
  ends[0]!("old");
  ends[1]!("new");
  await house.clock.advance(100);
  expect((await job.info())?.result).toBe("new");
  for (const ids of sent) expect(new Set(ids).size).toBe(ids.length);
  await worker.stop();
});

describe("batches", () => {
  it("a batch is told of a job that was cancelled before the batch began", async () => {
    const house = open();
    let cancelled = false;
    house.queue.on("started", ({ id }) => {
      if (cancelled) return;
      cancelled = true;
      void house.queue.cancel(id);
    });
    const worker = new Worker<Record<string, { data: number }>>("q", async (jobs) => jobs.map(({ data }) => data), {
      storage: house.storage,
      clock: house.clock,
      batch: { size: 5 },
    });
    const [first, second] = await house.queue.addBulk(many(2));
    await house.clock.advance(10);
    expect(await first!.info()).toMatchObject({ state: "cancelled" });
    expect(await second!.info()).toMatchObject({ state: "completed", result: 1 });
    await worker.stop();
  });

  it("batches of several types keep to the concurrency", async () => {
    const house = open();
    let running = 0;
    let peak = 0;
    const handler = async () => {
      peak = Math.max(peak, ++running);
      await new Promise<void>((resolve) => house.clock.after(10, resolve));
      running -= 1;
    };
    const worker = new Worker<Record<string, { data: number }>>(
      "q",
      { a: () => handler(), b: () => handler(), c: () => handler() },
      { storage: house.storage, clock: house.clock, batch: { size: 10 } },
    );
    await house.queue.addBulk(["a", "b", "c", "a"].map((type, data) => ({ type, data })));
    await house.clock.advance(1_000);
    expect((await house.queue.counts()).completed).toBe(4);
    expect(peak).toBe(1);
    await worker.stop();
  });
});

describe("stopping", () => {
  it("stop() does not wait for a storage that does not answer", async () => {
    for (const silent of ["setup", "claim", "settle"] as const) {
      const house = open();
      const storage = faultyStorage(house.storage, ({ member }) => (member === silent ? { kind: "never" } : undefined));
      const { worker } = work(house, () => new Promise<never>(() => {}), { storage });
      await house.queue.add("t", null);
      await house.clock.advance(100);
      let stopped = false;
      void worker.stop({ timeout: 1_000 }).then(() => (stopped = true));
      await house.clock.advance(10_000);
      expect([silent, stopped]).toEqual([silent, true]);
    }
  });

  it("stop() resolves onIdle(), and a stopped worker cannot be started again", async () => {
    const house = open();
    const { worker } = work(house, async () => {}, { autostart: false });
    const idle = worker.onIdle();
    await worker.stop();
    await idle;
    await expect(worker.start()).rejects.toThrow(/create a new one/);
  });

  it("stop() succeeds though the storage is closed", async () => {
    const house = open();
    const { worker, errors } = work(house, async () => {});
    await Promise.resolve();
    await house.storage.close();
    await house.clock.advance(5_000);
    expect(errors.length).toBeGreaterThan(0);
    const stopped = worker.stop();
    await house.clock.advance(10_000);
    await stopped;
  });
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
  let jump = 0;
  const now = house.clock.now.bind(house.clock);
  house.clock.now = () => now() + jump;
  const end = deferred();
  const blocks = async () => void (jump += 5_000);
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

describe("a back-off that a worker cannot use", () => {
  it.each([
    ["is missing", "other", /does not know the back-off "other".*backoffs/],
    ["returns NaN", "nan", /"nan" returned NaN \(number\), expected milliseconds/],
    ["returns nothing", "nothing", /"nothing" returned undefined/],
    ["returns less than 0", "negative", /"negative" returned -1/],
    ["returns Infinity", "infinity", /"infinity" returned Infinity/],
    ["returns a promise", "promise", /"promise" returned/],
    ["throws", "broken", /"broken" threw an error/],
  ])(
    "a job whose back-off strategy %s is retried by the default back-off, keeps its error, and onError is called",
    async (_, name, message) => {
      const house = open();
      const at: number[] = [];
      const { worker, errors } = work(
        house,
        async () => {
          at.push(house.clock.now());
          throw new Error("the service is away");
        },
        {
          backoffs: {
            nan: () => Number.NaN,
            nothing: () => undefined as unknown as number,
            negative: () => -1,
            infinity: () => Number.POSITIVE_INFINITY,
            promise: (async () => 1) as unknown as () => number,
            broken: () => {
              throw new Error("the strategy is broken");
            },
          },
        },
      );
      const job = await house.queue.add("t", null, { maxAttempts: 3, backoff: { kind: "custom", name } });
      await house.clock.advance(60_000);
      expect(at).toEqual([0, 500, 1_500]);
      expect(await job.info()).toMatchObject({ state: "dead", error: { message: "the service is away" } });
      expect(errors.map((error) => (error as Error).message)).toEqual([
        expect.stringMatching(message),
        expect.stringMatching(message),
      ]);
      await worker.stop();
    },
  );
});
