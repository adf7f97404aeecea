import { describe, expect, it } from "vitest";
import { defineLimits, Queue, SharedLimiter, Worker } from "../../src/index.ts";
import { worstWindow } from "../limiter/support.ts";
import { gate, type House, HOUSES, many, work } from "./support.ts";

/** Handlers that note when jobs of each type, or of each group, started. */
function clocked(house: House, by: (job: { type: string; group: string | undefined }) => string) {
  const starts: Record<string, number[]> = {};
  const handler = async (job: { type: string; group: string | undefined }) => {
    (starts[by(job)] ??= []).push(house.clock.now());
  };
  return { starts, handler };
}

describe.each(HOUSES)("$name", ({ open }) => {
  describe("a shared limit", () => {
    it("a shared limit holds for its types and no others, whatever jobs come first", async () => {
      const house = open();
      const { starts, handler } = clocked(house, ({ type }) => type);
      const limits = defineLimits({ webhooks: { max: 5, per: "1m", types: ["send_webhook"] } });
      const { worker, errors } = work(house, handler, { concurrency: 10, limits });
      await house.queue.addBulk([...many(20, "send_webhook"), ...many(20, "send_email")]);
      await house.clock.advance(59_999);
      expect([starts["send_webhook"]?.length, starts["send_email"]?.length]).toEqual([5, 20]);
      expect(Math.max(...starts["send_email"]!)).toBe(0);
      await house.clock.advance(1);
      expect(starts["send_webhook"]).toHaveLength(10);
      expect(errors).toEqual([]);
      await worker.stop();
    });

    it("a shared limit is one quota for all types, queues and workers that call one service", async () => {
      const house = open();
      const all: number[] = [];
      const handler = async () => void all.push(house.clock.now());
      const limits = { email: { max: 12, per: "1s", types: ["send_email", "send_digest"] } } as const;
      const other = new Queue("other", { storage: house.storage, clock: house.clock });
      const workers = ["q", "q", "other"].map((queue) => work(house, handler, { queue, concurrency: 4, limits }));
      await house.queue.addBulk([...many(30, "send_email"), ...many(30, "send_digest")]);
      await other.addBulk(many(30, "send_email"));
      await house.clock.advance(6_999);
      expect(all).toHaveLength(84);
      expect(worstWindow(all, 1_000)).toBe(12);
      await house.clock.advance(1);
      expect(all).toHaveLength(90);
      for (const { worker, errors } of workers) {
        await worker.stop();
        expect(errors).toEqual([]);
      }
    });

    it("a shared limit binds workers that did not declare it", async () => {
      const house = open();
      const { rules } = defineLimits({ all: { max: 3, per: "1s", all: true } });
      await house.storage.limits.define(rules);
      const { starts, handler } = clocked(house, () => "all");
      const { worker } = work(house, handler, { concurrency: 10 });
      await house.queue.addBulk(many(6));
      await house.clock.advance(999);
      expect(starts["all"]).toEqual([0, 0, 0]);
      await house.clock.advance(1);
      expect(starts["all"]).toHaveLength(6);
      await worker.stop();
    });

    it("a limit by group counts each group on its own, with overrides, and jobs without a group as one group", async () => {
      const house = open();
      const { starts, handler } = clocked(house, ({ group }) => group ?? "none");
      const limits = defineLimits({ tenant: { max: 2, per: "1s", by: "group", overrides: { acme: { max: 5 } } } });
      const { worker } = work(house, handler, { concurrency: 50, limits });
      for (const group of ["acme", "b", "c"]) await house.queue.addBulk(many(10, "t", { group }));
      await house.queue.addBulk(many(10));
      await house.clock.advance(999);
      expect(Object.fromEntries(Object.entries(starts).map(([group, at]) => [group, at.length]))).toEqual({
        acme: 5,
        b: 2,
        c: 2,
        none: 2,
      });
      await house.clock.advance(3_001);
      expect(starts["acme"]).toHaveLength(10);
      expect([worstWindow(starts["b"]!, 1_000), worstWindow(starts["none"]!, 1_000)]).toEqual([2, 2]);
      expect(starts["b"]).toHaveLength(10);
      await worker.stop();
    });

    it("a concurrency limit is never exceeded by workers of several queues, and a released slot is taken at once", async () => {
      const house = open();
      const { seen, handler, end } = gate();
      const limits = defineLimits({ gpu: { concurrency: 2, types: ["infer"] } });
      const other = new Queue("other", { storage: house.storage, clock: house.clock });
      const workers = ["q", "other", "q"].map((queue) => work(house, handler, { queue, concurrency: 5, limits }));
      await house.queue.addBulk(many(10, "infer"));
      await other.addBulk(many(10, "infer"));
      for (let done = 0; done < 20; done++) {
        await house.clock.advance(1);
        expect(seen.running).toBe(Math.min(2, 20 - done));
        end();
        await house.clock.advance(0);
      }
      expect([seen.starts, seen.peak]).toEqual([20, 2]);
      const [state] = await house.storage.limits.read({ name: "gpu", group: null });
      expect(state!.states.map(({ held, free }) => [held, free])).toEqual([[0, 2]]);
      for (const { worker } of workers) await worker.stop();
    });

    it("a spacing limit keeps the starts of two workers apart", async () => {
      const house = open();
      const { starts, handler } = clocked(house, () => "all");
      const limits = defineLimits({ crawler: { every: "500ms", queues: ["q"] } });
      const workers = [1, 2].map(() => work(house, handler, { concurrency: 3, limits }));
      await house.queue.addBulk(many(4));
      await house.clock.advance(2_000);
      expect(starts["all"]).toEqual([0, 500, 1_000, 1_500]);
      for (const { worker } of workers) await worker.stop();
    });

    it("a limit may combine window, spacing and concurrency, and a start is charged to all limits or none", async () => {
      const house = open();
      const { starts, handler } = clocked(house, () => "all");
      const limits = defineLimits({
        api: { max: 4, per: "1s", every: "50ms", concurrency: 3, types: ["t"] },
        day: { max: 7, per: "1d", all: true },
      });
      const { worker } = work(house, handler, { concurrency: 10, limits });
      await house.queue.addBulk(many(10));
      await house.clock.advance(10_000);
      expect(starts["all"]).toEqual([0, 50, 100, 150, 1_000, 1_050, 1_100]);
      // What the day refused has cost the second nothing.
      const [api] = await house.storage.limits.read({ name: "api", group: null });
      expect(api!.states[0]).toMatchObject({ used: 0, held: 0 });
      await worker.stop();
    });

    it("a job starts as soon as its limit is released, however often limits are released that nothing waits for", async () => {
      const house = open();
      const { clock, storage, queue } = house;
      const limits = defineLimits({
        gpu: { concurrency: 1, types: ["infer"] },
        tenant: { concurrency: 1, by: "group", types: ["mail"] },
      });
      const { starts, handler } = clocked(house, ({ type }) => type);
      const gpu = work(house, { infer: handler }, { limits });
      const mail = work(house, { mail: handler }, { queue: "other", limits });
      const other = new Queue("other", { storage, clock });
      await clock.advance(0);
      const permit = await new SharedLimiter(storage, "gpu", { clock }).acquire();
      await queue.add("infer", null);
      for (let i = 0; i < 100; i++) {
        await other.add("mail", null, { group: `${i}` });
        await clock.advance(10);
      }
      await permit.release();
      await clock.advance(5);
      expect([starts["mail"]?.length, starts["infer"]]).toEqual([100, [1_000]]);
      await gpu.worker.stop();
      await mail.worker.stop();
    });

    it("a shared limit and the worker's own limiter hold together", async () => {
      const house = open();
      const { starts, handler } = clocked(house, () => "all");
      const limits = defineLimits({ api: { max: 3, per: "1s", all: true } });
      const { worker } = work(house, handler, { concurrency: 10, limits, limiter: { max: 4, duration: "2s" } });
      await house.queue.addBulk(many(8));
      await house.clock.advance(3_999);
      expect(starts["all"]).toEqual([0, 0, 0, 1_000, 2_000, 2_000, 2_000, 3_000]);
      await worker.stop();
    });

    it("a shared limit counts every job of a batch", async () => {
      const house = open();
      const sizes: number[] = [];
      const worker = new Worker("q", async (jobs) => void sizes.push(jobs.length), {
        storage: house.storage,
        clock: house.clock,
        batch: { size: 10 },
        limits: { api: { max: 6, per: "1s", all: true } },
      });
      await house.queue.addBulk(many(15));
      await house.clock.advance(2_000);
      expect(sizes).toEqual([6, 6, 3]);
      await worker.stop();
    });
  });
});
