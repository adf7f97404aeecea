import { describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  type JobContext,
  JobTimeoutError,
  PermanentJobError,
  RateLimitedError,
  RetryableJobError,
  StaleLeaseError,
} from "../../src/index.ts";
import { sixMethods } from "../limiter/support.ts";
import { deferred, loseLeases, open, work } from "./support.ts";

/** A handler that goes on until its signal is aborted, and then fails with the reason. */
const untilAborted = (_job: unknown, { signal }: JobContext) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });

describe("a worker", () => {
  it("a worker runs an added job, and its result can be awaited", async () => {
    const house = open();
    const { worker, errors } = work(house, async (job) => ({ twice: job.data.n * 2 }));
    const job = await house.queue.add("double", { n: 21 });
    expect(await job.result()).toEqual({ twice: 42 });
    expect(await job.info()).toMatchObject({ state: "completed", attempt: 1, result: { twice: 42 } });
    await worker.stop();
    expect(errors).toEqual([]);
    expect(house.clock.timers).toBe(0);
  });

  it("a worker claims only types that it has a handler for, whatever their names", async () => {
    const house = open();
    const ran: string[] = [];
    const { worker } = work(house, { known: async (job) => void ran.push(job.type) });
    const strange = ["constructor", "__proto__", "toString", "../../x", "hasOwnProperty"];
    for (const type of [...strange, "known"]) await house.queue.add(type, {});
    await worker.onIdle();
    expect(ran).toEqual(["known"]);
    expect((await house.queue.counts()).waiting).toBe(strange.length);
    await worker.stop();
  });

  it("a worker can handle a type of any name", async () => {
    const house = open();
    const { worker } = work(house, { ["__proto__"]: async () => "a name like any other", constructor: async () => 1 });
    const job = await house.queue.add("__proto__", {});
    expect(await job.result()).toBe("a name like any other");
    await worker.stop();
  });

  it("a worker never runs more than `concurrency` at once, and fills a slot as soon as it is free", async () => {
    const house = open();
    const ends: (() => void)[] = [];
    let running = 0;
    let peak = 0;
    const { worker } = work(
      house,
      async () => {
        peak = Math.max(peak, ++running);
        await new Promise<void>((resolve) => ends.push(resolve));
        running -= 1;
      },
      { concurrency: 3 },
    );
    await house.queue.addBulk(Array.from({ length: 10 }, () => ({ type: "t", data: null })));
    await house.clock.advance(0);
    expect(running).toBe(3);
    for (let done = 0; done < 10; done++) {
      ends.shift()!();
      await house.clock.advance(0);
      expect(running).toBe(Math.min(3, 9 - done));
    }
    expect(peak).toBe(3);
    await worker.onIdle();
    await worker.stop();
  });

  it("a worker is idle when all jobs have ended, and not before", async () => {
    const house = open();
    const { worker } = work(house, async () => {});
    await worker.onIdle();
    const job = await house.queue.add("t", null);
    await worker.onIdle();
    expect(await job.info()).toMatchObject({ state: "completed" });
    await house.queue.add("t", null, { delay: 1_000 });
    let idle = false;
    void worker.onIdle().then(() => (idle = true));
    await house.clock.advance(999);
    expect(idle).toBe(false);
    await house.clock.advance(1);
    expect(idle).toBe(true);
    await worker.stop();
  });

  it("a worker starts a delayed job at its instant, by one timer", async () => {
    const house = open();
    const at: number[] = [];
    const { worker } = work(house, async () => void at.push(house.clock.now()), { lease: "10d" });
    await house.queue.add("t", null, { delay: "90s" });
    await house.clock.advance(89_999);
    expect(at).toEqual([]);
    await house.clock.advance(1);
    expect(at).toEqual([90_000]);
    await worker.stop();
  });
});

