import { describe, expect, it } from "vitest";
import { CompositeLimiter, DelayLimiter, type ILimiter, LateCallError, RateLimiter, Worker } from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { type FakeClock, faultyStorage } from "../../src/testing/index.ts";
import { rule, window } from "../../src/testing/suite/limit-words.ts";
import { worstWindow } from "../limiter/support.ts";
import { deferred, HOUSES, jumps, many, work } from "./support.ts";

/** How much of a limit is in use. */
const used = async (storage: (typeof HOUSES)[number]["open"] extends () => infer H ? H : never, name: string) =>
  (await storage.storage.limits.read({ name, group: null }))[0]!.states[0]!.used;

/** A limiter with only six methods that is available while it is open, and records its answers and calls with their instants. */
function sixMethods(clock: FakeClock, isOpen: () => boolean) {
  const diary: string[] = [];
  const limiter: ILimiter = {
    canProceed: async () => {
      const open = isOpen();
      diary.push(`${clock.now()}: ${open ? "yes" : "no"}`);
      return open;
    },
    recordJobStart: async () => void diary.push(`${clock.now()}: start`),
    recordJobCompletion: async () => void diary.push(`${clock.now()}: end`),
    getNextAvailableTime: async () => new Date(clock.wall() + 1_000),
    setNextAvailableTime: async () => {},
    clear: async () => {},
  };
  return { limiter, diary };
}

