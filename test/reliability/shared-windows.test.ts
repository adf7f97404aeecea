import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defineLimits } from "../../src/index.ts";
import type { ClaimRequest } from "../../src/storage/job-storage.ts";
import { jobOf, STORAGES } from "./support.ts";

const WINDOW_MS = 100;
const REQUEST: Omit<ClaimRequest, "max"> = {
  queue: "q",
  worker: "w",
  types: null,
  leaseMs: 10_000,
  limits: [],
  settle: [],
};

const burst = fc.record({
  edge: fc.integer({ min: 1, max: 4 }),
  offset: fc.constantFrom(-1, -0.5, -0.001, 0, 0.001, 0.5, 1),
  calls: fc.integer({ min: 1, max: 6 }),
});

describe.each(STORAGES)("claims around the edges of windows ($name)", ({ open, runs }) => {
  it("claims never exceed a window, for all or by group, and get the exact wake-up time", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(burst, { minLength: 2, maxLength: 8 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        async (bursts, max, byGroup) => {
          const { storage, clock } = await open();
          const scope = byGroup ? ({ by: "group" } as const) : ({ all: true } as const);
          const { rules } = defineLimits({ api: { max, per: WINDOW_MS, ...scope } });
          await storage.limits.define(rules);
          await storage.add(Array.from({ length: 60 }, (_, i) => ({ ...jobOf(String(i)), group: "g" })));
          const granted: number[] = [];
          const inOrder = bursts
            .map(({ edge, offset, calls }) => ({ at: edge * WINDOW_MS + offset, calls }))
            .toSorted((a, b) => a.at - b.at);
          for (const { at, calls } of inOrder) {
            await clock.advance(Math.max(0, at - clock.now()));
            const { jobs, nextInMs, more, blockedBy } = await storage.claim({ ...REQUEST, max: calls });
            for (const _ of jobs) granted.push(clock.now());
            if (jobs.length === calls) continue;
            expect([more, blockedBy]).toEqual([false, byGroup ? "api[g]" : "api"]);
            // Starts within a thousandth of the window may be counted as one, at the time of the later.
            const late = nextInMs! - (granted.at(-max)! + WINDOW_MS - clock.now());
            expect(late).toBeGreaterThanOrEqual(-0.001);
            expect(late).toBeLessThanOrEqual(WINDOW_MS / 1_000 + 0.001);
          }
          for (let i = max; i < granted.length; i++) {
            expect(granted[i]! - granted[i - max]!).toBeGreaterThanOrEqual(WINDOW_MS - 0.001);
          }
          await storage.close();
        },
      ),
      { numRuns: Math.ceil(runs / 10) },
    );
  });
});

const TOKENS = 10;
const STARTS = 4;
const SLOTS = 3;
const EVERY_MS = 5;

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("claim" as const), max: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("end" as const), which: fc.nat(9), unstarted: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("used" as const), which: fc.nat(9), tokens: fc.nat(TOKENS) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 60 }) }) },
);

interface Start {
  readonly id: string;
  readonly token: number;
  readonly at: number;
  tokens: number;
  running: boolean;
}

describe.each(STORAGES)("weights and several limits together ($name)", ({ open, runs }) => {
  it("jobs start exactly as far as all limits allow, and a refused job is charged to none", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.array(fc.integer({ min: 1, max: TOKENS }), { minLength: 12, maxLength: 12 }),
        fc.boolean(),
        async (steps, weights, spaced) => {
          const { storage, clock } = await open();
          const { rules } = defineLimits({
            tokens: { max: TOKENS, per: WINDOW_MS, weight: "tokens", types: ["work"] },
            starts: { max: STARTS, per: 2 * WINDOW_MS, concurrency: SLOTS, queues: ["q"] },
            ...(spaced && { paced: { every: EVERY_MS, all: true } }),
          });
          await storage.limits.define(rules);
          await storage.add(weights.map((tokens, i) => ({ ...jobOf(String(i)), weights: { tokens } })));
          const waiting = weights.map((_, i) => i);
          let starts: Start[] = [];
          const within = (ms: number) => starts.filter(({ at }) => clock.now() - at < ms);
          const tokensUsed = () => within(WINDOW_MS).reduce((sum, { tokens }) => sum + tokens, 0);
          const fits = (job: number) =>
            tokensUsed() + weights[job]! <= TOKENS &&
            within(2 * WINDOW_MS).length < STARTS &&
            starts.filter(({ running }) => running).length < SLOTS &&
            !(spaced && within(EVERY_MS).length > 0);
          for (const one of steps) {
            const lease = "which" in one ? starts[one.which % Math.max(1, starts.length)] : undefined;
            if (one.do === "wait") await clock.advance(one.ms);
            else if (one.do === "claim") {
              const { jobs } = await storage.claim({ ...REQUEST, max: one.max });
              for (const job of jobs) {
                const next = waiting.shift()!;
                expect([job.id, fits(next)]).toEqual([String(next), true]);
                const { id, token } = job;
                starts.push({ id, token, at: clock.now(), tokens: weights[next]!, running: true });
              }
              // Nothing that could have started is left.
              if (jobs.length < one.max && waiting.length > 0) expect(fits(waiting[0]!)).toBe(false);
            } else if (lease?.running && one.do === "end") {
              const { id, token } = lease;
              const back = { to: "back", inMs: 0, held: false, error: null, hold: null } as const;
              await storage.settle([{ id, token, ...back, unstarted: one.unstarted }]);
              lease.running = false;
              if (one.unstarted) starts = starts.filter((start) => start !== lease);
              waiting.push(Number(id));
              waiting.sort((a, b) => a - b);
            } else if (lease?.running && one.do === "used") {
              const { id, token, at } = lease;
              // What it used beyond what was reserved after its entry has left the window is charged now: not modelled.
              if (clock.now() - at >= WINDOW_MS) continue;
              expect(await storage.report([{ id, token, weights: { tokens: one.tokens } }])).toEqual([]);
              lease.tokens = one.tokens;
            }
            const states = await storage.limits.read({ name: null, group: null });
            const of = (name: string) => states.find(({ rule }) => rule.name === name)!.states[0];
            expect(of("tokens")?.used ?? 0).toBe(tokensUsed());
            expect(of("starts")?.used ?? 0).toBe(within(2 * WINDOW_MS).length);
            expect(of("starts")?.held ?? 0).toBe(starts.filter(({ running }) => running).length);
          }
          await storage.close();
        },
      ),
      { numRuns: Math.ceil(runs / 10) },
    );
  });
});