describe("retries", () => {
  it("a failed job is retried with full jitter until its attempts are spent, then it is dead with its history", async () => {
    const house = open();
    const at: number[] = [];
    const { worker } = work(house, async () => {
      at.push(house.clock.now());
      throw new Error(`number ${at.length}`);
    });
    const job = await house.queue.add("t", null, { maxAttempts: 3 });
    await house.clock.advance(60_000);
    // Half of 1 s, then half of 2 s: the random number is 0.5.
    expect(at).toEqual([0, 500, 1_500]);
    await expect(job.result()).rejects.toThrow("number 3");
    const { attempts } = await job.history();
    expect(attempts.map(({ attempt, error, worker: by }) => [attempt, error.message, by])).toEqual([
      [1, "number 1", worker.id],
      [2, "number 2", worker.id],
      [3, "number 3", worker.id],
    ]);
    expect((await house.queue.deadLetters()).jobs.map(({ id }) => id)).toEqual([job.id]);
    await worker.stop();
  });

  it.each([
    ["fixed", { kind: "fixed", delay: "7s" } as const, [0, 7_000, 14_000]],
    ["custom", { kind: "custom", name: "linear" } as const, [0, 100, 300]],
    ["a custom strategy that the worker does not have", { kind: "custom", name: "other" } as const, [0, 500, 1_500]],
  ])("a retry waits as its back-off says: %s", async (_, backoff, expected) => {
    const house = open();
    const at: number[] = [];
    const { worker } = work(
      house,
      async () => {
        at.push(house.clock.now());
        throw new Error("no");
      },
      { backoffs: { linear: (attempt) => attempt * 100 } },
    );
    await house.queue.add("t", null, { maxAttempts: 3, backoff });
    await house.clock.advance(60_000);
    expect(at).toEqual(expected);
    await worker.stop();
  });

  it("a RetryableJobError retries the job at its date, or when its limiter has a start available", async () => {
    const house = open();
    const at: number[] = [];
    const { worker } = work(house, {
      dated: async () => {
        at.push(house.clock.now());
        throw new RetryableJobError("later", new Date(house.clock.wall() + 12_345));
      },
    });
    await house.queue.add("dated", null, { maxAttempts: 2 });
    await house.clock.advance(60_000);
    expect(at).toEqual([0, 12_345]);
    await worker.stop();

    const other = open();
    const starts: number[] = [];
    const limiter = sixMethods({ getNextAvailableTime: async () => new Date(other.clock.wall() + 30_000) });
    const second = work(
      other,
      async () => {
        starts.push(other.clock.now());
        throw new RetryableJobError("when a start is available");
      },
      { limiter },
    );
    await other.queue.add("t", null, { maxAttempts: 2 });
    await other.clock.advance(60_000);
    expect(starts).toEqual([0, 30_000]);
    await second.worker.stop();
  });

  it("a PermanentJobError ends the job at once", async () => {
    const house = open();
    const { worker } = work(house, async () => {
      throw new PermanentJobError("no such address");
    });
    const job = await house.queue.add("t", null);
    await expect(job.result()).rejects.toThrow(PermanentJobError);
    expect(await job.info()).toMatchObject({ state: "dead", attempt: 1 });
    await worker.stop();
  });

  it("secrets in an error are not stored", async () => {
    const house = open();
    const { worker } = work(house, async () => {
      throw new PermanentJobError("connect postgres://user:hunter2@db:5432/x failed, bearer abcdefgh12345678");
    });
    const job = await house.queue.add("t", null);
    await expect(job.result()).rejects.toThrow(/postgres:\/\/\*\*\*@db/);
    const text = JSON.stringify([await job.info(), await job.history()]);
    expect(text).not.toMatch(/hunter2|abcdefgh12345678/);
    await worker.stop();
  });

  it("a job whose result cannot be kept is completed without result, and not run again", async () => {
    const house = open();
    let runs = 0;
    const { worker } = work(house, async () => {
      runs += 1;
      return 10n;
    });
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    expect(await job.result()).toBeUndefined();
    expect(await job.info()).toMatchObject({ state: "completed" });
    expect(runs).toBe(1);
    await worker.stop();
  });
});

describe("a RateLimitedError", () => {
  it("a RateLimitedError holds the limit for all workers and spends no attempt", async () => {
    const house = open();
    const starts: number[] = [];
    let first = true;
    const handler = async () => {
      starts.push(house.clock.now());
      if (!first) return;
      first = false;
      throw new RateLimitedError(new Response(null, { status: 429, headers: { "retry-after": "30" } }));
    };
    const options = { limiter: { max: 10, duration: 1_000 } };
    const one = work(house, handler, options);
    const two = work(house, handler, options);
    const [job] = await house.queue.addBulk([{ type: "t", data: 1 }]);
    await house.clock.advance(10);
    await house.queue.add("t", 2);
    await house.clock.advance(29_980);
    expect(starts).toEqual([0]);
    await house.clock.advance(100);
    expect(starts).toHaveLength(3);
    expect(starts[1]).toBeGreaterThanOrEqual(30_000);
    expect(await job!.info()).toMatchObject({ state: "completed", attempt: 1 });
    await one.worker.stop();
    await two.worker.stop();
  });

  it("a RateLimitedError counts as a failed attempt after `maxHolds`", async () => {
    const house = open();
    const { worker } = work(
      house,
      async () => {
        throw new RateLimitedError(1_000);
      },
      { maxHolds: 3 },
    );
    const job = await house.queue.add("t", null, { maxAttempts: 1 });
    await house.clock.advance(10_000);
    expect(await job.info()).toMatchObject({ state: "dead", attempt: 1 });
    await worker.stop();
  });

  it("a RateLimitedError holds the worker's own limiter", async () => {
    const house = open();
    const starts: number[] = [];
    const { worker } = work(
      house,
      async () => {
        starts.push(house.clock.now());
        if (starts.length === 1) throw new RateLimitedError(5_000);
      },
      { limiter: { max: 100, duration: 1_000, scope: "worker" } },
    );
    await house.queue.add("t", 1);
    await house.clock.advance(1);
    await house.queue.add("t", 2);
    await house.clock.advance(4_000);
    expect(starts).toEqual([0]);
    await house.clock.advance(2_000);
    expect(starts).toHaveLength(3);
    await worker.stop();
  });
});

