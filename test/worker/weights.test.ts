import { describe, expect, it } from "vitest";
import {
  defineLimits,
  type JobContext,
  OptionsError,
  RateLimitedError,
  StaleLeaseError,
  Worker,
} from "../../src/index.ts";
import { deferred, type House, HOUSES, many, work } from "./support.ts";

const TOKENS = defineLimits({ tokens: { max: 1_000, per: "1m", weight: "tokens", estimate: 300, types: ["chat"] } });

async function used({ storage }: House): Promise<number> {
  const [state] = await storage.limits.read({ name: "tokens", group: null });
  return state!.states[0]?.used ?? 0;
}

/** Jobs that run until they are ended; what they can do meanwhile. */
function talking(house: House) {
  const contexts: JobContext[] = [];
  const over = deferred();
  const { worker, errors } = work(
    house,
    async (_, context) => {
      contexts.push(context);
      await over.promise;
    },
    { concurrency: 20, limits: TOKENS },
  );
  const end = async () => {
    over.resolve();
    await house.clock.advance(1);
    await worker.stop();
    expect(errors).toEqual([]);
  };
  return { contexts, end };
}

describe.each(HOUSES)("$name", ({ open }) => {
  describe("weights", () => {
    it("weights are reserved by the estimate or the job's own number, and no more starts than fits", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      await house.queue.addBulk([...many(1, "chat", { weights: { tokens: 550 } }), ...many(5, "chat")]);
      await house.clock.advance(59_999);
      expect(contexts).toHaveLength(2);
      expect(await used(house)).toBe(850);
      await house.clock.advance(1);
      expect(contexts).toHaveLength(5);
      await end();
    });

    it("a weight that is settled lower is available again at once", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      await house.queue.addBulk(many(5, "chat"));
      await house.clock.advance(10);
      expect(contexts).toHaveLength(3);
      await contexts[0]!.settle({ tokens: 100 });
      await house.clock.advance(1);
      expect(contexts).toHaveLength(4);
      expect(await used(house)).toBe(1_000);
      await contexts[1]!.settle({ tokens: 0 });
      await house.clock.advance(1);
      expect(contexts).toHaveLength(5);
      await end();
    });

    it("a weight that is settled higher is charged at once, as debt if need be", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      await house.queue.addBulk(many(2, "chat"));
      await house.clock.advance(10);
      await contexts[0]!.settle({ tokens: 900 });
      expect(await used(house)).toBe(1_200);
      await house.queue.addBulk(many(1, "chat", { weights: { tokens: 1 } }));
      await house.clock.advance(59_989);
      expect(contexts).toHaveLength(2);
      await house.clock.advance(1);
      expect(contexts).toHaveLength(3);
      await end();
    });

    it("weights may be settled again, the last value holds, and names without a limit are ignored", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      await house.queue.addBulk(many(1, "chat"));
      await house.clock.advance(10);
      const [context] = contexts;
      await Promise.all([context!.settle({ tokens: 900, other: 7 }), context!.settle({ tokens: 40 })]);
      expect(await used(house)).toBe(40);
      await context!.settle({ tokens: 70 });
      await context!.settle({ nonsense: 1 });
      expect(await used(house)).toBe(70);
      await end();
    });

    it("the estimate holds when the handler settles nothing, fails, or is lost with its worker", async () => {
      const house = open();
      const { worker } = work(
        house,
        async (job) => {
          if (job.data === 1) throw new Error("failed");
          if (job.data === 2) await new Promise(() => {});
        },
        { concurrency: 3, limits: TOKENS, lease: "10d" },
      );
      await house.queue.addBulk(many(3, "chat", { maxAttempts: 1 }));
      await house.clock.advance(1_000);
      expect(await used(house)).toBe(900);
      await Promise.all([worker.stop({ timeout: 0 }), house.clock.advance(10_000)]);
      expect(await used(house)).toBe(900);
    });

    it("settled weights are written before the job ends, though the handler did not await that", async () => {
      const house = open();
      const { worker } = work(house, async (_, context) => void context.settle({ tokens: 10 }), { limits: TOKENS });
      const job = await house.queue.add("chat", null);
      await house.clock.advance(1);
      expect((await job.info())?.state).toBe("completed");
      expect(await used(house)).toBe(10);
      await worker.stop();
    });

    it("weights of a start that the service refused under another limit are available when the job is tried again", async () => {
      const house = open();
      const limits = defineLimits({
        requests: { max: 100, per: "10s", types: ["chat"] },
        tokens: { max: 1_000, per: "10s", weight: "tokens", types: ["chat"] },
      });
      let calls = 0;
      let finishedAt = Number.POSITIVE_INFINITY;
      const { worker, errors } = work(
        house,
        async () => {
          calls += 1;
          if (calls === 1) throw new RateLimitedError(200, { limit: "requests" });
          finishedAt = house.clock.now();
        },
        { limits },
      );
      await house.queue.add("chat", null, { weights: { tokens: 600 } });
      await house.clock.advance(20_000);
      expect([calls, finishedAt]).toEqual([2, expect.toSatisfy((at: number) => at >= 200 && at < 250)]);
      await worker.stop();
      expect(errors).toEqual([]);
    });

    it("weights of a refused start that ctx.settle named stay charged, awaited or not", async () => {
      const house = open();
      const { worker, errors } = work(
        house,
        async (_, { settle }) => {
          void settle({ tokens: 250 });
          throw new RateLimitedError(60_000, { limit: "elsewhere" });
        },
        { limits: TOKENS },
      );
      await house.queue.add("chat", null, { weights: { tokens: 600 } });
      await house.clock.advance(10);
      expect(await used(house)).toBe(250);
      await worker.stop();
      expect(errors).toEqual([]);
    });

    it("weights of refused starts in a batch are given back job by job", async () => {
      const house = open();
      const worker = new Worker(
        "q",
        async (jobs, context) => {
          await context.of(jobs[0]!).settle({ tokens: 40 });
          return jobs.map(() => new RateLimitedError(60_000, { limit: "elsewhere" }));
        },
        { storage: house.storage, clock: house.clock, batch: { size: 3 }, limits: TOKENS },
      );
      await house.queue.addBulk(many(3, "chat"));
      await house.clock.advance(10);
      expect(await used(house)).toBe(40);
      await worker.stop();
    });

    it("weights of a batch are charged by job", async () => {
      const house = open();
      const worker = new Worker(
        "q",
        async (jobs, context) => {
          await Promise.all(jobs.map((job, i) => context.of(job).settle({ tokens: 10 * (i + 1) })));
        },
        { storage: house.storage, clock: house.clock, batch: { size: 5 }, limits: TOKENS },
      );
      await house.queue.addBulk(many(3, "chat"));
      await house.clock.advance(1);
      expect(await used(house)).toBe(60);
      await worker.stop();
    });

    it("a handler that lost its lease cannot settle weights", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      const job = await house.queue.add("chat", null);
      await house.clock.advance(1);
      const [mine] = contexts;
      const found = (await house.storage.find([job.id]))[0]!;
      const back = { to: "back", inMs: 60_000, held: false, error: null, hold: null, unstarted: false } as const;
      expect(await house.storage.settle([{ ...back, id: found.id, token: found.token }])).toEqual([]);
      await expect(mine!.settle({ tokens: 1 })).rejects.toThrow(StaleLeaseError);
      expect(await used(house)).toBe(300);
      await end();
    });

    it("a weight that can never fit is refused when the job is added, and ends the job if the limit has shrunk since", async () => {
      const house = open();
      await house.storage.limits.define(TOKENS.rules);
      await expect(house.queue.add("chat", null, { weights: { tokens: 1_001 } })).rejects.toThrow(OptionsError);
      const job = await house.queue.add("chat", null, { weights: { tokens: 800 } });
      await house.storage.limits.change("tokens", { quota: { max: 500 }, group: null });
      const { contexts, end } = talking(house);
      await house.clock.advance(10);
      expect(contexts).toHaveLength(0);
      const info = await job.info();
      expect(info).toMatchObject({ state: "dead", attempt: 0 });
      expect(info?.error?.message).toContain('"tokens"');
      await end();
    });

    it("invalid weights are ignored with a warning in the log, and the estimate holds", async () => {
      const house = open();
      const { contexts, end } = talking(house);
      const job = await house.queue.add("chat", null);
      await house.clock.advance(1);
      const hostile = Object.defineProperty({}, "tokens", { enumerable: true, get: () => contexts[9]!.attempt });
      const wrong = [
        { tokens: -1 },
        { tokens: 1.5 },
        { tokens: "7" },
        { tokens: Number.NaN },
        { "": 1 },
        [1],
        null,
        5,
        hostile,
      ];
      for (const weights of wrong) await contexts[0]!.settle(weights as never);
      expect(await used(house)).toBe(300);
      await contexts[0]!.settle({ tokens: 40, images: Number.NaN });
      expect(await used(house)).toBe(40);
      const { log } = await job.history();
      expect(log.map(({ text }) => text)).toEqual([
        expect.stringMatching(/^warning: weights\.tokens was ignored: expected/),
      ]);
      await end();
    });
  });
});
