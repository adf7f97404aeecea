import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { JobRecord } from "../../../src/core/job.ts";
import type { Claim, JobStorage, Outcome } from "../../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FirstLanes } from "../../../src/storages/sqlite/jobs/many-types.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule } from "./support.ts";

/*
 * Where many types wait in a queue without groups, a claim under limits reads lanes in the order of their first jobs. It starts what a
 * claim starts that looks at every type.
 */

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const LIVES = 80 * Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

const TYPES = Array.from({ length: 24 }, (_, i) => `t${i}`);

const quota = fc.constantFrom(
  { max: 2, windowMs: 1_000 },
  { max: 5, windowMs: 1_000 },
  { max: 12, windowMs: 5_000 },
  { concurrency: 1 },
  { concurrency: 4 },
  { everyMs: 100 },
);

/** Limits for all types, for some, by group (all jobs are without one) and by weight. */
const limits = fc.array(
  fc.record({
    quota,
    types: fc.option(fc.subarray(TYPES, { minLength: 1 }), { freq: 4 }),
    byGroup: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
    weighs: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
  }),
  { minLength: 1, maxLength: 4 },
);

const step = fc.record({
  what: fc.constantFrom("add", "add", "claim", "claim", "claim", "settle", "settle", "wait", "pause", "cancel"),
  types: fc.subarray(TYPES, { minLength: 1 }),
  asks: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  priority: fc.constantFrom(0, 0, 0, 1),
  weight: fc.constantFrom(1, 1, 1, 2, 4),
  max: fc.integer({ min: 0, max: 12 }),
  to: fc.constantFrom("completed", "completed", "retry", "back"),
  ms: fc.constantFrom(0, 0, 50, 400, 1_000, 6_000),
});

/** How heavy a job may be. */
const most = ({ max, concurrency }: { readonly max?: number; readonly concurrency?: number }): number =>
  max ?? concurrency ?? 1;

/** The answer of a claim. Where lanes stand at gates both may name an instant that is too early: then that is left out. */
const answerOf = ({ jobs, more, nextInMs }: Claim, exact: boolean) => ({
  ids: jobs.map(({ id }) => id),
  more,
  ...(exact && { nextInMs }),
});

/** Claims as a worker does: where a heavy head has left something to others, its claim does not start them, but says that there is more. */
async function claimAll(storage: JobStorage, max: number, types: readonly string[] | null): Promise<Claim> {
  const jobs: JobRecord[] = [];
  for (;;) {
    const answer = await storage.claim(claimOf({ max: max - jobs.length, types }));
    jobs.push(...answer.jobs);
    if (!answer.more || jobs.length >= max) return { ...answer, jobs };
  }
}

function outcomeOf(id: string, token: number, to: "completed" | "retry" | "back", inMs: number): Outcome {
  if (to === "completed") return { id, token, to, result: null };
  if (to === "retry") return { id, token, to, inMs, error: { name: "Error", message: "x" } };
  return { id, token, to, inMs, held: false, error: null, hold: null, unstarted: false };
}

test("claims under limits from lanes of many types answer as those of a storage that looks at every type", async () => {
  let started = 0;
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { minLength: 20, maxLength: 50 }), async (rules, steps) => {
      const clock = new FakeClock();
      const storages: readonly JobStorage[] = [
        new SqliteStorage(new DatabaseSync(":memory:"), { clock }),
        new SqliteStorage(new DatabaseSync(":memory:"), { clock }),
      ];
      /** The second one looks at every type. */
      const both = async <T>(act: (storage: JobStorage, i: number) => Promise<T>): Promise<[T, T]> => {
        const one = await act(storages[0]!, 0);
        const byType = vi.spyOn(FirstLanes, "of").mockReturnValue(undefined);
        const other = await act(storages[1]!, 1);
        byType.mockRestore();
        return [one, other];
      };
      const defined = rules.map(({ weighs, quota: numbers, types, byGroup }, i) =>
        rule(`limit ${i}`, numbers, { types, byGroup, weight: weighs && !("everyMs" in numbers) ? "w" : null }),
      );
      await both((storage) => storage.limits.define(defined));
      const first = TYPES.map((type) => newJob({ type }));
      await both((storage) => storage.add(first));
      const ids: string[] = [];
      const paused = new Set<string>();
      const held: [{ id: string; token: number }[], { id: string; token: number }[]] = [[], []];
      let quietUntil = 0;
      for (const { what, types, asks, priority, weight, max, to, ms } of steps) {
        if (what !== "claim" && what !== "wait") quietUntil = 0;
        if (what === "add") {
          const weights = {
            w: Math.min(weight, ...rules.filter(({ weighs }) => weighs).map(({ quota: q }) => most(q))),
          };
          const jobs = types.map((type) => newJob({ type, priority, due: { inMs: ms }, weights }));
          ids.push(...jobs.map(({ id }) => id));
          await both((storage) => storage.add(jobs));
        } else if (what === "claim") {
          const [own, other] = await both((storage) => claimAll(storage, max, asks ? types : null));
          const exact = defined.every(({ byGroup, weight: by }) => !byGroup && by === null);
          expect(answerOf(own, exact)).toEqual(answerOf(other, exact));
          // Nothing has changed since, so nothing starts before the instant that a claim of all types has answered with.
          if (clock.now() < quietUntil) expect(own.jobs).toEqual([]);
          if (!asks) quietUntil = own.more ? 0 : clock.now() + (own.nextInMs ?? Infinity);
          held[0].push(...own.jobs);
          held[1].push(...other.jobs);
          started += own.jobs.length;
        } else if (what === "settle") {
          const count = Math.ceil(held[0].length / 2);
          const settled = held.map((some) => some.splice(0, count));
          await both((storage, i) => storage.settle(settled[i]!.map(({ id, token }) => outcomeOf(id, token, to, ms))));
        } else if (what === "wait") {
          await clock.advance(ms);
        } else if (what === "pause") {
          const [type] = types;
          const on = !paused.has(type!);
          if (on) paused.add(type!);
          else paused.delete(type!);
          await both((storage) => storage.setPaused("q", type!, on));
        } else {
          await both((storage) => storage.change({ action: "cancel", queue: "q", ids: ids.slice(-3) }));
        }
      }
      await both((storage) => storage.close());
    }),
    { numRuns: LIVES, seed: SEED },
  );
  expect(started).toBeGreaterThan(1_000);
});
