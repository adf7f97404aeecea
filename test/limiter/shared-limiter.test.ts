import { describe, expect, expectTypeOf, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  holdFromHeaders,
  limit,
  type LimitDefinitions,
  type Limiter,
  LimitNotFoundError,
  type LimitStorage,
  Limits,
  MemoryStorage,
  OptionsError,
  SharedLimiter,
  type SharedLimiterOptions,
  StorageError,
  type Subscriber,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { deferred, granted, refused, settled } from "./support.ts";

const NOW = Date.UTC(2030, 0, 1);

/** A storage with these limits that records its calls, and whose answers may be replaced. */
async function scene(definitions: LimitDefinitions) {
  const clock = new FakeClock(NOW);
  const memory = new MemoryStorage({ clock });
  const limits = new Limits(memory, { clock });
  await limits.define(definitions);
  const diary: string[] = [];
  const answers: Partial<LimitStorage> = {};
  const inner = memory.limits;
  const noted: LimitStorage = {
    define: (...args) => inner.define(...args),
    remove: (...args) => inner.remove(...args),
    change: (...args) => inner.change(...args),
    history: (...args) => inner.history(...args),
    read: (...args) => inner.read(...args),
    take: (request) => {
      diary.push(`take ${request.weight}`);
      return (answers.take ?? inner.take.bind(inner))(request);
    },
    give: (token, given) => {
      diary.push(typeof given === "string" ? given : `used ${given.used}`);
      return (answers.give ?? inner.give.bind(inner))(token, given);
    },
    renew: (tokens, ttlMs) => {
      diary.push(`renew ${tokens.length} for ${ttlMs}`);
      return (answers.renew ?? inner.renew.bind(inner))(tokens, ttlMs);
    },
  };
  const listening = new Set<Subscriber>();
  const storage = {
    limits: noted,
    confirm: (...args: Parameters<MemoryStorage["confirm"]>) => memory.confirm(...args),
    subscribe: (subscriber: Subscriber) => {
      const unsubscribe = memory.subscribe(subscriber);
      listening.add(subscriber);
      return () => {
        listening.delete(subscriber);
        unsubscribe();
      };
    },
  };
  return {
    clock,
    memory,
    limits,
    storage,
    diary,
    answers,
    /** The listeners. */
    listening,
    limiter: (name: string, options: SharedLimiterOptions = {}) =>
      new SharedLimiter(storage, name, { clock, ...options }),
    use: async (name: string, group?: string) => (await limits.get(name, { group }))!,
  };
}

describe("SharedLimiter", () => {
  it("a SharedLimiter is a limiter like any other", () => {
    expectTypeOf<SharedLimiter>().toExtend<Limiter>();
    expect(() => new CompositeLimiter([new SharedLimiter(new MemoryStorage(), "a")])).not.toThrow();
  });

  it("a SharedLimiter charges the limit that jobs charge, and is refused when that is full", async () => {
    const { clock, limiter, use } = await scene({ mail: { max: 2, per: "1s", types: ["send"] } });
    const mail = limiter("mail");
    expect([mail.name, mail.group]).toEqual(["mail", undefined]);
    granted(await mail.tryAcquire());
    await clock.advance(100);
    granted(await limiter("mail").tryAcquire());
    expect(await use("mail")).toMatchObject({ used: 2, free: 0 });
    expect(refused(await mail.tryAcquire())).toEqual({
      granted: false,
      blockedBy: "mail",
      retryInMs: 900,
      never: false,
    });
    await clock.advance(900);
    granted(await mail.tryAcquire());
    expect(await use("mail")).toMatchObject({ used: 2 });
  });

  it("a SharedLimiter waits in line, in order, until the limit grants", async () => {
    const { clock, limiter } = await scene({ mail: { max: 1, per: "1s", types: ["send"] } });
    const mail = limiter("mail");
    const starts: [string, number][] = [];
    const runs = ["a", "b", "c"].map(async (who) => {
      await mail.acquire();
      starts.push([who, clock.now()]);
    });
    await clock.advance(5_000);
    await Promise.all(runs);
    expect(starts).toEqual([
      ["a", 0],
      ["b", 1_000],
      ["c", 2_000],
    ]);
  });

  it("a SharedLimiter counts groups apart, and those without one together", async () => {
    const { limiter, use } = await scene({
      tenant: { max: 1, per: "1s", by: "group", overrides: { acme: { max: 2 } } },
    });
    const acme = limiter("tenant", { group: "acme" });
    expect(acme.group).toBe("acme");
    granted(await acme.tryAcquire());
    granted(await acme.tryAcquire());
    expect(refused(await acme.tryAcquire()).blockedBy).toBe("tenant[acme]");
    granted(await limiter("tenant", { group: "other" }).tryAcquire());
    granted(await limiter("tenant").tryAcquire());
    expect(refused(await limiter("tenant").tryAcquire()).blockedBy).toBe("tenant");
    expect(await use("tenant", "acme")).toMatchObject({ used: 2, max: 2 });
  });

  describe("weights", () => {
    const tokens = { max: 100, per: "1m", weight: "tokens", estimate: 30, types: ["chat"] } as const;

    it("a SharedLimiter counts the estimate where no weight is given, and the weight where one is", async () => {
      const { limiter, use, diary } = await scene({ tokens });
      granted(await limiter("tokens").tryAcquire());
      expect(await use("tokens")).toMatchObject({ used: 30 });
      await limiter("tokens").acquire();
      granted(await limiter("tokens").tryAcquire({ weight: 1 }));
      expect(await use("tokens")).toMatchObject({ used: 61 });
      expect(diary).toEqual(["take null", "take null", "take 1"]);
    });

    it("a SharedLimiter counts the estimate in wrappers, in composites, and where both are nested", async () => {
      const { limiter, use, diary } = await scene({ tokens });
      const shared = limiter("tokens");
      await limit(() => {}, shared)();
      await limit((n: number) => n, shared, { weight: (n) => n })(5);
      await new CompositeLimiter([new ConcurrencyLimiter(9), shared]).acquire();
      await limit(
        limit(() => {}, shared),
        new ConcurrencyLimiter(9),
        { weight: () => 4 },
      )();
      expect(diary).toEqual(["take null", "take 5", "take null", "take null"]);
      expect(await use("tokens")).toMatchObject({ used: 95 });
      const concurrent = new ConcurrencyLimiter(9);
      await limit(
        limit(() => {}, shared, { weight: () => 5 }),
        concurrent,
      )();
      expect(await use("tokens")).toMatchObject({ used: 100 });
    });

    it("settle() replaces the weight that was reserved", async () => {
      const { limiter, use } = await scene({ tokens });
      const shared = limiter("tokens");
      const permit = await shared.acquire({ weight: 80 });
      await permit.settle(10);
      expect(await use("tokens")).toMatchObject({ used: 10, free: 90 });
      await permit.settle(25);
      await permit.release();
      expect(await use("tokens")).toMatchObject({ used: 25 });
      const answer = async (prompt: string) => prompt.length;
      await limit(answer, shared, { weight: () => 50, settle: (length) => length })("12345");
      expect(await use("tokens")).toMatchObject({ used: 30 });
    });

    it("a SharedLimiter refuses for good what can never fit, until the rule is changed", async () => {
      const { limiter, limits } = await scene({ tokens });
      const shared = limiter("tokens");
      expect(refused(await shared.tryAcquire({ weight: 101 }))).toMatchObject({ never: true, retryInMs: null });
      const error = await shared.acquire({ weight: 101 }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(OptionsError);
      expect((error as OptionsError).message).toBe(
        "tokens: expected `weight` to be at most 100, the most this limiter can ever grant, got 101 (number)",
      );
      await limits.change("tokens", { max: 200 });
      granted(await shared.tryAcquire({ weight: 101 }));
    });

    it("weights have the same bounds as everywhere", async () => {
      const { limiter } = await scene({ tokens });
      await expect(limiter("tokens").acquire({ weight: 0 })).rejects.toThrow("an integer from 1");
    });
  });

  describe("concurrency", () => {
    const gpu = { concurrency: 1, types: ["infer"] } as const;

    it("a slot is in use until it is released, once, whatever is called how often", async () => {
      const { limiter, use, diary } = await scene({ gpu });
      const shared = limiter("gpu");
      const permit = await shared.acquire();
      // Unless it is renewed, which it is while its process lives.
      expect(refused(await shared.tryAcquire())).toMatchObject({ retryInMs: 30_000, never: false });
      expect(await shared.getNextAvailableTime()).toEqual(new Date(NOW));
      await permit.release();
      await permit.release();
      await permit.cancel();
      expect(diary.filter((entry) => entry !== "take null")).toEqual(["released"]);
      expect(await use("gpu")).toMatchObject({ held: 0 });
      {
        await using again = await shared.acquire();
        expect(again.granted).toBe(true);
        expect(await use("gpu")).toMatchObject({ held: 1 });
      }
      expect(await use("gpu")).toMatchObject({ held: 0 });
    });

    it("a slot is available again when the permit is cancelled", async () => {
      const { limiter, use } = await scene({ both: { max: 5, per: "1m", concurrency: 2, all: true } });
      const permit = await limiter("both").acquire();
      expect(await use("both")).toMatchObject({ used: 1, held: 1 });
      await permit.cancel();
      expect(await use("both")).toMatchObject({ used: 0, held: 0 });
    });

    it("a slot that is released in this process wakes a waiter at once", async () => {
      const { limiter, clock } = await scene({ gpu });
      const first = await limiter("gpu").acquire();
      const next = limiter("gpu").acquire();
      await clock.advance(0);
      expect(await settled(next)).toBe(false);
      await first.release();
      await clock.advance(0);
      expect(await settled(next)).toBe(true);
      expect(clock.now()).toBe(0);
    });

    it("a slot that is released by jobs wakes a waiter", async () => {
      const { limiter, clock, memory } = await scene({ gpu });
      const request = { queue: "q", worker: "w", max: 1, types: null, leaseMs: 60_000, limits: [], settle: [] };
      await memory.add([
        {
          id: "1",
          queue: "q",
          type: "infer",
          data: "null",
          due: { inMs: 0 },
          priority: 0,
          group: null,
          weights: null,
          maxAttempts: 1,
          backoff: { kind: "fixed", delay: 0 },
          timeout: null,
          deadline: null,
          keepFor: null,
          idempotency: null,
        },
      ]);
      const { jobs } = await memory.claim(request);
      const next = limiter("gpu").acquire();
      await clock.advance(300);
      expect(await settled(next)).toBe(false);
      await memory.settle([{ id: "1", token: jobs[0]!.token, to: "completed", result: null }]);
      await clock.advance(0);
      expect(await settled(next)).toBe(true);
      expect(clock.now()).toBe(300);
    });

    it("a full concurrency is checked once a second, and listened to only while there are waiters", async () => {
      const { limiter, clock, diary, listening } = await scene({ gpu });
      const shared = limiter("gpu");
      const held = await shared.acquire();
      expect(listening.size).toBe(0);
      const abort = new AbortController();
      const waiting = shared.acquire({ signal: abort.signal });
      waiting.catch(() => {});
      await clock.advance(0);
      expect(listening.size).toBe(1);
      diary.length = 0;
      await clock.advance(9_500);
      const looks = diary.filter((entry) => entry === "take null").length;
      expect(looks).toBe(9);
      abort.abort(new Error("enough"));
      await expect(waiting).rejects.toThrow("enough");
      await held.release();
      await clock.advance(1_000);
      expect(listening.size).toBe(0);
      expect(clock.timers).toBe(0);
    });

    it("a full concurrency is not checked for every wake-up that concerns another limit", async () => {
      const { limiter, clock, diary, limits } = await scene({ gpu, other: { max: 1, per: "1s", all: true } });
      const held = await limiter("gpu").acquire();
      const waiting = limiter("gpu").acquire();
      await clock.advance(10);
      diary.length = 0;
      for (let i = 0; i < 1_000; i++) {
        await limits.change("other", { max: 2 + (i % 2) });
        await clock.advance(1);
      }
      const looks = diary.filter((entry) => entry === "take null").length;
      expect(looks).toBeGreaterThan(5);
      expect(looks).toBeLessThan(40);
      await held.release();
      await clock.advance(0);
      await (await waiting).release();
    });

    it("a slot that is released without a wake-up is found by the check", async () => {
      const { limiter, clock, memory, storage } = await scene({ gpu });
      const token = await memory.limits.take({ name: "gpu", group: null, weight: null, ttlMs: 60_000 });
      storage.subscribe = () => () => {};
      const next = limiter("gpu").acquire();
      await clock.advance(500);
      await memory.limits.give((token as { token: string }).token, "released");
      await clock.advance(499);
      expect(await settled(next)).toBe(false);
      await clock.advance(1);
      expect(await settled(next)).toBe(true);
    });

    it("a slot that is released between a refusal and listening is not missed", async () => {
      const { limiter, clock, memory, answers } = await scene({ gpu });
      const taken = await memory.limits.take({ name: "gpu", group: null, weight: null, ttlMs: 60_000 });
      answers.take = async (request) => {
        const answer = await memory.limits.take(request);
        delete answers.take;
        await memory.limits.give((taken as { token: string }).token, "released");
        return answer;
      };
      const next = limiter("gpu").acquire();
      await clock.advance(0);
      expect(await settled(next)).toBe(true);
    });
  });

  describe("permits that are held", () => {
    const gpu = { concurrency: 2, types: ["infer"] } as const;

    it("permits renew themselves, all with one timer, while any holds slots", async () => {
      const { limiter, clock, diary, use } = await scene({ gpu });
      const shared = limiter("gpu");
      const [a, b] = [await shared.acquire(), await shared.acquire()];
      expect(clock.timers).toBe(1);
      diary.length = 0;
      await clock.advance(100_000);
      expect(diary).toEqual(Array.from({ length: 10 }, () => "renew 2 for 30000"));
      expect(await use("gpu")).toMatchObject({ held: 2 });
      await a.release();
      await clock.advance(10_000);
      expect(diary.at(-1)).toBe("renew 1 for 30000");
      await b.release();
      expect(clock.timers).toBe(0);
      await clock.advance(60_000);
      expect(diary.at(-1)).toBe("released");
    });

    it("permits expire when they are not renewed", async () => {
      const { limiter, clock, answers, use } = await scene({ gpu });
      answers.renew = () => Promise.reject(new StorageError("gone"));
      const shared = limiter("gpu", { ttl: "3s" });
      const permit = await shared.acquire();
      await clock.advance(2_900);
      expect(await use("gpu")).toMatchObject({ held: 1 });
      await clock.advance(200);
      expect(await use("gpu")).toMatchObject({ held: 0 });
      // It is given up, and giving it back changes nothing.
      await clock.advance(3_000);
      expect(clock.timers).toBe(0);
      await permit.release();
      expect(await use("gpu")).toMatchObject({ held: 0 });
    });

    it("permits that the storage reports as lost are not renewed", async () => {
      const { limiter, clock, answers, diary } = await scene({ gpu });
      const shared = limiter("gpu", { ttl: "3s" });
      await shared.acquire();
      await shared.acquire();
      answers.renew = async (tokens) => tokens.slice(0, 1);
      await clock.advance(1_000);
      await clock.advance(1_000);
      expect(diary.filter((entry) => entry.startsWith("renew"))).toEqual(["renew 2 for 3000", "renew 1 for 3000"]);
      expect(clock.timers).toBe(0);
    });

    it("permits go on to be renewed, with one timer, when one is taken while others are being renewed", async () => {
      const { limiter, clock, answers, diary, memory } = await scene({ gpu });
      const shared = limiter("gpu", { ttl: "3s" });
      const first = await shared.acquire();
      const answer = deferred();
      answers.renew = async (tokens, ttl) => {
        await answer.promise;
        return memory.limits.renew(tokens, ttl);
      };
      await clock.advance(1_000);
      await first.release();
      const second = await shared.acquire();
      answer.resolve();
      await clock.advance(0);
      expect(clock.timers).toBe(1);
      diary.length = 0;
      await clock.advance(1_000);
      expect(diary).toEqual(["renew 1 for 3000"]);
      await second.release();
      expect(clock.timers).toBe(0);
    });

    it("permits cost nothing where only starts are counted", async () => {
      const { limiter, clock, diary } = await scene({ mail: { max: 5, per: "1s", all: true } });
      const permit = await limiter("mail").acquire();
      expect(clock.timers).toBe(0);
      await permit.release();
      expect(diary).toEqual(["take null"]);
    });
  });

  describe("grants", () => {
    it("grants that come too late are returned, and requested again", async () => {
      const { limiter, clock, answers, memory, use } = await scene({
        both: { max: 10, per: "1m", concurrency: 2, all: true },
      });
      const shared = limiter("both");
      const slow = deferred();
      answers.take = async (request) => {
        const answer = await memory.limits.take(request);
        delete answers.take;
        await slow.promise;
        return answer;
      };
      const permit = shared.acquire();
      await clock.advance(2_001);
      slow.resolve();
      await clock.advance(0);
      await permit;
      expect(await use("both")).toMatchObject({ used: 1, held: 1 });
      await (await permit).release();
      await clock.advance(1_000);
      expect(clock.timers).toBe(0);
    });

    it("grants that come after the request has timed out are returned", async () => {
      const { limiter, clock, answers, memory, use } = await scene({
        both: { max: 10, per: "1h", concurrency: 2, all: true },
      });
      const slow = deferred();
      answers.take = async (request) => {
        const answer = await memory.limits.take(request);
        await slow.promise;
        return answer;
      };
      const permit = limiter("both", { ttl: "10m" }).acquire();
      permit.catch(() => {});
      await clock.advance(30_000);
      await expect(permit).rejects.toThrow('the storage of "both" has not answered for 30 s');
      expect(await use("both")).toMatchObject({ used: 1, held: 1 });
      slow.resolve();
      await clock.advance(0);
      expect(await use("both")).toMatchObject({ used: 0, held: 0 });
    });
  });

  describe("in a composite", () => {
    it("a composite of shared limiters charges all limits or none", async () => {
      const { limiter, use } = await scene({ a: { max: 5, per: "1m", all: true }, b: { concurrency: 1, all: true } });
      const both = new CompositeLimiter([limiter("a"), limiter("b")]);
      const permit = granted(await both.tryAcquire());
      expect(refused(await both.tryAcquire())).toMatchObject({ blockedBy: "b", never: false });
      expect(await use("a")).toMatchObject({ used: 1 });
      await permit.release();
      expect([(await use("a")).used, (await use("b")).held]).toEqual([1, 0]);
    });

    it("a SharedLimiter in a composite is one limit, however often it is contained", async () => {
      const { limiter, use } = await scene({ a: { max: 5, per: "1m", all: true } });
      granted(await new CompositeLimiter([limiter("a"), limiter("a")]).tryAcquire({ weight: 2 }));
      expect(await use("a")).toMatchObject({ used: 2 });
    });
  });

  describe("the six methods", () => {
    it("canProceed() says whether one more would be granted", async () => {
      const { limiter, clock } = await scene({ mail: { max: 1, per: "1s", all: true } });
      const mail = limiter("mail");
      expect(await mail.canProceed()).toBe(true);
      expect(await mail.getNextAvailableTime()).toEqual(new Date(NOW));
      await mail.recordJobStart();
      expect(await mail.canProceed()).toBe(false);
      expect(await mail.getNextAvailableTime()).toEqual(new Date(NOW + 1_000));
      await clock.advance(1_000);
      expect(await mail.canProceed()).toBe(true);
    });

    it("canProceed() checks the estimate of the limit", async () => {
      const { limiter } = await scene({
        tokens: { max: 10, per: "1s", weight: "t", estimate: 6, all: true },
        memory: { concurrency: 10, weight: "gb", estimate: 6, all: true },
      });
      for (const name of ["tokens", "memory"]) {
        const shared = limiter(name);
        expect(await shared.canProceed()).toBe(true);
        await shared.acquire({ weight: 5 });
        expect(await shared.canProceed()).toBe(false);
      }
    });

    it("canProceed() does not pass waiters in line, however light the start is", async () => {
      const { limiter, clock } = await scene({ mail: { max: 10, per: "1s", all: true } });
      const mail = limiter("mail");
      await mail.acquire({ weight: 5 });
      expect(await mail.canProceed()).toBe(true);
      const heavy = mail.acquire({ weight: 9 });
      await clock.advance(10);
      expect(await mail.canProceed()).toBe(false);
      await clock.advance(1_000);
      await heavy;
      expect(await mail.canProceed()).toBe(true);
    });

    it("canProceed() answers for a group without a limit state", async () => {
      const { limiter } = await scene({ tenant: { max: 1, per: "1s", by: "group" } });
      expect(await limiter("tenant", { group: "new" }).canProceed()).toBe(true);
      expect(await limiter("tenant").canProceed()).toBe(true);
      expect(await limiter("tenant").getNextAvailableTime()).toEqual(new Date(NOW));
    });

    it("canProceed() and getNextAvailableTime() agree with tryAcquire, whatever the reason of a refusal", async () => {
      const { limiter, limits, clock } = await scene({
        reported: { max: 1_000, per: "1m", weight: "t", estimate: 10, all: true },
        paused: { max: 2, per: "1m", by: "group" },
        held: { max: 2, per: "1m", by: "group" },
        full: { max: 2, per: "1m", by: "group" },
        free: { max: 2, per: "1m", by: "group" },
      });
      await limits.sync("reported", { remaining: 5, reset: "30s" });
      await limits.pause("paused");
      await limits.hold("held", "20s");
      for (let i = 0; i < 2; i++) await limiter("full").acquire();
      // So many groups that those without one are not among the latest.
      for (let i = 0; i < 150; i++) await limiter("full", { group: `g${i}` }).acquire();
      const asked = async (name: string) => [
        await limiter(name).canProceed(),
        await limiter(name).getNextAvailableTime(),
      ];
      const at = (ms: number) => new Date(clock.wall() + ms);
      expect(await asked("reported")).toEqual([false, at(30_000)]);
      expect(await asked("paused")).toEqual([false, at(0)]);
      expect(await asked("held")).toEqual([false, at(20_000)]);
      expect(await asked("full")).toEqual([false, at(60_000)]);
      expect(await asked("free")).toEqual([true, at(0)]);
      for (const name of ["reported", "paused", "held", "full"]) refused(await limiter(name).tryAcquire());
      granted(await limiter("free").tryAcquire());
    });

    it("canProceed() charges nothing", async () => {
      const { limiter, use } = await scene({ gpu: { max: 2, per: "1m", concurrency: 1, all: true } });
      const gpu = limiter("gpu");
      for (let i = 0; i < 3; i++) {
        expect(await gpu.canProceed()).toBe(true);
        await gpu.getNextAvailableTime();
      }
      expect(await use("gpu")).toMatchObject({ used: 0, held: 0 });
    });

    it("getNextAvailableTime() names no instant where a release is needed", async () => {
      const { limiter, clock } = await scene({
        gpu: { concurrency: 1, all: true },
        memory: { concurrency: 10, weight: "gb", estimate: 6, all: true },
      });
      await limiter("gpu").acquire();
      await limiter("memory").acquire();
      for (const name of ["gpu", "memory"]) {
        expect(await limiter(name).canProceed()).toBe(false);
        expect(await limiter(name).getNextAvailableTime()).toEqual(new Date(clock.wall()));
        // An end that is known counts.
        await limiter(name).setNextAvailableTime(new Date(NOW + 500));
        expect(await limiter(name).getNextAvailableTime()).toEqual(new Date(NOW + 500));
      }
    });

    it("recordJobStart() never exceeds the limit: a recorded start waits", async () => {
      const { limiter, clock, use } = await scene({ gpu: { concurrency: 1, all: true } });
      const gpu = limiter("gpu");
      await gpu.recordJobStart();
      const second = gpu.recordJobStart();
      await clock.advance(0);
      expect(await settled(second)).toBe(false);
      await gpu.recordJobCompletion();
      await clock.advance(0);
      expect(await settled(second)).toBe(true);
      await gpu.recordJobCompletion();
      await gpu.recordJobCompletion();
      expect(await use("gpu")).toMatchObject({ held: 0 });
    });

    it("setNextAvailableTime() holds the limit for all limiters, only ever extending", async () => {
      const { limiter, clock, use } = await scene({ mail: { max: 9, per: "1s", all: true } });
      const mail = limiter("mail");
      await mail.setNextAvailableTime(new Date(NOW + 5_000));
      await mail.setNextAvailableTime(new Date(NOW + 2_000));
      await mail.setNextAvailableTime(new Date(NOW - 2_000));
      expect(await use("mail")).toMatchObject({ free: 0, blockedBy: "held", pausedUntil: new Date(NOW + 5_000) });
      expect(refused(await limiter("mail").tryAcquire()).retryInMs).toBe(5_000);
      await clock.advance(5_000);
      granted(await mail.tryAcquire());
      await expect(mail.setNextAvailableTime(new Date(Number.NaN))).rejects.toThrow(OptionsError);
    });

    it("holdFromHeaders() holds the limit when a response says so", async () => {
      const { limiter, use } = await scene({ mail: { max: 9, per: "1s", all: true } });
      await holdFromHeaders(limiter("mail"), new Headers({ "retry-after": "3" }));
      expect((await use("mail")).pausedUntil?.getTime()).toBeGreaterThanOrEqual(NOW + 3_000);
    });

    it("clear() resets what was counted, and wakes waiters", async () => {
      const { limiter, clock, use } = await scene({
        mail: { max: 1, per: "1h", all: true },
        tenant: { max: 1, per: "1h", by: "group" },
      });
      const mail = limiter("mail");
      await mail.acquire();
      const next = mail.acquire();
      await clock.advance(10);
      await mail.clear();
      await clock.advance(1);
      expect(await settled(next)).toBe(true);
      const [a, b] = [limiter("tenant", { group: "a" }), limiter("tenant", { group: "b" })];
      await a.acquire();
      await b.acquire();
      await a.clear();
      expect([(await use("tenant", "a")).used, (await use("tenant", "b")).used]).toEqual([0, 1]);
    });
  });

  describe("of a storage", () => {
    it("the limiter of a storage is the same instance for all calls with the same options", async () => {
      const { memory } = await scene({ a: { max: 10, per: "1s", weight: "t", all: true } });
      const one = memory.limiter("a", { group: "x" });
      expect(memory.limiter("a", { group: "x", ttl: "30s" })).toBe(one);
      for (const other of [
        memory.limiter("a"),
        memory.limiter("b", { group: "x" }),
        memory.limiter("a", { group: "y" }),
        memory.limiter("a", { group: "x", ttl: "31s" }),
        new MemoryStorage().limiter("a", { group: "x" }),
      ]) {
        expect(other).not.toBe(one);
      }
      expect(() => memory.limiter("a", { ttl: 0 })).toThrow(OptionsError);
      expect(() => memory.limiter("queue:a")).toThrow(OptionsError);
    });

    it("the limiter of a storage does not let light waiters pass a heavy one, whichever call made the limiter", async () => {
      const { memory, clock } = await scene({ a: { max: 100, per: "1m", weight: "t", all: true } });
      await memory.limiter("a").acquire({ weight: 10 });
      const heavy = memory.limiter("a").acquire({ weight: 100 });
      await clock.advance(1_000);
      const light = memory.limiter("a").acquire({ weight: 1 });
      refused(await memory.limiter("a").tryAcquire({ weight: 1 }));
      expect(await memory.limiter("a").canProceed()).toBe(false);
      await clock.advance(59_000);
      expect([await settled(heavy), await settled(light)]).toEqual([true, false]);
      await clock.advance(60_000);
      expect(await settled(light)).toBe(true);
    });

    it("the limiter of a storage is one limit in a composite, however often it is contained", async () => {
      const { memory, use } = await scene({ a: { max: 5, per: "1m", all: true } });
      granted(await new CompositeLimiter([memory.limiter("a"), memory.limiter("a")]).tryAcquire({ weight: 2 }));
      expect(await use("a")).toMatchObject({ used: 2 });
    });
  });

  describe("an error", () => {
    it("a LimitNotFoundError is thrown for a limit that is not declared", async () => {
      const { limiter, limits } = await scene({});
      const shared = limiter("missing");
      for (const use of [
        () => shared.acquire(),
        () => shared.tryAcquire(),
        () => shared.canProceed(),
        () => shared.recordJobStart(),
        () => shared.getNextAvailableTime(),
        () => shared.setNextAvailableTime(new Date(NOW)),
        () => shared.clear(),
        () => limit(() => {}, shared)(),
      ]) {
        const error = await use().catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(LimitNotFoundError);
        expect((error as LimitNotFoundError).limit).toBe("missing");
      }
      await limits.define({ missing: { max: 1, per: 1, all: true } });
      granted(await shared.tryAcquire());
    });

    it("a SharedLimiter rejects waiters when the limit is removed", async () => {
      const { limiter, clock, limits } = await scene({ gpu: { concurrency: 0, all: true } });
      const waiting = limiter("gpu").acquire();
      waiting.catch(() => {});
      await clock.advance(10);
      await limits.remove("gpu");
      await clock.advance(1_000);
      await expect(waiting).rejects.toThrow(LimitNotFoundError);
    });

    it("a SharedLimiter rejects waiters when the storage is closed", async () => {
      const { limiter, clock, memory } = await scene({ gpu: { concurrency: 0, all: true } });
      const shared = limiter("gpu");
      const waiting = shared.acquire();
      waiting.catch(() => {});
      await clock.advance(10);
      await memory.close();
      await clock.advance(1_000);
      await expect(waiting).rejects.toThrow(StorageError);
      await expect(shared.acquire()).rejects.toThrow(StorageError);
    });

    it("an error of the storage rejects the call it concerns, also where listening is refused", async () => {
      const { limiter, clock, memory, storage } = await scene({ gpu: { concurrency: 0, all: true } });
      storage.subscribe = () => {
        throw new StorageError("closed");
      };
      const waiting = limiter("gpu").acquire();
      await clock.advance(10);
      expect(await settled(waiting)).toBe(false);
      await memory.limits.change("gpu", { quota: { concurrency: 1 }, group: null });
      await clock.advance(1_000);
      expect(await settled(waiting)).toBe(true);
      await (await waiting).release();
    });

    it.each([
      ["storage", () => new SharedLimiter({} as MemoryStorage, "a")],
      ["storage", () => new SharedLimiter({ subscribe() {}, limits: {} } as unknown as MemoryStorage, "a")],
      ["name", () => new SharedLimiter(new MemoryStorage(), "")],
      ["name", () => new SharedLimiter(new MemoryStorage(), "queue:mail")],
      ["group", () => new SharedLimiter(new MemoryStorage(), "a", { group: "" })],
      ["ttl", () => new SharedLimiter(new MemoryStorage(), "a", { ttl: 0 })],
      ["grantTtl", () => new SharedLimiter(new MemoryStorage(), "a", { grantTtl: -1 })],
      ["grop", () => new SharedLimiter(new MemoryStorage(), "a", { grop: "x" } as object)],
    ])("is thrown for a wrong option: %s", (option, make) => {
      expect(make).toThrow(expect.objectContaining({ name: "OptionsError", option }) as OptionsError);
    });
  });
});
