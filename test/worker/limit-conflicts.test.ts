import { describe, expect, it, vi } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  defineLimits,
  type JobEvents,
  LimitConflictError,
  type LimitDeclared,
  type LimitDefinitions,
  Limits,
  OptionsError,
  SharedLimiter,
  Worker,
} from "../../src/index.ts";
import { declaredText } from "../../src/storage/declaring.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { type House, HOUSES, many, work } from "./support.ts";

const FIVE = { api: { max: 5, per: "1s", all: true } } as const;
const NINE = { api: { max: 9, per: "1s", all: true } } as const;
const REJECTED = defineLimits(NINE, { onConflict: "reject" });

/** How much the limit allows now. */
async function maxOf({ storage }: House): Promise<number | null> {
  const [state] = await storage.limits.read({ name: "api", group: null });
  return state!.rule.quota.max;
}

describe.each(HOUSES)("$name", ({ open }) => {
  describe("limits that a worker declares", () => {
    it("any number of workers may declare the same limits", async () => {
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

    it("a limit that is declared with another number replaces the stored one, and the worker runs and reports the change", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      await house.queue.addBulk(many(9));
      const changed: JobEvents["limit-changed"][] = [];
      house.queue.on("limit-changed", (event) => changed.push(event));
      const changes: LimitDeclared[] = [];
      const { worker, errors } = work(house, async () => {}, {
        limits: NINE,
        concurrency: 9,
        onLimitChange: (declared) => changes.push(declared),
      });
      await house.clock.advance(10);
      expect([(await house.queue.counts()).completed, await maxOf(house), errors]).toEqual([9, 9, []]);
      const change = { limit: "api", kind: "declared", by: `worker ${worker.id}` };
      expect(changes).toMatchObject([{ outcome: "changed", ...change }]);
      expect(changed).toMatchObject([{ ...change, from: { quota: { max: 5 } }, to: { quota: { max: 9 } } }]);
      await worker.stop();
    });

    it("a changed limit is a line on the console if the worker has no listener", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const line = vi.spyOn(console, "info").mockImplementation(() => {});
      const { worker } = work(house, async () => {}, { limits: NINE });
      await house.clock.advance(10);
      expect(line.mock.calls).toEqual([[`sluice: the limit "api" was declared (max 5 -> 9), by worker ${worker.id}`]]);
      line.mockRestore();
      await worker.stop();
    });

    it("a worker starts though its listener for limit changes throws", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const onLimitChange = () => {
        throw new Error("no");
      };
      const { worker, errors } = work(house, async () => {}, { limits: NINE, onLimitChange, autostart: false });
      await worker.start();
      expect([await maxOf(house), errors]).toEqual([9, []]);
      await worker.stop();
    });

    it("a worker declares its limits once, so that two workers that differ do not replace them in turns", async () => {
      const house = open();
      const onLimitChange = () => {};
      const workers = [FIVE, NINE].map((limits) => work(house, async () => {}, { limits, onLimitChange }));
      await house.queue.addBulk(many(50));
      await house.clock.advance(60_000);
      expect((await house.queue.counts()).completed).toBe(50);
      expect(await new Limits(house.storage).history("api")).toHaveLength(2);
      for (const { worker } of workers) await worker.stop();
    });

    it("a worker that declares a lower version runs under the stored limits and reports that", async () => {
      const house = open();
      const changes: LimitDeclared[] = [];
      const kept: JobEvents["limit-kept"][] = [];
      house.queue.on("limit-kept", (event) => kept.push(event));
      const onLimitChange = (declared: LimitDeclared) => changes.push(declared);
      const ran: number[] = [];
      const handler = async () => void ran.push(house.clock.now());
      const start = (version: number, limits: LimitDefinitions) =>
        work(house, handler, { limits: defineLimits(limits, { version }), concurrency: 20, onLimitChange });
      const old = start(1, FIVE);
      await house.clock.advance(10);
      const anew = start(2, NINE);
      await house.clock.advance(10);
      // An old process starts once more, while the new one runs.
      await old.worker.stop();
      changes.length = 0;
      const again = start(1, FIVE);
      await house.clock.advance(10);
      expect(changes).toMatchObject([{ outcome: "kept", limit: "api", version: 1, keptVersion: 2 }]);
      expect(declaredText(changes[0]!)).toBe(
        `the limit "api" stays as version 2 declared it; the declaration by worker ${again.worker.id} is version 1 (max 9 -> 5)`,
      );
      expect(kept).toMatchObject([{ limit: "api", declared: { quota: { max: 5 } }, kept: { quota: { max: 9 } } }]);
      await anew.worker.stop();
      // Only the old one is left, and goes by the new number.
      await house.queue.addBulk(many(20));
      await house.clock.advance(10);
      expect([ran.length, await maxOf(house)]).toEqual([9, 9]);
      expect([...old.errors, ...anew.errors, ...again.errors]).toEqual([]);
      await again.worker.stop();
    });

    it("limits that their owner no longer declares are removed, and jobs that waited for them start", async () => {
      const house = open();
      const onLimitChange = () => {};
      const full = { ...FIVE, full: { concurrency: 0, types: ["t"] } } as const;
      const before = work(house, async () => {}, { limits: defineLimits(full, { owner: "billing" }) });
      await house.queue.addBulk(many(2));
      await house.clock.advance(10);
      expect((await house.queue.counts()).waiting).toBe(2);
      const after = work(house, async () => {}, { limits: defineLimits(FIVE, { owner: "billing" }), onLimitChange });
      await house.clock.advance(10);
      expect((await house.queue.counts()).completed).toBe(2);
      expect([before.worker.limits, after.worker.limits]).toEqual([["api", "full"], ["api"]]);
      for (const { worker } of [before, after]) await worker.stop();
    });

    it('with onConflict "reject" start() rejects, onError is called, and the worker claims nothing', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      await house.queue.add("t", 1);
      const storage = faultyStorage(house.storage, () => {}, { clock: house.clock });
      const { worker, errors } = work(house, async () => {}, { storage, limits: REJECTED, autostart: false });
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

    it('with onConflict "reject" a worker that starts by itself reports the conflict', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const { worker, errors } = work(house, async () => {}, { limits: REJECTED });
      const reported: Error[] = [];
      worker.on("error", (error) => reported.push(error));
      await house.clock.advance(10);
      expect(errors).toEqual([expect.objectContaining({ code: "SLUICE_LIMIT_CONFLICT", limit: "api" })]);
      expect(reported).toEqual(errors);
      await worker.stop();
    });

    it('with onConflict "reject" the conflict is printed on the console, however soon after another error', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const storage = faultyStorage(
        house.storage,
        ({ member, nth }) => (member === "setup" && nth === 1 ? { kind: "fail-before" } : undefined),
        { clock: house.clock },
      );
      const lines = vi.spyOn(console, "error").mockImplementation(() => {});
      const { worker } = work(house, async () => {}, {
        storage,
        limits: REJECTED,
        autostart: false,
        onError: undefined,
      });
      const started = worker.start().catch((error: unknown) => error);
      await house.clock.advance(1_000);
      expect(await started).toBeInstanceOf(LimitConflictError);
      expect(lines.mock.calls.map(([, error]) => (error as Error).name)).toEqual([
        "StorageError",
        "LimitConflictError",
      ]);
      lines.mockRestore();
    });

    it('with onConflict "reject" a worker that starts by itself and has no listener is an unhandled rejection', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const lines = vi.spyOn(console, "error").mockImplementation(() => {});
      const { promise, resolve } = Promise.withResolvers<unknown>();
      const others = process.listeners("unhandledRejection");
      process.removeAllListeners("unhandledRejection").once("unhandledRejection", resolve);
      try {
        work(house, async () => {}, { limits: REJECTED, onError: undefined });
        await house.clock.advance(10);
        expect(await promise).toBeInstanceOf(LimitConflictError);
      } finally {
        for (const other of others) process.on("unhandledRejection", other);
        lines.mockRestore();
      }
    });

    it('with onConflict: "keep" the stored limits stay', async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const { worker, errors } = work(house, async () => {}, { limits: defineLimits(NINE, { onConflict: "keep" }) });
      await house.clock.advance(1);
      expect([await maxOf(house), errors]).toEqual([5, []]);
      await worker.stop();
    });

    it("limits are declared before the first claim, however often the storage fails meanwhile", async () => {
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

    it("a worker that is stopped before it began declares no limits", async () => {
      const house = open();
      const { worker } = work(house, async () => {}, { limits: FIVE });
      await worker.stop();
      await house.clock.advance(100);
      expect(await house.storage.limits.read({ name: null, group: null })).toEqual([]);
    });

    it("a shared limit is refused as the limiter of a worker of the same storage", async () => {
      const house = open();
      await house.storage.limits.define(defineLimits(FIVE).rules);
      const own = new SharedLimiter(house.storage, "api", { clock: house.clock });
      const composite = new CompositeLimiter([new ConcurrencyLimiter(2), own]);
      for (const limiter of [own, composite]) {
        expect(() => work(house, async () => {}, { limiter })).toThrow(/"api".*binds its claims by itself/);
      }
      // One of another storage is accepted as any other limiter.
      const other = open();
      const { worker } = work(other, async () => {}, { limiter: own, clock: house.clock });
      await other.queue.addBulk(many(2));
      await house.clock.advance(1);
      const [state] = await house.storage.limits.read({ name: "api", group: null });
      expect(state!.states[0]!.used).toBe(2);
      await worker.stop();
    });

    it("limits are checked when the worker is made", () => {
      const { storage } = open();
      const wrong = (limits: unknown) => () => new Worker("q", async () => {}, { storage, limits: limits as never });
      expect(wrong({ api: { max: 5, per: "1s" } })).toThrow(OptionsError);
      expect(wrong({ api: { max: 5, every: "1s", all: true } })).toThrow(/per/);
      expect(wrong(7)).toThrow(/limits/);
      expect(wrong([])).toThrow(OptionsError);
    });
  });
});
