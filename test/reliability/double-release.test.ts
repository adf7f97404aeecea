import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Outcome } from "../../src/storage/job-storage.ts";
import { jobOf, Reference, STORAGES } from "./support.ts";

const MAX = 3;
const WINDOW_MS = 100;
const LEASE_MS = 60;

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ do: "take" } as const) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(7) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 70 }) }) },
);

const jobStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("claim" as const), max: fc.integer({ min: 1, max: 3 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      which: fc.nat(9),
      unstarted: fc.boolean(),
      times: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "sweep" } as const) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 70 }) }) },
);

describe.each(STORAGES)("what is given back twice or late ($name)", ({ open, runs }) => {
  it("a start is given back once, however often and whenever it is cancelled", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 24 }), async (steps) => {
        const { storage, clock } = await open();
        const { rates } = storage;
        const reference = new Reference(MAX, WINDOW_MS);
        const tokens: string[] = [];
        for (const one of steps) {
          if (one.do === "wait") await clock.advance(one.ms);
          else if (one.do === "take") {
            const { granted, token } = await rates.tryRecordExecution("l", { maxExecutions: MAX, windowMs: WINDOW_MS });
            expect(granted).toBe(reference.available(clock.now()) > 0);
            if (!granted) continue;
            reference.start(token, clock.now());
            tokens.push(token!);
          } else if (tokens.length > 0) {
            const token = tokens[one.which % tokens.length]!;
            await rates.cancelExecution("l", token);
            reference.undo(token);
          }
        }
      }),
      { numRuns: runs },
    );
  });

  it("a lease is settled once, and a second, late or foreign settle changes nothing", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(jobStep, { maxLength: 24 }), async (steps) => {
        const { storage, clock } = await open();
        await storage.add(Array.from({ length: 8 }, (_, i) => jobOf(String(i))));
        const reference = new Reference(MAX, WINDOW_MS);
        const leases: { id: string; token: number }[] = [];
        const open_ = new Set<number>();
        for (const one of steps) {
          if (one.do === "wait") await clock.advance(one.ms);
          else if (one.do === "sweep") await storage.sweep();
          else if (one.do === "claim") {
            const limits = [{ key: "l", max: MAX, windowMs: WINDOW_MS }];
            const request = { queue: "q", worker: "w", types: null, leaseMs: LEASE_MS, limits, settle: [] };
            const { jobs } = await storage.claim({ ...request, max: one.max });
            expect(jobs.length).toBeLessThanOrEqual(reference.available(clock.now()));
            for (const { id, token } of jobs) {
              reference.start(token, clock.now());
              leases.push({ id, token });
              open_.add(token);
            }
          } else if (leases.length > 0) {
            const lease = leases[one.which % leases.length]!;
            const { unstarted } = one;
            const outcome: Outcome = { ...lease, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted };
            for (let time = 0; time < one.times; time++) {
              const stale = await storage.settle([outcome]);
              if (stale.length > 0) continue;
              expect(open_.has(lease.token)).toBe(true);
              open_.delete(lease.token);
              if (one.unstarted) reference.undo(lease.token);
            }
          }
        }
        const { counts } = (await storage.overview("q"))[0]!;
        expect(counts.active).toBeLessThanOrEqual(open_.size);
        expect(counts.waiting + counts.active + counts.dead).toBe(8);
      }),
      { numRuns: runs },
    );
  });
});
