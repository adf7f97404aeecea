import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import {
  concurrencyLimit,
  ConcurrencyLimiter,
  InMemoryRateLimiterStorage,
  limit,
  OptionsError,
  QueueOverflowError,
  rateLimit,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { deferred, settled, SixMethodLimiter, worstWindow } from "./support.ts";

describe("limit", () => {
  it("limit() passes arguments, `this`, results and errors through", async () => {
    const greeter = {
      greeting: "hello",
      greet: limit(async function (this: { greeting: string }, name: string, times = 1) {
        return `${this.greeting} ${name} ${times}`;
      }, new ConcurrencyLimiter(1)),
    };
    expect(await greeter.greet("ada", 2)).toBe("hello ada 2");
    const failure = new Error("no");
    await expect(limit(() => Promise.reject(failure), new ConcurrencyLimiter(1))()).rejects.toBe(failure);
    await expect(
      limit(() => {
        throw failure;
      }, new ConcurrencyLimiter(1))(),
    ).rejects.toBe(failure);
    expect(await limit((n: number) => n + 1, new ConcurrencyLimiter(1))(1)).toBe(2);
    expect(await limit(() => undefined, new ConcurrencyLimiter(1))()).toBeUndefined();
    // oxlint-disable-next-line unicorn/no-thenable -- anything with a `then` is a promise to code that awaits it
    const thenable = { then: (resolve: (value: string) => void) => resolve("thenable") };
    expect(await limit(() => thenable, new ConcurrencyLimiter(1))()).toBe("thenable");
    expect(limit(function named() {}, new ConcurrencyLimiter(1)).name).toBe("named");
  });

  it("limit() starts the first call at once, before it returns", () => {
    let started = false;
    void concurrencyLimit(() => (started = true), 1)();
    expect(started).toBe(true);
  });

  it("limit() releases the slot whatever the outcome of the call", async () => {
    const limiter = new ConcurrencyLimiter(1);
    const run = limit((what: () => unknown) => what(), limiter);
    await expect(run(() => Promise.reject(new Error("later")))).rejects.toThrow("later");
    await expect(
      run(() => {
        throw new Error("at once");
      }),
    ).rejects.toThrow("at once");
    await run(() => 1);
    expect(limiter.running).toBe(0);
  });

  it("limit() survives strange results, and so do the calls behind", async () => {
    const limiter = new ConcurrencyLimiter(1);
    const run = limit((what: () => unknown) => what(), limiter);
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const tampered = Object.assign(Promise.resolve(1), {
      // oxlint-disable-next-line unicorn/no-thenable -- that is the point
      then: () => {
        throw new Error("tampered");
      },
    });
    // oxlint-disable-next-line unicorn/no-thenable -- and that
    const callable = Object.assign(() => {}, { then: (resolve: (value: string) => void) => resolve("callable") });
    class Species extends Promise<number> {
      constructor() {
        super((resolve) => resolve(7));
      }
    }
    await expect(run(() => new Species())).rejects.toThrow(TypeError);
    const permit = await limiter.acquire();
    const species = run(() => new Species());
    species.catch(() => {});
    const all = [run(() => revoked.proxy), run(() => tampered), run(() => callable), run(() => "fine")];
    await permit.release();
    await expect(species).rejects.toThrow(TypeError);
    await expect(all[0]).rejects.toThrow(TypeError);
    await expect(all[1]).rejects.toThrow("tampered");
    expect(await all[2]).toBe("callable");
    expect(await all[3]).toBe("fine");
    expect([limiter.running, limiter.waiting, run.running]).toEqual([0, 0, 0]);
  });

  it("limit() keeps nothing of a call that is over", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const limiter = new ConcurrencyLimiter(1);
    const run = limit(async (_argument: object) => ({ result: true }), limiter);
    const refs = await (async () => {
      const argument = {};
      const first = run({});
      const result = await run(argument); // waited in line
      await first;
      return [new WeakRef(argument), new WeakRef(result)];
    })();
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(refs.map((ref) => ref.deref())).toEqual([undefined, undefined]);
  });

  it("limit() never runs more calls than the limit, as seen by the function", async () => {
    const seen: number[] = [];
    const run: { (): Promise<void>; readonly running: number } = concurrencyLimit(
      async () => void seen.push(run.running),
      1,
    );
    await Promise.all([run(), run(), run()]);
    expect(seen).toEqual([1, 1, 1]);
  });

  it("limit() starts calls in order, together with callers of acquire()", async () => {
    const limiter = new ConcurrencyLimiter(1);
    const order: string[] = [];
    const run = limit(async (name: string) => void order.push(name), limiter);
    const other = limit(async (name: string) => void order.push(name), limiter);
    const permit = await limiter.acquire();
    const all = [
      run("a"),
      other("b"),
      limiter.acquire().then(async (mine) => {
        order.push("c");
        await mine.release();
      }),
      run("d"),
    ];
    await permit.release();
    await Promise.all(all);
    expect(order).toEqual(["a", "b", "c", "d"]);
  });

  it("limit() does not recurse: a hundred thousand synchronous calls in line", async () => {
    const gate = deferred();
    const limiter = new ConcurrencyLimiter(1);
    const hold = limit(() => gate.promise, limiter)();
    const run = limit((n: number) => n, limiter);
    const all = Array.from({ length: 100_000 }, (_, i) => run(i));
    gate.resolve();
    await hold;
    expect((await Promise.all(all)).at(-1)).toBe(99_999);
  });

  it("limit() lets a call make calls of its own while it starts", async () => {
    const run = concurrencyLimit(async (depth: number): Promise<number> => (depth === 0 ? 0 : 1), 2);
    const nested = limit(async () => {
      const inner = [run(0), run(1), run(2)];
      return (await Promise.all(inner)).length;
    }, new ConcurrencyLimiter(1));
    expect(await nested()).toBe(3);
  });

  describe("counts", () => {
    it("running and waiting show how many calls run and wait, and onIdle() when all are done", async () => {
      const gates = [deferred(), deferred(), deferred()];
      const run = concurrencyLimit((i: number) => gates[i]!.promise, 2);
      expect([run.running, run.waiting]).toEqual([0, 0]);
      await run.onIdle();
      const all = [run(0), run(1), run(2)];
      expect([run.running, run.waiting]).toEqual([2, 1]);
      const idle = run.onIdle();
      gates[0]!.resolve();
      await all[0];
      expect([run.running, run.waiting]).toEqual([2, 0]);
      gates[1]!.resolve();
      await all[1];
      expect(await settled(idle)).toBe(false);
      gates[2]!.reject(new Error("also an end"));
      await expect(all[2]).rejects.toThrow();
      await idle;
      expect([run.running, run.waiting]).toEqual([0, 0]);
    });
  });

  describe("maxQueue", () => {
    it("maxQueue rejects at once when so many wait, and only calls that would have to wait", async () => {
      const gate = deferred();
      const run = concurrencyLimit(() => gate.promise, 1, { maxQueue: 2 });
      const kept = [run(), run(), run()];
      const overflow = run();
      await expect(overflow).rejects.toThrow(QueueOverflowError);
      await expect(run()).rejects.toMatchObject({ code: "SLUICE_QUEUE_OVERFLOW", maxQueue: 2 });
      expect(run.waiting).toBe(2);
      gate.resolve();
      await Promise.all(kept);
      await run();
    });

    it("maxQueue does not count the call that a remote part is being asked about", async () => {
      const own = new SixMethodLimiter(1);
      const gate = deferred();
      const run = limit(() => gate.promise, own, { maxQueue: 0 });
      const first = run();
      await expect(run()).rejects.toThrow(QueueOverflowError);
      gate.resolve();
      await first;
      await run();
    });

    it("maxQueue rejects no call that could start, also from inside a call", async () => {
      for (const weight of [undefined, () => 1]) {
        const run: (depth: number) => Promise<string> = concurrencyLimit(
          async (depth: number): Promise<string> => (depth === 0 ? "ok" : run(depth - 1)),
          10,
          { maxQueue: 0, weight },
        );
        expect(await run(3)).toBe("ok");
      }
    });

    it("a maxQueue of 0 rejects every call that cannot start at once", async () => {
      const gate = deferred();
      const run = concurrencyLimit(() => gate.promise, 1, { maxQueue: 0 });
      const running = run();
      await expect(run()).rejects.toThrow(QueueOverflowError);
      gate.resolve();
      await running;
      await run();
    });
  });

  describe("signal", () => {
    it("an aborted signal rejects all waiting and later calls; running calls continue", async () => {
      const gate = deferred<string>();
      const controller = new AbortController();
      let calls = 0;
      const run = concurrencyLimit(() => ((calls += 1), gate.promise), 1, { signal: controller.signal });
      const running = run();
      const waiting = [run(), run()];
      const idle = run.onIdle();
      controller.abort("closing");
      for (const call of waiting) await expect(call).rejects.toBe("closing");
      await expect(run()).rejects.toBe("closing");
      gate.resolve("done");
      expect(await running).toBe("done");
      await idle;
      expect(calls).toBe(1);
    });

    it("starts no call while it rejects the calls before it", async () => {
      const limiter = new ConcurrencyLimiter(2);
      const controller = new AbortController();
      let calls = 0;
      const run = limit((_weight: number) => void (calls += 1), limiter, {
        signal: controller.signal,
        weight: (weight) => weight,
      });
      const permit = await limiter.acquire();
      const all = [run(2), run(1), run(1)];
      controller.abort("closing");
      for (const call of all) await expect(call).rejects.toBe("closing");
      await permit.release();
      expect(calls).toBe(0);
    });

    it("an aborted signal does not touch other wrappers of the same limiter", async () => {
      const gate = deferred();
      const limiter = new ConcurrencyLimiter(1);
      const controller = new AbortController();
      const ours = limit(() => gate.promise, limiter, { signal: controller.signal });
      const theirs = limit(() => "theirs", limiter);
      const running = ours();
      const [a, b] = [ours(), theirs()];
      controller.abort("closing");
      await expect(a).rejects.toBe("closing");
      gate.resolve();
      await running;
      expect(await b).toBe("theirs");
    });

    it("a signal is listened to only while calls wait", async () => {
      const controller = new AbortController();
      const listening: string[] = [];
      const { signal } = controller;
      const add = signal.addEventListener.bind(signal);
      const remove = signal.removeEventListener.bind(signal);
      signal.addEventListener = (...args: Parameters<typeof add>) => (listening.push("add"), add(...args));
      signal.removeEventListener = (...args: Parameters<typeof remove>) => (listening.push("remove"), remove(...args));
      const gate = deferred();
      const run = concurrencyLimit(() => gate.promise, 1, { signal });
      const first = run();
      expect(listening).toEqual([]);
      const second = run();
      const third = run();
      expect(listening).toEqual(["add"]);
      gate.resolve();
      await Promise.all([first, second, third]);
      expect(listening).toEqual(["add", "remove"]);
    });
  });

  it("limit() weighs calls by their arguments, and rejects a weight that makes no sense", async () => {
    const clock = new FakeClock();
    const storage = new InMemoryRateLimiterStorage({ clock });
    const tokens = new RateLimiter(storage, "tokens", { maxExecutions: 100, windowSizeInSeconds: 60 });
    const ask = limit(async (prompt: string) => prompt, tokens, { weight: (prompt) => prompt.length });
    const starts: number[] = [];
    void ask("x".repeat(60)).then(() => starts.push(clock.now()));
    void ask("y".repeat(50)).then(() => starts.push(clock.now()));
    await clock.advance(60_000);
    expect(starts).toEqual([0, 60_000]);
    await expect(ask("")).rejects.toThrow(OptionsError);
    await expect(ask("z".repeat(101))).rejects.toThrow(/at most 100/);
  });

  it("limit() settles to what the result says, at once; a failure keeps the estimate", async () => {
    const storage = new InMemoryRateLimiterStorage();
    const tokens = new RateLimiter(storage, "tokens", { maxExecutions: 100, windowSizeInSeconds: 60 });
    const concurrency = new ConcurrencyLimiter(2);
    const ask = limit(
      limit(async (used: number) => (used < 0 ? Promise.reject(new Error("no")) : { used }), tokens, {
        weight: () => 60,
        settle: ({ used }, asked) => Math.min(used, asked),
      }),
      concurrency,
    );
    const left = async () => {
      const answer = await tokens.tryAcquire({ weight: 100 });
      if (answer.granted) await answer.cancel();
      for (let weight = 100; weight > 0; weight--) {
        const smaller = await tokens.tryAcquire({ weight });
        if (!smaller.granted) continue;
        await smaller.cancel();
        return weight;
      }
      return 0;
    };
    expect(await ask(10)).toEqual({ used: 10 });
    expect(await left()).toBe(90);
    expect(await Promise.all([ask(5), ask(20)])).toHaveLength(2); // 60 and 60 do not fit: the second waits for the first
    expect(await left()).toBe(65);
    await expect(ask(-1)).rejects.toThrow("no");
    expect(await left()).toBe(5);
    expect(concurrency.running).toBe(0);
    const wrong = limit(() => "text", concurrency, { settle: () => Number.NaN });
    await expect(wrong()).rejects.toThrow(/`settle\(…\)` to be an integer from 0 to 4294967295, got NaN/);
    expect([concurrency.running, wrong.running]).toEqual([0, 0]);
  });

  it("limit() works with a user's own limiter, and waits until it has recorded the completion", async () => {
    const own = new SixMethodLimiter(2);
    const gates = [deferred(), deferred(), deferred()];
    const run = limit((i: number) => gates[i]!.promise, own);
    const all = [run(0), run(1), run(2)];
    expect(await settled(all[2]!)).toBe(false);
    expect(own.running).toBe(2);
    for (const gate of gates) gate.resolve();
    await Promise.all(all);
    expect(own.running).toBe(0);
    expect(own.started).toBe(3);
  });

  it("limit() reports a failure only after all charges are returned, with no unhandled rejection", async () => {
    const own = new SixMethodLimiter(1);
    const complete = own.recordJobCompletion.bind(own);
    own.recordJobCompletion = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      await complete();
    };
    const run = limit(() => Promise.reject(new Error("no")), own);
    const all = [run(), run(), run()];
    for (const call of all) await expect(call).rejects.toThrow("no");
    expect(own.running).toBe(0);
  });

  it("limit() fails the call when the limiter fails, before or after", async () => {
    const own = new SixMethodLimiter(1);
    own.canProceed = () => Promise.reject(new Error("cannot say"));
    await expect(limit(() => 1, own)()).rejects.toThrow("cannot say");
    const other = new SixMethodLimiter(1);
    other.recordJobCompletion = () => Promise.reject(new Error("cannot end"));
    const run = limit(() => 1, other);
    await expect(run()).rejects.toThrow("cannot end");
    expect([run.running, run.waiting]).toEqual([0, 0]);
  });

  it("limit() rejects with the error of the function, also when the limiter fails after it", async () => {
    const own = new SixMethodLimiter(1);
    own.recordJobCompletion = () => Promise.reject(new Error("cannot end"));
    const run = limit(() => Promise.reject(new Error("of the function")), own);
    await expect(run()).rejects.toThrow("of the function");
    await run.onIdle();
    expect([run.running, run.waiting]).toEqual([0, 0]);
  });
});

describe("rateLimit", () => {
  it("rateLimit() counts from the call itself: the function never sees more than the limit, also under load", async () => {
    const starts: number[] = [];
    const run = rateLimit(
      () => {
        starts.push(performance.now());
        // A little work, so that calls of one batch do not start at the same instant.
        const until = performance.now() + 0.02;
        while (performance.now() < until);
      },
      25,
      20,
    );
    await Promise.all(Array.from({ length: 160 }, () => run()));
    expect(worstWindow(starts, 25)).toBe(20);
  });

  it("rateLimit() leaves no timer behind when the waiters are gone", async () => {
    const controller = new AbortController();
    const run = rateLimit(() => 1, 86_400_000, 1, { signal: controller.signal });
    await run();
    const waiting = run();
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    controller.abort("enough");
    await expect(waiting).rejects.toBe("enough");
    expect(timers()).toBe(before - 1);
  });
});
