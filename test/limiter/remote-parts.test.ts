import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  type ExecutionVerdict,
  InMemoryRateLimiterStorage,
  limit,
  OptionsError,
  QueueOverflowError,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { foreign, setUp, SlowSixMethodLimiter } from "./remote-parts.support.ts";
import { granted, settled, SixMethodLimiter, worstWindow } from "./support.ts";

describe("remote parts", () => {
  it("remote parts return what others granted when a storage answered too late", async () => {
    let slow = 3_000;
    const { clock, rate } = setUp({
      max: 100,
      delay: () => {
        const ms = slow;
        slow = 0;
        return ms;
      },
    });
    const slots = new ConcurrencyLimiter(1, { clock });
    const waiting = new CompositeLimiter([foreign(slots), rate()]).acquire();
    await clock.advance(10_000);
    const permit = await waiting;
    expect(slots.running).toBe(1);
    await permit.release();
    expect(slots.running).toBe(0);
  });

  it("remote parts are not asked for a waiter that was aborted", async () => {
    const { clock, storage, rate } = setUp({ delay: () => 2_500 });
    const controller = new AbortController();
    const aborted = rate().acquire({ signal: controller.signal });
    await clock.advance(100);
    controller.abort("enough");
    await expect(aborted).rejects.toBe("enough");
    await clock.advance(3_600_000);
    expect(storage.calls).toEqual(["try", "cancel"]);
    expect(clock.timers).toBe(0);
  });

  it("remote parts that always answer too late fail the call, and spend no quota", async () => {
    const { clock, storage, rate } = setUp({ max: 100, delay: () => 2_500 });
    const limiter = rate();
    const failing = limiter.acquire();
    failing.catch(() => {});
    await clock.advance(100_000);
    await expect(failing).rejects.toThrow(OptionsError);
    await expect(failing).rejects.toThrow(/`grantTtl` to be longer/);
    expect(storage.calls).toEqual(Array.from({ length: 5 }, () => ["try", "cancel"]).flat());
    expect(limiter.waiting).toBe(0);
  });

  it("remote parts wake waiters that were refused because of a charge that was undone", async () => {
    const { clock, rate } = setUp();
    const controller = new AbortController();
    const slowOwn = foreign(new ConcurrencyLimiter(0, { clock }));
    slowOwn.tryAcquire = async () => {
      await new Promise<void>((resolve) => clock.after(50, resolve));
      return { granted: false, blockedBy: "own", retryInMs: null, never: false };
    };
    new CompositeLimiter([rate(), slowOwn]).acquire({ signal: controller.signal }).catch(() => {});
    await clock.advance(10);
    let at = -1;
    void rate()
      .acquire()
      .then(() => (at = clock.now()));
    await clock.advance(0);
    controller.abort();
    await clock.advance(1_000);
    expect(at).toBe(50);
  });

  it("remote parts do not miss a release while the line goes to sleep", async () => {
    for (let turns = 0; turns < 30; turns++) {
      const slots = new ConcurrencyLimiter(1);
      const permit = await slots.acquire();
      const waiting = new CompositeLimiter([slots, new SixMethodLimiter(9)]).acquire();
      for (let i = 0; i < turns; i++) await undefined;
      await permit.release();
      await waiting;
    }
  });

  it("remote parts wake waiters of another limiter of the same name", async () => {
    const { clock, rate } = setUp();
    const permit = await rate().acquire();
    const other = rate().acquire();
    expect(await settled(other)).toBe(false);
    await permit.cancel();
    await clock.advance(1);
    await other;
    const third = rate().acquire();
    await clock.advance(1);
    await rate().clear();
    await clock.advance(1);
    await third;
  });

  it("remote parts are not charged and undone repeatedly while a six-method limiter is full", async () => {
    const { clock, storage, rate } = setUp();
    const controller = new AbortController();
    new CompositeLimiter([rate(), new SixMethodLimiter(0)]).acquire({ signal: controller.signal }).catch(() => {});
    await clock.advance(60_000);
    expect(storage.calls).toEqual([]);
    controller.abort();
  });

  it("remote parts refuse at once what can never fit, also by a second rule under the same name", async () => {
    const { clock, storage, elsewhere } = setUp();
    const rule = (maxExecutions: number) =>
      new RateLimiter(elsewhere, "x", { maxExecutions, windowSizeInSeconds: maxExecutions, clock });
    await expect(new CompositeLimiter([rule(10), rule(3)]).acquire({ weight: 5 })).rejects.toThrow(/at most 3/);
    expect(storage.calls).toEqual([]);
  });

  it("remote parts survive invalid answers of a storage", async () => {
    const { clock, storage, rate } = setUp();
    const answers = [-1, Number.NaN, 0, undefined];
    const sound = storage.tryRecordExecution.bind(storage);
    storage.tryRecordExecution = async (name, window) =>
      answers.length > 0 ? ({ granted: false, retryInMs: answers.shift() } as ExecutionVerdict) : sound(name, window);
    const waiting = rate().acquire();
    await clock.advance(10);
    await waiting;
  });

  it("remote parts count a grant from the call, however long the other parts take to record it", async () => {
    const clock = new FakeClock();
    const storage = new InMemoryRateLimiterStorage({ clock });
    const rate = new RateLimiter(storage, "x", { maxExecutions: 2, windowSizeInSeconds: 0.1 });
    const once = () => {
      let slow = 60;
      return () => {
        const ms = slow;
        slow = 0;
        return ms;
      };
    };
    const starts: number[] = [];
    const mixed = limit(
      () => void starts.push(clock.now()),
      new CompositeLimiter([rate, new SlowSixMethodLimiter(9, clock, () => 0, once())]),
    );
    const direct = limit(() => void starts.push(clock.now()), rate);
    void mixed();
    await clock.advance(50);
    void direct();
    await clock.advance(20);
    void direct();
    void direct();
    await clock.advance(500);
    expect(starts).toHaveLength(4);
    expect(worstWindow(starts, 100)).toBe(2);

    const single = new RateLimiter(storage, "y", { maxExecutions: 1, windowSizeInSeconds: 0.1 });
    const composite = new CompositeLimiter([single, new SlowSixMethodLimiter(9, clock, () => 0, once())]);
    const grants: number[] = [];
    for (let i = 0; i < 3; i++) void composite.acquire().then(() => grants.push(clock.now()));
    await clock.advance(500);
    expect(grants).toHaveLength(3);
    expect(worstWindow(grants, 100)).toBe(1);
  });

  it("remote parts do not let the charge of a window expire before the call is made", async () => {
    for (const slow of [160, 1_000]) {
      const clock = new FakeClock();
      const rate = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "x", {
        maxExecutions: 2,
        windowSizeInSeconds: 0.1,
      });
      let left = slow;
      const six = new SlowSixMethodLimiter(
        9,
        clock,
        () => 0,
        () => {
          const ms = left;
          left = 0;
          return ms;
        },
      );
      const starts: number[] = [];
      const start = () => void starts.push(clock.now());
      void limit(start, new CompositeLimiter([rate, six]))();
      await clock.advance(50);
      const direct = limit(start, rate);
      for (let i = 0; i < 40; i++) void direct();
      await clock.advance(5_000);
      expect(starts).toHaveLength(41);
      expect(worstWindow(starts, 100)).toBe(2);
      expect(six.running).toBe(0);
    }
  });

  it("remote parts that never answer fail the call after a while, and block no other line", async () => {
    const { clock, storage, rate } = setUp({ max: 9 });
    const sound = storage.tryRecordExecution.bind(storage);
    let lost = true;
    let answerLate: ((answer: ExecutionVerdict) => void) | undefined;
    storage.tryRecordExecution = (name, window) => {
      if (!lost) return sound(name, window);
      lost = false;
      return new Promise((resolve) => (answerLate = resolve));
    };
    const six = new SixMethodLimiter(9);
    const slots = new ConcurrencyLimiter(1, { clock });
    const held = await slots.acquire();
    const limiter = new CompositeLimiter([six, slots, rate()]);
    const controller = new AbortController();
    const aborted = limiter.acquire({ signal: controller.signal });
    await clock.advance(10);
    await held.release(); // it is the composite's turn; the storage is asked and does not answer
    const direct = slots.acquire();
    await clock.advance(3_000);
    await (await direct).release();
    controller.abort("enough");
    await expect(aborted).rejects.toBe("enough");
    const next = limiter.acquire();
    const alone = limit(() => "ran", six)();
    await clock.advance(30_000);
    await next;
    expect(await alone).toBe("ran");
    answerLate?.(await sound("api", { maxExecutions: 9, windowMs: 60_000 }));
    await clock.advance(1);
    expect(storage.calls.at(-1)).toBe("cancel");

    const { clock: other, storage: dead, rate: hanging } = setUp();
    dead.tryRecordExecution = () => new Promise(() => {});
    const failing = hanging().acquire();
    failing.catch(() => {});
    await other.advance(30_000);
    await expect(failing).rejects.toThrow(/has not answered for 30 s/);
    expect(other.timers).toBe(0);
  });

  it("remote parts that never answer a record or an undo do not block the line either", async () => {
    const { clock, storage, rate } = setUp({ max: 9 });
    let lost = true;
    const sound = storage.cancelExecution.bind(storage);
    storage.cancelExecution = (name, token) => {
      if (!lost) return sound(name, token);
      lost = false;
      return new Promise(() => {});
    };
    const own = foreign(new ConcurrencyLimiter(1, { clock }));
    const permit = granted(await own.tryAcquire());
    const composite = new CompositeLimiter([rate(), own]);
    const failing = composite.acquire();
    failing.catch(() => {});
    const next = composite.acquire();
    await clock.advance(10); // the first was refused by the second part; what the storage granted is being undone
    await permit.release();
    await clock.advance(30_100);
    await expect(failing).rejects.toThrow(/has not answered/);
    await next;

    const seven = new Proxy(new InMemoryRateLimiterStorage({ clock }), {
      has: (target, key) => typeof key === "string" && key in target,
      get: (target, key) => {
        if (String(key).endsWith("Execution") && key !== "recordExecution") return undefined;
        if (key === "recordExecution") return () => new Promise(() => {});
        return (Reflect.get(target, key, target) as () => unknown).bind(target);
      },
    });
    const hanging = new RateLimiter(seven, "x", { maxExecutions: 1, windowSizeInSeconds: 1, clock }).acquire();
    hanging.catch(() => {});
    await clock.advance(30_100);
    await expect(hanging).rejects.toThrow(/has not answered/);
  });

  it("remote parts wait by the clock that one of them was given", async () => {
    const { clock, rate } = setUp();
    const composite = new CompositeLimiter([new SixMethodLimiter(9), rate()]);
    await composite.acquire();
    const waiting = composite.acquire();
    await clock.advance(60_001);
    expect(await settled(waiting)).toBe(true);
  });

  it("remote parts give no retry time while they are asked about another call", async () => {
    let ms = 0;
    const { clock, rate } = setUp({ seconds: 1, delay: () => ms });
    const limiter = rate();
    await limiter.acquire();
    void limiter.acquire();
    await clock.advance(10);
    expect(await limiter.tryAcquire()).toMatchObject({ granted: false, blockedBy: "api", retryInMs: 990 });
    ms = 1_900;
    await clock.advance(1_500);
    expect(await limiter.tryAcquire()).toMatchObject({ granted: false, retryInMs: null });
  });

  it("remote parts record nothing for a waiter that was aborted while they were asked", async () => {
    const clock = new FakeClock();
    const six = new SlowSixMethodLimiter(5, clock, () => 100);
    const controller = new AbortController();
    new CompositeLimiter([six]).acquire({ signal: controller.signal }).catch(() => {});
    await clock.advance(50);
    controller.abort();
    await clock.advance(1_000);
    expect(six.started).toBe(0);
  });

  it("all remote parts are called although one throws synchronously, and the call settles", async () => {
    const bad = new SixMethodLimiter(9);
    bad.recordJobCompletion = () => {
      throw new Error("at once");
    };
    const slots = new ConcurrencyLimiter(1);
    const run = limit(async () => 1, new CompositeLimiter([bad, slots]));
    await expect(run()).rejects.toThrow("at once");
    expect([run.running, slots.running]).toEqual([0, 0]);
    const permit = await new CompositeLimiter([bad, slots]).acquire();
    await expect(permit.release()).rejects.toThrow("at once");
    expect(slots.running).toBe(0);
  });

  it("remote parts let maxQueue wait behind the one that is being asked about", async () => {
    const { clock, rate } = setUp({ max: 100 });
    const run = limit(async () => "ran", rate(), { maxQueue: 1 });
    const all = [run(), run()];
    await expect(run()).rejects.toThrow(QueueOverflowError);
    await clock.advance(1);
    expect(await Promise.all(all)).toEqual(["ran", "ran"]);
  });

  it("remote parts include a user's limiter with the whole interface, which can undo", async () => {
    const clock = new FakeClock();
    const slots = new ConcurrencyLimiter(1, { clock });
    const full = new ConcurrencyLimiter(0, { clock });
    granted(await new CompositeLimiter([foreign(slots)]).tryAcquire());
    await slots.clear();
    const refusing = foreign(full);
    const answer = await new CompositeLimiter([foreign(slots), refusing]).tryAcquire();
    expect(answer).toMatchObject({ granted: false, retryInMs: null });
    expect(slots.running).toBe(0);
  });
});