describe("stopping a job", () => {
  it("cancel() ends a waiting job at once and a running one through its signal", async () => {
    const house = open();
    const { worker } = work(house, untilAborted);
    const running = await house.queue.add("t", null);
    const waiting = await house.queue.add("t", null);
    await house.clock.advance(0);
    expect(await waiting.cancel()).toBe(true);
    expect(await running.cancel()).toBe(true);
    await expect(running.result()).rejects.toThrow(AbortSignalJobError);
    await expect(waiting.result()).rejects.toThrow(AbortSignalJobError);
    expect(await running.info()).toMatchObject({ state: "cancelled" });
    expect(await running.cancel()).toBe(false);
    await worker.stop();
  });

  it("a job that exceeds its timeout is aborted and retried", async () => {
    const house = open();
    const reasons: unknown[] = [];
    const { worker } = work(house, (job, context) => {
      context.signal.addEventListener("abort", () => reasons.push(context.signal.reason));
      return untilAborted(job, context);
    });
    const job = await house.queue.add("t", null, {
      timeout: "5s",
      maxAttempts: 2,
      backoff: { kind: "fixed", delay: 0 },
    });
    await house.clock.advance(4_999);
    expect(reasons).toEqual([]);
    await house.clock.advance(1);
    expect(reasons).toEqual([expect.any(JobTimeoutError)]);
    await house.clock.advance(5_000);
    await expect(job.result()).rejects.toThrow(JobTimeoutError);
    expect(await job.info()).toMatchObject({ state: "dead", attempt: 2 });
    await worker.stop();
  });

  it("a worker waits for a handler that ignores its signal as long as a lease, so that two runs do not overlap", async () => {
    const house = open();
    let runs = 0;
    const { worker } = work(
      house,
      () => {
        runs += 1;
        return new Promise<never>(() => {});
      },
      { lease: "3s" },
    );
    await house.queue.add("t", null, { timeout: "1s", maxAttempts: 2, backoff: { kind: "fixed", delay: 0 } });
    await house.clock.advance(3_900);
    expect(runs).toBe(1);
    await house.clock.advance(200);
    expect(runs).toBe(2);
    const stopped = worker.stop({ timeout: 0 });
    await house.clock.advance(500);
    await stopped;
  });

  it("a job neither starts nor continues after its deadline", async () => {
    const house = open();
    const late = await house.queue.add("t", null, { deadline: "1s" });
    await house.clock.advance(1_000);
    const { worker } = work(house, untilAborted);
    const running = await house.queue.add("t", null, { deadline: "2s" });
    await house.clock.advance(1_999);
    expect(await late.info()).toMatchObject({ state: "dead", attempt: 0 });
    expect(await running.info()).toMatchObject({ state: "active" });
    await house.clock.advance(1);
    const error = { name: "JobTimeoutError", code: "SLUICE_TIMEOUT", message: "the deadline of the job has passed" };
    expect(await running.info()).toMatchObject({ state: "dead", error });
    await worker.stop();
  });
});

