import { describe, expect, it } from "vitest";
import { ConcurrencyLimiter, defineLimits, Queue, RateLimitedError } from "../../src/index.ts";
import { type House, HOUSES, many, work } from "./support.ts";

/** Notes when jobs started, by type; the first of these types fails with this. */
function failing(house: House, type: string, error: () => Error) {
  const starts: Record<string, number[]> = {};
  let failed = false;
  const handler = async (job: { type: string; group: string | undefined }) => {
    const name = job.group === undefined ? job.type : `${job.type}/${job.group}`;
    (starts[name] ??= []).push(house.clock.now());
    if (name !== type || failed) return;
    failed = true;
    throw error();
  };
  return { starts, handler };
}

const LIMITS = defineLimits({
  mail: { max: 100, per: "1s", types: ["mail", "digest"] },
  pay: { max: 100, per: "1s", types: ["pay"] },
  tenant: { max: 100, per: "1s", by: "group", types: ["call"] },
  calls: { max: 100, per: "1s", types: ["call"] },
});

/** When something of the limit can start. */
async function heldFor({ storage }: House, name: string, group: string | null = null): Promise<number> {
  const [state] = await storage.limits.read({ name, group });
  return state!.states.find((one) => one.group === group)?.heldForMs ?? 0;
}

describe.each(HOUSES)("$name", ({ open }) => {
  const open2 = () => {
    const house = open();
    return { ...house, other: new Queue("other", { storage: house.storage, clock: house.clock }) };
  };

  describe("a RateLimitedError", () => {
    it("a RateLimitedError with a name holds that limit, for every queue and worker, and nothing else", async () => {
      const house = open2();
      const { starts, handler } = failing(house, "mail", () => new RateLimitedError(30_000, { limit: "mail" }));
      const workers = ["q", "other"].map((queue) => work(house, handler, { queue, limits: LIMITS, concurrency: 5 }));
      const job = await house.queue.add("mail", 1);
      await house.clock.advance(10);
      await house.other.addBulk([...many(1, "digest"), ...many(1, "pay"), ...many(1, "call")]);
      await house.clock.advance(29_980);
      expect(starts).toEqual({ mail: [0], pay: [10], call: [10] });
      await house.clock.advance(20);
      expect(starts).toEqual({ mail: [0, 30_000], digest: [30_000], pay: [10], call: [10] });
      expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
      for (const { worker, errors } of workers) {
        await worker.stop();
        expect(errors).toEqual([]);
      }
    });

    it("a RateLimitedError without a name holds the worker's limiter and all limits of the job that are not by group", async () => {
      const house = open2();
      const { starts, handler } = failing(house, "call/acme", () => new RateLimitedError(5_000));
      const limiter = { max: 50, duration: "1s" } as const;
      const workers = ["q", "other"].map((queue) => work(house, handler, { queue, limits: LIMITS, limiter }));
      await house.queue.addBulk(many(1, "call", { group: "acme" }));
      await house.clock.advance(10);
      // Others that run under `calls`, in any queue; and whatever else the worker's own limiter holds for.
      await house.other.addBulk([...many(1, "call", { group: "b" }), ...many(1, "pay")]);
      await house.queue.addBulk(many(1, "mail"));
      await house.clock.advance(4_980);
      expect(starts).toEqual({ "call/acme": [0], pay: [10] });
      expect(await heldFor(house, "calls")).toBe(10);
      expect(await heldFor(house, "tenant", "acme")).toBe(0);
      await house.clock.advance(20);
      expect(starts).toEqual({ "call/acme": [0, 5_000], "call/b": [5_000], mail: [5_000], pay: [10] });
      for (const { worker } of workers) await worker.stop();
    });

    it("a RateLimitedError with the name of a limit by group holds it for the group of the job", async () => {
      const house = open2();
      const { starts, handler } = failing(house, "call/acme", () => new RateLimitedError(5_000, { limit: "tenant" }));
      const { worker } = work(house, handler, { limits: LIMITS, concurrency: 5 });
      await house.queue.addBulk(many(1, "call", { group: "acme" }));
      await house.clock.advance(10);
      for (const group of ["acme", "b"]) await house.queue.addBulk(many(1, "call", { group }));
      await house.clock.advance(4_980);
      expect(starts).toEqual({ "call/acme": [0], "call/b": [10] });
      await house.clock.advance(20);
      expect(starts["call/acme"]).toEqual([0, 5_000, 5_000]);
      await worker.stop();
    });

    it("a RateLimitedError takes its delay from a response, and a hold is only ever extended", async () => {
      const house = open2();
      const answers = ["20", "3"];
      const handler = async () => {
        const seconds = answers.shift();
        if (seconds === undefined) return;
        throw new RateLimitedError(new Response("", { status: 429, headers: { "Retry-After": seconds } }));
      };
      const { worker } = work(house, handler, { limits: LIMITS, concurrency: 2 });
      await house.queue.addBulk(many(2, "mail"));
      await house.clock.advance(10);
      expect(answers).toEqual([]);
      expect(await heldFor(house, "mail")).toBe(19_990);
      await house.clock.advance(19_989);
      expect((await house.queue.counts()).completed).toBe(0);
      await house.clock.advance(1);
      expect((await house.queue.counts()).completed).toBe(2);
      expect((await house.queue.list()).jobs.map(({ attempt }) => attempt)).toEqual([1, 1]);
      await worker.stop();
    });

    it("a RateLimitedError holds the worker's own limiter together with the shared limits", async () => {
      const house = open2();
      const limiter = new ConcurrencyLimiter(5, { clock: house.clock });
      const { starts, handler } = failing(house, "mail", () => new RateLimitedError(5_000));
      const { worker } = work(house, handler, { limits: LIMITS, limiter, concurrency: 5 });
      await house.queue.addBulk(many(1, "mail"));
      await house.clock.advance(10);
      await house.queue.addBulk(many(1, "pay"));
      await house.clock.advance(4_000);
      expect(starts).toEqual({ mail: [0] });
      await house.clock.advance(1_000);
      expect([starts["mail"]?.length, starts["pay"]?.length]).toEqual([2, 1]);
      await worker.stop();
    });
  });

  describe("a breaker", () => {
    const limits = defineLimits({
      api: { max: 1_000, per: "1s", types: ["call"], breaker: { failures: 3, open: "10s", kinds: ["Overloaded"] } },
    });
    class Overloaded extends Error {
      override readonly name = "Overloaded";
    }

    it("a breaker opens after so many failures of a kind in a row, lets one probe through, and closes when the probe succeeds", async () => {
      const house = open2();
      const starts: number[] = [];
      let down = true;
      const handler = async () => {
        starts.push(house.clock.now());
        if (down) throw new Overloaded("down");
      };
      const defaults = { backoff: { kind: "fixed", delay: 0 } as const, maxAttempts: 20 };
      const workers = ["q", "other"].map((queue) => work(house, handler, { queue, limits }));
      await house.queue.addBulk(many(5, "call", defaults));
      await house.clock.advance(9_000);
      expect(starts).toHaveLength(3);
      await house.clock.advance(9_000);
      // One probe, and that failed.
      expect(starts).toHaveLength(4);
      down = false;
      await house.clock.advance(10_000);
      expect((await house.queue.counts()).completed).toBe(5);
      for (const { worker } of workers) await worker.stop();
    });

    it("a breaker does not count failures of another kind, nor jobs that are given back", async () => {
      const house = open2();
      let calls = 0;
      const handler = async () => {
        calls += 1;
        if (calls <= 6) throw calls % 2 === 0 ? new Error("of another kind") : new RateLimitedError(0);
      };
      const { worker } = work(house, handler, { limits });
      await house.queue.addBulk(many(1, "call", { backoff: { kind: "fixed", delay: 0 }, maxAttempts: 20 }));
      await house.clock.advance(100);
      expect((await house.queue.counts()).completed).toBe(1);
      await worker.stop();
    });
  });

  describe("a limit that is changed while a worker sleeps under it", () => {
    const limits = defineLimits({ api: { max: 2, per: "1h", types: ["call"] } });

    async function blocked() {
      const house = open();
      const starts: number[] = [];
      const { worker } = work(house, async () => void starts.push(house.clock.now()), { limits, concurrency: 10 });
      await house.queue.addBulk(many(8, "call"));
      await house.clock.advance(60_000);
      expect(starts).toEqual([0, 0]);
      return { house, starts, worker };
    }

    it("a limit that is widened lets more jobs start at once, until it is restored", async () => {
      const { house, starts, worker } = await blocked();
      await house.storage.limits.change("api", { quota: { max: 5 }, group: null });
      await house.clock.advance(1);
      expect(starts.slice(2)).toEqual([60_000, 60_000, 60_000]);
      await house.storage.limits.change("api", { restore: true });
      await house.clock.advance(3_600_000 - 60_001);
      expect(starts).toHaveLength(5);
      // The two of the beginning have left the window: three are in it, and two are allowed again.
      await house.clock.advance(60_000);
      expect(starts).toHaveLength(7);
      await worker.stop();
    });

    it("a limit that is reset counts from zero, and one that is removed no longer limits", async () => {
      const { house, starts, worker } = await blocked();
      await house.storage.limits.change("api", { reset: true, group: null });
      await house.clock.advance(1);
      expect(starts).toHaveLength(4);
      await house.storage.limits.remove("api");
      await house.clock.advance(1);
      expect(starts).toHaveLength(8);
      await worker.stop();
    });

    it("a paused limit lets nothing start, and a resumed one lets jobs start at once", async () => {
      const { house, starts, worker } = await blocked();
      await house.storage.limits.change("api", { paused: true });
      await house.clock.advance(2 * 3_600_000);
      expect(starts).toHaveLength(2);
      await house.storage.limits.change("api", { paused: false });
      await house.clock.advance(1);
      expect(starts.slice(2)).toEqual([7_260_000, 7_260_000]);
      await worker.stop();
    });

    it("a limit lets as much start as the service says is remaining", async () => {
      const { house, starts, worker } = await blocked();
      await house.storage.limits.change("api", { quota: { max: 100 }, group: null });
      await house.storage.limits.change("api", { remaining: 0, resetMs: 5_000, group: null });
      await house.clock.advance(1);
      const before = starts.length;
      await house.queue.addBulk(many(3, "call"));
      await house.clock.advance(4_000);
      expect(starts).toHaveLength(before);
      await house.clock.advance(1_000);
      expect(starts).toHaveLength(11);
      await worker.stop();
    });
  });
});
