import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defineLimits } from "../../src/index.ts";
import type { ClaimRequest, Lease, Outcome } from "../../src/storage/job-storage.ts";
import { jobOf, STORAGES } from "./support.ts";

const SLOTS = 3;
const LEASE_MS = 60;
const JOBS = 8;

const REQUEST: Omit<ClaimRequest, "max"> = {
  queue: "q",
  worker: "w",
  types: null,
  leaseMs: LEASE_MS,
  limits: [],
  settle: [],
};

const ENDS = ["completed", "retry", "back", "unstarted", "cancelled"] as const;

function ended({ id, token }: Lease, end: (typeof ENDS)[number]): Outcome {
  const error = { name: "Error", message: "failed", code: "E_FAILED" };
  const back = { to: "back", inMs: 0, held: false, error: null, hold: null } as const;
  switch (end) {
    case "completed":
      return { id, token, to: "completed", result: null };
    case "retry":
      return { id, token, to: "retry", inMs: 0, error };
    case "cancelled":
      return { id, token, to: "cancelled", error: null };
    case "back":
      return { id, token, ...back, unstarted: false };
    case "unstarted":
      break;
  }
  return { id, token, ...back, unstarted: true };
}

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("claim" as const), max: fc.integer({ min: 1, max: 5 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      which: fc.nat(9),
      to: fc.constantFrom(...ENDS),
      times: fc.integer({ min: 1, max: 3 }),
      /** In the step of a claim, as a worker does. */
      claims: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("heartbeat" as const), which: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(JOBS - 1) }) },
  { weight: 1, arbitrary: fc.constant({ do: "sweep" } as const) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 70 }) }) },
);

describe.each(STORAGES)("slots of a shared limit ($name)", ({ open, runs }) => {
  it("slots are never exceeded, never leak, and are released once: late, twice, by a zombie or by the sweep", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 24 }), async (steps) => {
        const { storage, clock } = await open();
        const { rules } = defineLimits({ gpu: { concurrency: SLOTS, types: ["work"] } });
        await storage.limits.define(rules);
        await storage.add(Array.from({ length: JOBS }, (_, i) => ({ ...jobOf(String(i)), maxAttempts: 100 })));
        const leases: Lease[] = [];
        const active = async () => (await storage.overview("q"))[0]!.counts.active;
        const gpu = async () => (await storage.limits.read({ name: "gpu", group: null }))[0]!.states[0];
        for (const one of steps) {
          if (one.do === "wait") await clock.advance(one.ms);
          else if (one.do === "sweep") await storage.sweep();
          else if (one.do === "cancel") {
            await storage.change({ action: "cancel", queue: "q", ids: [String(one.which)] });
          } else if (one.do === "claim") {
            leases.push(...(await storage.claim({ ...REQUEST, max: one.max })).jobs);
          } else if (leases.length > 0) {
            const lease = leases[one.which % leases.length]!;
            if (one.do === "heartbeat") await storage.heartbeat([lease], LEASE_MS);
            else {
              const outcome = ended(lease, one.to);
              for (let time = 0; time < one.times; time++) {
                if (one.claims) leases.push(...(await storage.claim({ ...REQUEST, max: 1, settle: [outcome] })).jobs);
                else await storage.settle([outcome]);
              }
            }
          }
          const running = await active();
          expect(running).toBeLessThanOrEqual(SLOTS);
          expect((await gpu())?.held ?? 0).toBe(running);
        }
        // The holders are dead: all slots are back within a lease and a sweep, and all can be taken again.
        await clock.advance(LEASE_MS);
        await storage.sweep();
        expect(await gpu()).toMatchObject({ held: 0, free: SLOTS });
        await storage.add(Array.from({ length: JOBS }, (_, i) => jobOf(`again ${i}`)));
        expect((await storage.claim({ ...REQUEST, max: JOBS })).jobs).toHaveLength(SLOTS);
        await storage.close();
      }),
      { numRuns: Math.ceil(runs / 10) },
    );
  });

  it("slots come back when 500 holders are killed one after the other", async () => {
    const { storage, clock } = await open();
    const { rules } = defineLimits({
      gpu: { concurrency: 5, types: ["work"] },
      each: { concurrency: 2, by: "group", types: ["work"] },
    });
    await storage.limits.define(rules);
    const groups = ["a", "b", "c", null];
    const job = (_: unknown, i: number) => ({ ...jobOf(String(i)), group: groups[i % 4]!, maxAttempts: 1_000 });
    await storage.add(Array.from({ length: 40 }, job));
    let killed = 0;
    for (let round = 0; killed < 500; round++) {
      const { jobs: got } = await storage.claim({ ...REQUEST, worker: `w${round}`, max: 3 });
      killed += got.length;
      const { counts } = (await storage.overview("q"))[0]!;
      expect(counts.active).toBeLessThanOrEqual(5);
      await clock.advance(7 + ((round * 13) % 40));
      await storage.sweep();
    }
    await clock.advance(LEASE_MS);
    await storage.sweep();
    const states = await storage.limits.read({ name: null, group: null });
    expect(states.flatMap((limit) => limit.states).every(({ held }) => held === 0)).toBe(true);
    const again = await storage.claim({ ...REQUEST, max: 40 });
    expect(again.jobs).toHaveLength(5);
    await storage.close();
  });
});