for (const { name, open } of HOUSES) {
  describe(`${name}: calls under limits`, () => {
    it("a start counts from the call of its handler, however slow the answer to the claim was", async () => {
      const house = open();
      const storage = faultyStorage(
        house.storage,
        ({ member, nth }) => (member === "claim" ? { kind: "delay-answer", ms: [150, 20, 90][nth % 3]! } : undefined),
        { clock: house.clock },
      );
      await house.queue.addBulk(many(30));
      const calls: number[] = [];
      const handler = async () => void calls.push(house.clock.now());
      const workers = [1, 2, 3].map(
        () => work(house, handler, { storage, concurrency: 5, limiter: { max: 5, duration: 100 } }).worker,
      );
      await house.clock.advance(5_000);
      expect(calls).toHaveLength(30);
      expect(worstWindow(calls, 100)).toBeLessThanOrEqual(5);
      await Promise.all([...workers.map((worker) => worker.stop()), house.clock.advance(3_000)]);
    });

    it("jobs of a claim that was answered too late are given back uncalled, and the next claim asks for more time", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(2, 1_000))]);
      const ttls: unknown[] = [];
      const storage = faultyStorage(
        house.storage,
        ({ member, args }) => {
          if (member !== "claim") return undefined;
          ttls.push((args[0] as { grantTtlMs: number }).grantTtlMs);
          return ttls.length <= 2 ? { kind: "delay-answer", ms: 3_000 } : undefined;
        },
        { clock: house.clock },
      );
      await house.queue.addBulk(many(2));
      const calls: number[] = [];
      const { worker } = work(house, async () => void calls.push(house.clock.now()), { storage, concurrency: 5 });
      await house.clock.advance(6_001);
      expect(calls).toEqual([6_000, 6_000]);
      expect(ttls.slice(0, 2)).toEqual([2_000, 4_000]);
      expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1, 1]);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("each call is checked on its own, and a job that earlier handlers held up for too long is given back", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(3, 1_000))]);
      await house.queue.addBulk(many(3));
      const calls: number[] = [];
      let back = 0;
      house.queue.on("retried", () => (back += 1));
      const jump = jumps(house.clock);
      const { worker, errors } = work(
        house,
        async () => {
          calls.push(house.clock.now());
          // The event loop stands still, once.
          if (calls.length === 1) jump.by = 2_500;
        },
        { concurrency: 5 },
      );
      await house.clock.advance(10_000);
      expect(calls).toHaveLength(3);
      expect(back).toBe(2);
      expect(worstWindow(calls, 1_000)).toBeLessThanOrEqual(3);
      expect(errors.filter((error) => !(error instanceof LateCallError))).toEqual([]);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("a call that was made too late because the process stood still is counted and reported", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(1, 1_000))]);
      await house.queue.addBulk(many(2));
      const calls: number[] = [];
      const jump = jumps(house.clock);
      const { worker, errors } = work(
        house,
        async () => {
          if (calls.length === 0) jump.by = 5_000;
          calls.push(house.clock.now());
        },
        { concurrency: 1 },
      );
      await house.clock.advance(0);
      expect(errors).toEqual([expect.objectContaining({ code: "SLUICE_LATE_CALL" })]);
      await house.clock.advance(10_000);
      expect(calls).toHaveLength(2);
      expect(calls[1]! - calls[0]!).toBeGreaterThanOrEqual(1_000);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("calls are confirmed with the next claim, and by a call of its own only if no claim follows", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(100, 1_000))]);
      const storage = faultyStorage(house.storage, () => undefined, { clock: house.clock });
      const confirms = () => storage.calls.filter(({ member }) => member === "confirm").length;
      await house.queue.addBulk(many(20));
      const busy = work(house, async () => {}, { storage, concurrency: 5 });
      await house.clock.advance(100);
      expect(confirms()).toBe(0);
      await busy.worker.stop();
      await house.queue.addBulk(many(1));
      const end = deferred();
      const slow = work(house, () => end.promise, { storage, concurrency: 1 });
      await house.clock.advance(499);
      const before = confirms();
      await house.clock.advance(1);
      expect(confirms()).toBe(before + 1);
      end.resolve();
      await Promise.all([slow.worker.stop(), house.clock.advance(3_000)]);
    });

    it("calls are confirmed for every claim, however its jobs ended", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(2, 1_000))]);
      const { storage, clock } = house;
      const claim = storage.claim.bind(storage);
      const confirm = storage.confirm.bind(storage);
      const granted: string[] = [];
      const confirmed: string[] = [];
      // In time, too late to call, and after the deadline of the claim.
      const delays = [0, 3_000, 31_000];
      storage.claim = async (request) => {
        confirmed.push(...(request.confirm ?? []).map(({ grant }) => grant));
        const answer = await claim(request);
        if (answer.grant === undefined) return answer;
        granted.push(answer.grant.id);
        await new Promise<void>((resolve) => clock.after(delays.shift() ?? 0, resolve));
        return answer;
      };
      storage.confirm = async (confirmations) => {
        confirmed.push(...confirmations.map(({ grant }) => grant));
        await confirm(confirmations);
      };
      await house.queue.addBulk(many(8));
      let calls = 0;
      const { worker } = work(house, async () => void (calls += 1), { concurrency: 2 });
      await house.clock.advance(120_000);
      expect(calls).toBe(8);
      expect(granted.length).toBeGreaterThanOrEqual(6);
      expect(new Set(confirmed)).toEqual(new Set(granted));
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("calls are confirmed when the worker stops", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(5, 60_000))]);
      await house.queue.addBulk(many(1));
      const { worker } = work(house, async () => {}, { concurrency: 1 });
      await house.clock.advance(0);
      await worker.stop();
      expect(await used(house, "api")).toBe(1);
      await house.clock.advance(60_000);
      expect(await used(house, "api")).toBe(0);
      expect(house.clock.timers).toBe(0);
    });

    it("a worker whose limiter's grants are always too old reports that instead of starting nothing silently", async () => {
      const house = open();
      const { clock } = house;
      const storage = faultyStorage(
        house.storage,
        ({ member }) => (member === "claim" ? { kind: "delay-answer", ms: 2_200 } : undefined),
        { clock },
      );
      await house.queue.addBulk(many(1));
      // A storage that is not in this process, whatever this one is.
      const { rates } = new SqliteStorage(":memory:", { clock });
      const limiter = new RateLimiter(rates, "api", { maxExecutions: 5, windowSizeInSeconds: 1, clock });
      const { worker, errors } = work(house, async () => {}, { storage, limiter });
      await clock.advance(60_000);
      expect(errors[0]).toMatchObject({ message: expect.stringContaining("give the limiter a longer `grantTtl`") });
      await Promise.all([worker.stop(), clock.advance(5_000)]);
    });

    it("a limiter with only six methods is asked again if its answer is too old when a job is claimed", async () => {
      const house = open();
      const { clock } = house;
      let claims = 0;
      const storage = faultyStorage(
        house.storage,
        ({ member, args }) => {
          if (member !== "claim" || (args[0] as { max: number }).max === 0) return undefined;
          claims += 1;
          return { kind: "delay-answer", ms: claims === 1 ? 2_200 : 100 };
        },
        { clock },
      );
      // It is available at first, and another caller takes that while the claim is under way.
      const { limiter, diary } = sixMethods(clock, () => clock.now() < 1_000 || clock.now() >= 5_000);
      await house.queue.addBulk(many(1));
      const { worker, errors } = work(house, async () => void diary.push(`${clock.now()}: call`), { storage, limiter });
      await clock.advance(10_000);
      expect(diary).toEqual([
        "0: yes",
        "2200: no",
        "3200: no",
        "4200: no",
        "5200: yes",
        "5300: start",
        "5300: call",
        "5300: end",
      ]);
      expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1]);
      expect(errors).toEqual([]);
      await Promise.all([worker.stop(), clock.advance(3_000)]);
    });

    it("a handler is called however long a limiter with only six methods takes to record its start", async () => {
      const house = open();
      const { clock } = house;
      const { limiter, diary } = sixMethods(clock, () => true);
      const record = limiter.recordJobStart.bind(limiter);
      limiter.recordJobStart = async () => {
        await new Promise<void>((resolve) => clock.after(3_000, resolve));
        await record();
      };
      await house.queue.addBulk(many(1));
      const { worker, errors } = work(house, async () => void diary.push(`${clock.now()}: call`), { limiter });
      await clock.advance(10_000);
      expect(diary).toEqual(["0: yes", "3000: start", "3000: call", "3000: end"]);
      expect(errors).toEqual([]);
      await worker.stop();
    });

    it("a job that was cancelled before its call gives its start back after a window", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(2, 1_000))]);
      const held = deferred();
      const storage = faultyStorage(house.storage, () => undefined, { clock: house.clock });
      const claim = storage.claim.bind(storage);
      storage.claim = async (request) => {
        const answer = await claim(request);
        if (answer.jobs.length > 0) await held.promise;
        return answer;
      };
      const jobs = await house.queue.addBulk(many(4));
      const calls: number[] = [];
      const { worker } = work(house, async () => void calls.push(house.clock.now()), { storage, concurrency: 2 });
      await house.clock.advance(10);
      await Promise.all([jobs[0]!.cancel(), jobs[1]!.cancel()]);
      await house.clock.advance(10);
      held.resolve();
      await house.clock.advance(1_100);
      expect(calls).toHaveLength(2);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("the jobs of a batch count one by one", async () => {
      const house = open();
      await house.storage.limits.define([rule("api", window(4, 1_000))]);
      await house.queue.addBulk(many(12));
      const calls: number[] = [];
      const { storage, clock } = house;
      const worker = new Worker("q", async (jobs) => void calls.push(...jobs.map(() => clock.now())), {
        storage,
        clock,
        concurrency: 2,
        batch: { size: 3 },
      });
      await house.clock.advance(10_000);
      expect(calls).toHaveLength(12);
      expect(worstWindow(calls, 1_000)).toBe(4);
      await Promise.all([worker.stop(), house.clock.advance(3_000)]);
    });

    it("starts under a limiter of the process count from the handler though claims take longer than its window", async () => {
      const house = open();
      const storage = faultyStorage(
        house.storage,
        ({ member, nth }) => (member === "claim" ? { kind: "delay-answer", ms: [110, 20, 60][nth % 3]! } : undefined),
        { clock: house.clock },
      );
      await house.queue.addBulk(many(12));
      const { clock } = house;
      const rate = { maxExecutions: 2, windowSizeInSeconds: 0.05, clock };
      const limiter = new CompositeLimiter([
        new RateLimiter(house.storage.rates, "api", name === "memory" ? { ...rate, clock: undefined } : rate),
        new DelayLimiter(10, { clock }),
      ]);
      const calls: number[] = [];
      const handler = async () => void calls.push(clock.now());
      const workers = [1, 2, 3].map(() => work(house, handler, { storage, concurrency: 5, limiter }).worker);
      await clock.advance(5_000);
      expect(calls).toHaveLength(12);
      expect(worstWindow(calls, 50)).toBeLessThanOrEqual(2);
      expect(worstWindow(calls, 10)).toBeLessThanOrEqual(1);
      await Promise.all([...workers.map((worker) => worker.stop()), clock.advance(3_000)]);
    });
  });
}
