import { describe, expect, it } from "vitest";
import { defineLimits, type ILimiter, InMemoryRateLimiterStorage, limit, RateLimiter } from "../../src/index.ts";
import { type FakeClock, faultyStorage } from "../../src/testing/index.ts";
import { remote, sixMethods, worstWindow } from "../limiter/support.ts";
import { deferred, gate, type House, HOUSES, many, work } from "./support.ts";

/** The same storage, with its calls counted, `rates` apart. */
const counted = (house: House) => faultyStorage(house.storage, () => {}, { clock: house.clock });

const SECONDS = 60;

/** The heartbeats of all workers of the process: six calls a minute together. */
const REGISTRY: ReadonlySet<string> = new Set(["register", "unhandled"]);
const REGISTRY_CALLS = 6;

describe.each(HOUSES)("$name", ({ name, open }) => {
  describe("the cost of a blocked worker", () => {
    const limits = defineLimits({ api: { max: 1, per: "1h", types: ["call"] } });
    const gpu = defineLimits({ gpu: { concurrency: 1, types: ["call"] } });

    it("a blocked worker makes at most one call a second, though jobs of the blocked type are added 20 times a second", async () => {
      const house = open();
      const storage = counted(house);
      const { worker } = work(house, async () => {}, { storage, limits });
      await house.queue.addBulk(many(2, "call"));
      await house.clock.advance(100);
      const before = storage.calls.length;
      for (let i = 0; i < 20 * SECONDS; i++) {
        await house.queue.add("call", i);
        await house.clock.advance(50);
      }
      const during = storage.calls.slice(before).map(({ member }) => member);
      expect(during.length).toBeLessThanOrEqual(SECONDS);
      // No worker looks at all: only the housekeeping goes on.
      expect(during.filter((member) => member !== "sweep" && !REGISTRY.has(member))).toEqual([]);
      expect(during.filter((member) => REGISTRY.has(member)).length).toBeLessThanOrEqual(REGISTRY_CALLS);
      await worker.stop();
    });

    it("a worker that waits for a release makes at most one call a second", async () => {
      const house = open();
      const { handler, end, seen } = gate();
      await house.storage.limits.define(gpu.rules);
      const busy = work(house, handler);
      await house.queue.addBulk(many(2, "call"));
      await house.clock.advance(100);
      const storage = counted(house);
      const { worker } = work(house, handler, { storage });
      await house.clock.advance(100);
      const before = storage.calls.length;
      for (let i = 0; i < 20 * SECONDS; i++) {
        await house.queue.add("call", i);
        await house.clock.advance(50);
      }
      const during = storage.calls.slice(before).map(({ member }) => member);
      expect(during.length).toBeLessThanOrEqual(SECONDS);
      // The last resort: twice a minute.
      expect(during.filter((member) => member === "claim").length).toBeLessThanOrEqual(3);
      expect(seen.starts).toBe(1);
      end(1);
      await house.clock.advance(0);
      expect(seen.starts).toBe(2);
      await Promise.all([busy.worker.stop({ timeout: 0 }), worker.stop({ timeout: 0 }), house.clock.advance(5_000)]);
    });

    it("a blocked worker makes about one call a second though every added job wakes it up", async () => {
      const house = open();
      const storage = counted(house);
      const { worker } = work(house, async () => {}, { storage, limits });
      await house.queue.addBulk(many(2, "call"));
      await house.clock.advance(100);
      const before = storage.calls.length;
      for (let i = 0; i < 20 * SECONDS; i++) {
        await house.queue.add("call", i, { group: String(i) });
        await house.clock.advance(50);
      }
      // Some more at the beginning, until its back-off is long.
      expect(storage.calls.length - before).toBeLessThanOrEqual(SECONDS + 8 + REGISTRY_CALLS);
      await worker.stop();
    });

    it("a blocked worker claims at once when a job of another type is added", async () => {
      const house = open();
      const starts: string[] = [];
      const { worker } = work(house, async ({ type }) => void starts.push(`${type} ${house.clock.now()}`), { limits });
      await house.queue.addBulk(many(50, "call"));
      await house.clock.advance(1_000);
      await house.queue.add("free", 1);
      await house.clock.advance(0);
      expect(starts).toEqual(["call 0", "free 1000"]);
      await worker.stop();
    });

    it("a wake-up that comes during a claim is not lost", async () => {
      const house = open();
      await house.storage.limits.define(gpu.rules);
      const { handler, end, seen } = gate();
      const busy = work(house, handler, { autostart: true });
      await house.queue.addBulk(many(2, "call"));
      await house.clock.advance(1);
      // The answer to its claim is on its way while the slot is given back.
      let slow = true;
      const storage = faultyStorage(
        house.storage,
        ({ member }) => (slow && member === "claim" ? { kind: "delay-answer", ms: 500 } : undefined),
        { clock: house.clock },
      );
      const { worker } = work(house, handler, { storage });
      await house.clock.advance(100);
      slow = false;
      await Promise.all([busy.worker.stop({ timeout: "1m" }), house.clock.advance(1).then(() => end())]);
      await house.clock.advance(0);
      expect(seen.starts).toBe(1);
      await house.clock.advance(400);
      expect(seen.starts).toBe(2);
      end();
      await house.clock.advance(1);
      await worker.stop();
    });

    it("a blocked worker that gets no wake-up claims again after half a minute", async () => {
      const house = open();
      await house.storage.limits.define(gpu.rules);
      const { handler, end, seen } = gate();
      const busy = work(house, handler);
      await house.queue.addBulk(many(2, "call"));
      await house.clock.advance(1);
      const deaf = counted(house);
      const storage = { ...deaf, subscribe: () => () => {} };
      const { worker } = work(house, handler, { storage });
      await house.clock.advance(1);
      const stopped = busy.worker.stop({ timeout: "1m" });
      end();
      await house.clock.advance(1);
      await stopped;
      expect(seen.starts).toBe(1);
      await house.clock.advance(30_000);
      expect(seen.starts).toBe(2);
      end();
      await house.clock.advance(1);
      await worker.stop();
    });
  });

  describe("a grant of a limiter to a worker that another limit has blocked since", () => {
    const WINDOW = { maxExecutions: 1, windowSizeInSeconds: 10 };
    const limiters: Readonly<Record<string, (clock: FakeClock) => ILimiter>> = {
      "a window of the process": (clock) => new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "own", WINDOW),
      "a window elsewhere": (clock) => new RateLimiter(remote(clock), "own", { ...WINDOW, clock }),
      "a limiter with six methods": (clock) => {
        const inner = new RateLimiter(new InMemoryRateLimiterStorage({ clock }), "own", WINDOW);
        return {
          canProceed: () => inner.canProceed(),
          recordJobStart: () => inner.recordJobStart(),
          recordJobCompletion: () => inner.recordJobCompletion(),
          getNextAvailableTime: () => inner.getNextAvailableTime(),
          setNextAvailableTime: (date) => inner.setNextAvailableTime(date),
          clear: () => inner.clear(),
        };
      },
    };

    it.each(Object.keys(limiters))(
      "a grant that a worker cannot use is given back, so that other workers can have it: %s",
      async (kind) => {
        const house = open();
        const { clock, storage } = house;
        const limiter = limiters[kind]!(clock);
        const limits = defineLimits({ api: { max: 2, per: "1h", all: true } });
        const { handler, end, seen } = gate();
        await house.queue.addBulk(many(3));
        const { worker, errors } = work(house, handler, { limits, limiter, concurrency: 2 });
        await clock.advance(1_000);
        expect(seen.starts).toBe(1);
        // While its limiter is asked for the second, another caller takes the rest of the shared limit, and the first ends.
        await storage.limits.take({ name: "api", group: null, weight: null, ttlMs: 1_000 });
        end();
        await clock.advance(30_000);
        expect(seen.starts).toBe(1);
        let reached = 0;
        void limit(async () => void (reached += 1), limiter)();
        await clock.advance(1_000);
        expect(reached).toBe(1);
        await clock.advance(3_600_000);
        expect(seen.starts).toBe(3);
        end(2);
        await clock.advance(1);
        await worker.stop();
        expect(errors).toEqual([]);
      },
    );
  });

  describe("the cost of many waiting jobs", () => {
    it("5,000 jobs under 5 a second cost two calls for each start and one a second for each worker", async () => {
      const house = open();
      const limits = defineLimits({ api: { max: 5, per: "1s", types: ["call"] } });
      const storages = Array.from({ length: 4 }, () => counted(house));
      const starts: number[] = [];
      const handler = async () => void starts.push(house.clock.now());
      const workers = storages.map((storage) => work(house, handler, { storage, limits, concurrency: 3 }));
      await house.queue.addBulk(many(5_000, "call"));
      await house.clock.advance(100);
      const calls = () => storages.reduce((sum, storage) => sum + storage.calls.length, 0);
      const [callsBefore, startsBefore] = [calls(), starts.length];
      await house.clock.advance(SECONDS * 1_000);
      const grants = starts.length - startsBefore;
      expect(grants).toBe(5 * SECONDS);
      expect(worstWindow(starts, 1_000)).toBe(5);
      expect(calls() - callsBefore).toBeLessThanOrEqual(2 * grants + workers.length * SECONDS);
      for (const { worker } of workers) await worker.stop();
    });
  });

  describe("10,000 jobs of a full group, or a full type, in front of a free one", () => {
    it("10,000 blocked jobs do not keep a job of another group or type from starting at once", async () => {
      const house = open();
      const starts: string[] = [];
      const limits = defineLimits({
        tenant: { max: 1, per: "1h", by: "group", types: ["call"] },
        api: { max: 1, per: "1h", types: ["crawl"] },
      });
      const storage = counted(house);
      const handler = async ({ type, group }: { type: string; group: string | undefined }) => {
        starts.push(`${type} ${group} ${house.clock.now()}`);
      };
      const { worker } = work(house, handler, { storage, limits });
      await house.queue.addBulk(many(10_000, "call", { group: "full" }));
      await house.queue.addBulk(many(10_000, "crawl"));
      await house.clock.advance(5_000);
      expect(starts.toSorted()).toEqual(["call full 0", "crawl undefined 0"]);
      const before = storage.calls.filter(({ member }) => member === "claim").length;
      await house.queue.add("call", null, { group: "free" });
      await house.clock.advance(0);
      expect(starts).toContain("call free 5000");
      await house.queue.add("other", null);
      await house.clock.advance(30);
      expect(starts.at(-1)).toMatch(/^other undefined 50[0-3]\d$/);
      expect(storage.calls.filter(({ member }) => member === "claim").length - before).toBeLessThanOrEqual(4);
      await worker.stop();
    });
  });

  describe("liveness", () => {
    it("a limit that was filled and ran dry lets one job start within a window, round after round", async () => {
      const rounds = name === "memory" ? 1_000 : 200;
      const house = open();
      const limits = defineLimits({
        api: { max: 5, per: "200ms", all: true },
        gpu: { concurrency: 3, types: ["call"] },
        tenant: { max: 3, per: "150ms", by: "group" },
      });
      const waited: number[] = [];
      const starts: number[] = [];
      const handler = async ({ data }: { data: number }) => {
        starts.push(house.clock.now());
        if (data >= 0) waited.push(house.clock.now() - data);
        await new Promise<void>((resolve) => house.clock.after(data >= 0 ? 1 : 20, resolve));
      };
      const workers = [1, 2].map(() => work(house, handler, { limits, concurrency: 4, lease: "1h" }));
      for (let round = 0; round < rounds; round++) {
        const group = round % 3 === 0 ? "a" : undefined;
        const options = group === undefined ? {} : { group };
        const size = 5 + (round % 7);
        await house.queue.addBulk(Array.from({ length: size }, () => ({ type: "call", data: -1, options })));
        await house.clock.advance(((round * 37) % 900) + 600);
        await house.queue.add("call", house.clock.now(), options);
        await house.clock.advance(300);
      }
      expect(waited).toHaveLength(rounds);
      expect(Math.max(...waited)).toBeLessThanOrEqual(200);
      expect(worstWindow(starts, 200)).toBe(5);
      for (const { worker, errors } of workers) {
        await worker.stop();
        expect(errors).toEqual([]);
      }
    });
  });

  describe("a claim that met a paused process", () => {
    it("a claim that met a paused process starts nothing, and is not charged to its shared limits", async () => {
      const house = open();
      const starts: number[] = [];
      const paused = deferred();
      let pause = true;
      const claim = house.storage.claim.bind(house.storage);
      house.storage.claim = async (request) => {
        const claimed = await claim(request);
        if (pause && claimed.jobs.length > 0) {
          pause = false;
          await paused.promise;
        }
        return claimed;
      };
      const limits = defineLimits({ api: { max: 2, per: "10s", concurrency: 2, all: true } });
      await house.queue.addBulk(many(2));
      const { worker } = work(house, async () => void starts.push(house.clock.now()), { limits, concurrency: 2 });
      await house.clock.advance(5_000);
      paused.resolve();
      await house.clock.advance(1);
      expect(starts).toEqual([5_000, 5_000]);
      expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1, 1]);
      const [state] = await house.storage.limits.read({ name: "api", group: null });
      expect(state!.states[0]).toMatchObject({ used: 2, held: 0 });
      await worker.stop();
    });

    it("jobs without limits start however slow the storage always is", async () => {
      const house = open();
      const storage = faultyStorage(
        house.storage,
        ({ member }) => (member === "claim" ? { kind: "delay-answer", ms: 3_000 } : undefined),
        { clock: house.clock },
      );
      await house.queue.addBulk(many(1));
      const { worker } = work(house, async () => {}, { storage, concurrency: 5 });
      await house.clock.advance(3_001);
      expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1]);
      expect(storage.calls.filter(({ member }) => member === "claim")).toHaveLength(2);
      await Promise.all([worker.stop(), house.clock.advance(10_000)]);
      expect((await house.queue.counts()).completed).toBe(1);
    });

    it("a worker that stops while its limiter records starts gives everything back", async () => {
      const house = open();
      const six = sixMethods({
        recordJobStart: () => new Promise<void>(() => {}),
        getNextAvailableTime: async () => new Date(house.clock.wall()),
      });
      let called = 0;
      const limits = defineLimits({ api: { max: 2, per: "10s", concurrency: 2, all: true } });
      await house.queue.addBulk(many(1));
      const { worker } = work(house, async () => void (called += 1), { limits, limiter: six });
      await house.clock.advance(10);
      expect((await house.queue.counts()).active).toBe(1);
      await Promise.all([worker.stop({ timeout: 0 }), house.clock.advance(5_000)]);
      expect([called, (await house.queue.counts()).waiting]).toEqual([0, 1]);
      const [state] = await house.storage.limits.read({ name: "api", group: null });
      expect(state!.states[0]).toMatchObject({ used: 0, held: 0 });
    });

    it("a worker that stops before its handlers were called gives back what its claim took", async () => {
      const house = open();
      const answer = deferred();
      const claim = house.storage.claim.bind(house.storage);
      house.storage.claim = async (request) => {
        const claimed = await claim(request);
        if (claimed.jobs.length > 0) await answer.promise;
        return claimed;
      };
      const limits = defineLimits({ api: { max: 2, per: "10s", concurrency: 2, all: true } });
      await house.queue.addBulk(many(2));
      const { worker } = work(house, async () => {}, { limits, concurrency: 2 });
      await house.clock.advance(10);
      const stopped = worker.stop();
      answer.resolve();
      await Promise.all([stopped, house.clock.advance(5_000)]);
      const [state] = await house.storage.limits.read({ name: "api", group: null });
      expect(state!.states[0]).toMatchObject({ used: 0, held: 0, free: 2 });
      expect((await house.queue.counts()).waiting).toBe(2);
    });
  });
});
