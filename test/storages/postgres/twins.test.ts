import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { LimitRule } from "../../../src/limits/rule.ts";
import type { Claim, JobStorage, Lease, Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const LIVES = 25 * Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

/** None of them weighs: a claim of several steps may start what waited behind a heavy job that it has started (the models know). */
const RULES: readonly LimitRule[] = [
  rule("few", { concurrency: 4 }),
  rule("window", { max: 6, windowMs: 500 }),
  rule("of a type", { max: 3, windowMs: 300 }, { types: ["a"] }),
  rule("tenant", { concurrency: 2 }, { byGroup: true }),
  rule("shares", { max: 4, windowMs: 700 }, { byGroup: true, groups: { g: { share: 3 }, h: { max: 2 } } }),
  rule("spaced", { everyMs: 50 }, { types: ["c"] }),
];
const TYPES = ["a", "b", "c"];
/**
 * A job of a group that waits all the time, for a limit that is stopped. Where no job with a group waits, PostgresStorage looks for
 * jobs without going by turns, and no group has had a turn then.
 */
const ANCHOR = newJob({ id: "anchor", type: "anchor", group: "anchor" });
const ANCHOR_RULE = rule("stopped", { concurrency: 1 }, { types: ["anchor"] });

const job = fc.record({
  type: fc.constantFrom(...TYPES),
  group: fc.constantFrom(null, null, "g", "h", "i"),
  priority: fc.constantFrom(0, 0, 0, 2, -1),
  weights: fc.constantFrom(null, { n: 1 }, { n: 4 }, { n: 7 }),
});
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("add" as const), jobs: fc.array(job, { minLength: 1, maxLength: 5 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      max: fc.integer({ min: 0, max: 5 }),
      types: fc.option(fc.subarray(TYPES, { minLength: 1 })),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      to: fc.constantFrom("completed", "retry", "back", "unstarted"),
      many: fc.integer({ min: 1, max: 3 }),
      inMs: fc.constantFrom(0, 70),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(1, 50, 100, 300, 700) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(20) }) },
);
const life = fc.record({
  rules: fc.subarray([...RULES], { maxLength: 3 }),
  steps: fc.array(step, { minLength: 5, maxLength: 30 }),
});

/** The answer of a claim without its tokens. A claim that leaves jobs which could start may name any limit that blocks one. */
const answerOf = ({ jobs, more, nextInMs, blockedBy }: Claim) => ({
  jobs: jobs.map(({ id }) => id),
  more,
  nextInMs,
  blockedBy: more ? undefined : blockedBy,
});

function outcome({ id, token }: Lease, to: string, inMs: number): Outcome {
  if (to === "completed") return { id, token, to, result: null };
  if (to === "retry") return { id, token, to, inMs, error: { name: "Error", message: "" } };
  return { id, token, to: "back", inMs, held: false, error: null, hold: null, unstarted: to === "unstarted" };
}

/** One storage in its life: what it has claimed and not settled. */
interface Twin {
  readonly storage: JobStorage;
  readonly clock: FakeClock;
  readonly leases: Lease[];
}

describe("PostgresStorage and SqliteStorage", () => {
  const open = emptyStorages();

  test(
    `take the same jobs in the same order, under whatever limits (${LIVES} lives, seed ${SEED})`,
    { timeout: 60_000 + LIVES * 1_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(life, async ({ rules, steps }) => {
          const clock = new FakeClock();
          const { storage, clock: serverClock } = await open();
          const sqlite: Twin = { storage: new SqliteStorage(":memory:", { clock }), clock, leases: [] };
          const twins: readonly Twin[] = [sqlite, { storage, clock: serverClock, leases: [] }];
          const both = async <T>(act: (twin: Twin) => Promise<T>): Promise<void> => {
            const [expected, actual] = [await act(twins[0]!), await act(twins[1]!)];
            expect(actual).toEqual(expected);
          };
          try {
            await both((twin) => twin.storage.limits.define([...rules, ANCHOR_RULE]));
            await both((twin) => twin.storage.limits.change(ANCHOR_RULE.name, { paused: true }));
            await both((twin) => twin.storage.add([ANCHOR]));
            let made = 0;
            for (const one of steps) {
              if (one.do === "add") {
                const jobs = one.jobs.map((said) => newJob({ ...said, id: `j${made++}`, maxAttempts: 99 }));
                await both((twin) => twin.storage.add(jobs));
                // A job that leaves before a claim has seen it may be forgotten.
                await both(async (twin) => answerOf(await twin.storage.claim(anything({ max: 0 }))));
              } else if (one.do === "claim") {
                const request = anything({
                  max: one.max,
                  types: one.types && [...one.types, "anchor"],
                  leaseMs: 600_000,
                });
                await both(async (twin) => {
                  const claim = await twin.storage.claim(request);
                  for (const { id, token } of claim.jobs) twin.leases.push({ id, token });
                  return answerOf(claim);
                });
              } else if (one.do === "settle") {
                await both((twin) =>
                  twin.storage.settle(twin.leases.splice(0, one.many).map((lease) => outcome(lease, one.to, one.inMs))),
                );
              } else if (one.do === "wait") {
                await Promise.all(twins.map((twin) => twin.clock.advance(one.ms)));
              } else {
                await both((twin) =>
                  twin.storage.change({
                    action: "cancel",
                    queue: "q",
                    ids: [`j${one.which}`],
                    states: ["waiting", "scheduled"],
                  }),
                );
              }
            }
          } finally {
            await Promise.all(twins.map((twin) => twin.storage.close()));
          }
        }),
        { numRuns: LIVES, seed: SEED, interruptAfterTimeLimit: 50_000 + LIVES * 500, markInterruptAsFailure: true },
      );
    },
  );
});
