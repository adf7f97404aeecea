import { expect, it } from "vitest";
import { ConcurrencyLimiter, type ILimiter, type Limiter, RetryableJobError } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { sixMethods, worstWindow } from "../limiter/support.ts";
import { many, open, work } from "./support.ts";

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
  await house.clock.advance(10);
  const putOff = { state: "scheduled", attempt: 0, runAt: new Date(house.clock.wall() - 10 + 1_000) };
  expect(await jobs[0]!.info()).toMatchObject(putOff);
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
  const limiter = sixMethods({
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
  });
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