describe("leases", () => {
  it("a lease is renewed while its job runs, and the job returns when its worker is gone", async () => {
    const house = open();
    const first = work(house, untilAborted, { lease: "3s" });
    const job = await house.queue.add("t", null, { maxAttempts: 5 });
    await house.clock.advance(60_000);
    expect(await job.info()).toMatchObject({ state: "active", attempt: 1 });
    expect(first.errors).toEqual([]);
    await first.worker.stop({ timeout: 0 });
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 0 });
  });

  it("a lease that could not be renewed aborts its handler and refuses what it writes", async () => {
    const house = open();
    const signals: AbortSignal[] = [];
    const written: unknown[] = [];
    const reach = { ok: true };
    const unreachable = new Proxy(house.storage, {
      get(target, key) {
        const member: unknown = Reflect.get(target, key);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) =>
          reach.ok || key === "subscribe"
            ? (member as (...args: unknown[]) => unknown).apply(target, args)
            : Promise.reject(new Error("out of reach"));
      },
    });
    const ended = deferred<string>();
    const cut = work(
      house,
      async (_job, context) => {
        signals.push(context.signal);
        const value = await ended.promise;
        await context.updateProgress(50).catch((error: unknown) => written.push(error));
        return value;
      },
      { lease: "3s", storage: unreachable },
    );
    const job = await house.queue.add("t", null);
    await house.clock.advance(500);
    reach.ok = false;
    await house.clock.advance(3_000);
    expect(signals[0]!.aborted).toBe(true);
    expect(signals[0]!.reason).toBeInstanceOf(StaleLeaseError);

    const other = work(house, async () => "second", { lease: "3s" });
    await house.clock.advance(3_000);
    expect(await job.result()).toBe("second");
    reach.ok = true;
    ended.resolve("first");
    await house.clock.advance(5_000);
    expect(written).toEqual([expect.any(StaleLeaseError)]);
    expect(await job.info()).toMatchObject({ state: "completed", result: "second", attempt: 2 });
    expect(cut.errors.length).toBeGreaterThan(0);
    await other.worker.stop();
    await cut.worker.stop();
  });

  it("a worker may lose a job and claim it again while the old handler still runs", async () => {
    const house = open();
    const ends: ((value: string) => void)[] = [];
    const { worker } = work(house, () => new Promise<string>((resolve) => ends.push(resolve)), {
      lease: "3s",
      concurrency: 2,
    });
    const job = await house.queue.add("t", null);
    await house.clock.advance(100);
    await loseLeases(house, 1_000);
    await house.clock.advance(3_000);
    expect(ends).toHaveLength(2);
    ends[0]!("old");
    await house.clock.advance(2_000);
    expect(await job.info()).toMatchObject({ state: "active", attempt: 2 });
    await house.clock.advance(10_000);
    expect(await job.info()).toMatchObject({ state: "active", attempt: 2 });
    ends[1]!("new");
    expect(await job.result()).toBe("new");
    await worker.stop();
  });
});

describe("shutdown", () => {
  it("stop() lets running jobs end, claims nothing more, and gives back the rest without spending an attempt", async () => {
    const house = open();
    const end = deferred();
    const { worker } = work(house, { short: () => end.promise, long: untilAborted }, { concurrency: 2 });
    const short = await house.queue.add("short", null);
    const long = await house.queue.add("long", null);
    const next = await house.queue.add("short", null);
    await house.clock.advance(0);
    const stopped = worker.stop({ timeout: "5s" });
    end.resolve();
    await house.clock.advance(4_999);
    expect(await short.info()).toMatchObject({ state: "completed" });
    expect(await next.info()).toMatchObject({ state: "waiting", attempt: 0 });
    expect(await long.info()).toMatchObject({ state: "active" });
    await house.clock.advance(1);
    await stopped;
    expect(await long.info()).toMatchObject({ state: "waiting", attempt: 0 });
    expect(house.clock.timers).toBe(0);
  });

  it("stop() does not wait for ever for a handler that ignores its signal", async () => {
    const house = open();
    const { worker } = work(house, () => new Promise<never>(() => {}));
    const job = await house.queue.add("t", null);
    await house.clock.advance(0);
    const stopped = worker.stop({ timeout: "1s" });
    await house.clock.advance(1_500);
    await stopped;
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 0 });
  });

  it("a second stop() with a shorter timeout shortens the first", async () => {
    const house = open();
    const { worker } = work(house, untilAborted);
    await house.queue.add("t", null);
    await house.clock.advance(0);
    const slow = worker.stop({ timeout: "1h" });
    await worker.stop({ timeout: 0 });
    await slow;
    expect(house.clock.now()).toBe(0);
  });

  it("stop() gives back the jobs of a late claim, and their starts under the limit", async () => {
    const house = open();
    const claim = house.storage.claim.bind(house.storage);
    const answer = deferred();
    house.storage.claim = async (request) => {
      const claimed = await claim(request);
      await answer.promise;
      return claimed;
    };
    const job = await house.queue.add("t", null);
    const { worker } = work(house, async () => {}, { limiter: { max: 1, duration: "1h" } });
    await house.clock.advance(0);
    const stopped = worker.stop();
    answer.resolve();
    await stopped;
    expect(await job.info()).toMatchObject({ state: "waiting", attempt: 0 });
    house.storage.claim = claim;
    const other = work(house, async () => "ran", { limiter: { max: 1, duration: "1h" } });
    expect(await job.result()).toBe("ran");
    await other.worker.stop();
  });

  it("a worker stops at the end of its `await using` scope", async () => {
    const house = open();
    {
      await using worker = work(house, async () => 1).worker;
      await (await house.queue.add("t", null)).result();
      expect(worker.running).toBe(0);
    }
    expect(house.clock.timers).toBe(0);
  });
});
