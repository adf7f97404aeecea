import { describe, expect, it } from "vitest";
import { RateLimitedError, Worker } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { loseLeases, many, open, work } from "./support.ts";

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

it("a RateLimitedError with an invalid delay is refused", () => {
  for (const retry of ["5s", -1, Number.NaN, {}, null]) {
    expect(() => new RateLimitedError(retry as never)).toThrow(/`retry`/);
  }
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
  await loseLeases(house, 1_000);
  await house.clock.advance(3_000);
  ends[0]!("old");
  ends[1]!("new");
  await house.clock.advance(100);
  expect((await job.info())?.result).toBe("new");
  for (const ids of sent) expect(new Set(ids).size).toBe(ids.length);
  await worker.stop();
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
