import { describe, expect, it } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  defineLimits,
  LimitConflictError,
  OptionsError,
  SharedLimiter,
  Worker,
} from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { type House, HOUSES, many, work } from "./support.ts";

const FIVE = { api: { max: 5, per: "1s", all: true } } as const;
const NINE = { api: { max: 9, per: "1s", all: true } } as const;

/** How much the limit allows now. */
async function maxOf({ storage }: House): Promise<number | null> {
  const [state] = await storage.limits.read({ name: "api", group: null });
  return state!.rule.quota.max;
}

describe.each(HOUSES)("$name", ({ open }) => {
  describe("limits that a worker declares", () => {
    it("may be declared by any number of workers, in the same words", async () => {
      const house = open();
      const workers = [FIVE, defineLimits(FIVE), { api: { all: true, per: 1_000, max: 5 } } as const].map((limits) =>
        work(house, async () => {}, { limits }),
      );
      await house.queue.addBulk(many(3));
      await house.clock.advance(10);
      expect((await house.queue.counts()).completed).toBe(3);
      for (const { worker, errors } of workers) {
        expect(errors).toEqual([]);
        await worker.stop();
      }
    });

    it("in other words: start() rejects, the worker hears of it, has stopped and claims nothing", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      await house.queue.add("t", 1);
      const storage = faultyStorage(house.storage, () => {}, { clock: house.clock });
      const { worker, errors } = work(house, async () => {}, { storage, limits: NINE, autostart: false });
      await expect(worker.start()).rejects.toThrow(LimitConflictError);
      await expect(worker.start()).rejects.toThrow(/"api".*declared differently/);
      expect(errors).toEqual([expect.any(LimitConflictError)]);
      await house.clock.advance(60_000);
      expect(storage.calls.map(({ member }) => member)).toEqual(["setup", "limits.define"]);
      expect((await house.queue.counts()).waiting).toBe(1);
      expect(await maxOf(house)).toBe(5);
      await worker.onIdle();
      await worker.stop();
      expect(house.clock.timers).toBe(0);
    });

    it("in other words: a worker that starts by itself is not silent about it", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const { worker, errors } = work(house, async () => {}, { limits: NINE });
      await house.clock.advance(10);
      expect(errors).toEqual([expect.objectContaining({ code: "SLUICE_LIMIT_CONFLICT", limit: "api" })]);
      await worker.stop();
    });

    it('are replaced with onConflict: "update", and left with "keep"', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const keeps = work(house, async () => {}, { limits: defineLimits(NINE, { onConflict: "keep" }) });
      await house.clock.advance(1);
      expect(await maxOf(house)).toBe(5);
      const updates = work(house, async () => {}, { limits: defineLimits(NINE, { onConflict: "update" }) });
      await house.clock.advance(1);
      expect(await maxOf(house)).toBe(9);
      for (const { worker, errors } of [keeps, updates]) {
        expect(errors).toEqual([]);
        await worker.stop();
      }
    });

    it("are declared before the first claim, however often the storage fails meanwhile", async () => {
      const house = open();
      await house.queue.addBulk(many(9));
      const storage = faultyStorage(
        house.storage,
        ({ member, nth }) => (member === "limits.define" && nth <= 3 ? { kind: "fail-before" } : undefined),
        { clock: house.clock },
      );
      const { worker, errors } = work(house, async () => {}, { storage, limits: FIVE, concurrency: 9 });
      await house.clock.advance(900);
      expect((await house.queue.counts()).completed).toBe(5);
      expect(errors).toHaveLength(3);
      const members = storage.calls.map(({ member }) => member);
      expect(members.indexOf("claim")).toBeGreaterThan(members.lastIndexOf("limits.define"));
      await worker.stop();
    });

    it("are not declared by a worker that is stopped before it began", async () => {
      const house = open();
      const { worker } = work(house, async () => {}, { limits: FIVE });
      await worker.stop();
      await house.clock.advance(100);
      expect(await house.storage.limits.read({ name: null, group: null })).toEqual([]);
    });

    it("are no limiter for a worker of the same storage: every start would count twice", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const own = new SharedLimiter(house.storage, "api", { clock: house.clock });
      const composite = new CompositeLimiter([new ConcurrencyLimiter(2), own]);
      for (const limiter of [own, composite]) {
        expect(() => work(house, async () => {}, { limiter })).toThrow(/"api".*binds its claims by itself/);
      }
      // That of another storage is as good as any other.
      const other = open();
      const { worker } = work(other, async () => {}, { limiter: own, clock: house.clock });
      await other.queue.addBulk(many(2));
      await house.clock.advance(1);
      const [state] = await house.storage.limits.read({ name: "api", group: null });
      expect(state!.states[0]!.used).toBe(2);
      await worker.stop();
    });

    it("are checked when the worker is made", () => {
      const { storage } = open();
      const wrong = (limits: unknown) => () => new Worker("q", async () => {}, { storage, limits: limits as never });
      expect(wrong({ api: { max: 5, per: "1s" } })).toThrow(OptionsError);
      expect(wrong({ api: { max: 5, every: "1s", all: true } })).toThrow(/per/);
      expect(wrong(7)).toThrow(/limits/);
      expect(wrong([])).toThrow(OptionsError);
    });
  });
});
