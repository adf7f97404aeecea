import { expect } from "vitest";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import type { FakeClock } from "../../src/testing/index.ts";
import { anything, limitRule, newJob } from "./jobs.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/**
 * A clock that was two days fast is right again, and the storage still has the fast time. Jobs run, wait, are delayed, have instants
 * and are blocked by limits; the clock is repaired. Nothing of that changes: windows and slots keep what they hold for as long.
 */
export async function playRepair(
  storages: readonly JobStorage[],
  clock: FakeClock,
  repair: () => Promise<number>,
): Promise<void> {
  const [one, other] = [storages[0]!, storages.at(-1)!];
  await one.setup();
  await one.limits.define(RULES);
  const limits = [{ key: "window", max: 2, windowMs: 20_000 }];
  clock.stepWall(2 * DAY_MS);
  await one.add([newJob({ id: "first" })]);
  clock.stepWall(-2 * DAY_MS);
  await other.sweep();
  const tomorrow = clock.wall() + DAY_MS;
  await one.add([
    newJob({ id: "a" }),
    newJob({ id: "b" }),
    newJob({ id: "delayed", type: "delayed", due: { inMs: HOUR_MS } }),
    newJob({ id: "given", type: "delayed", due: { at: tomorrow }, deadline: { at: tomorrow + HOUR_MS } }),
    newJob({ id: "heavy", type: "weighed", weights: { tokens: 10 }, group: "g" }),
    newJob({ id: "heavier", type: "weighed", weights: { tokens: 10 }, group: "g" }),
  ]);
  await one.limits.change("held", { holdMs: 30_000, group: null });
  const { jobs } = await one.claim(anything({ max: 2, types: ["t"], limits, leaseMs: 60_000 }));
  expect(jobs.map(({ id }) => id)).toEqual(["first", "a"]);
  const [heavy] = (await other.claim(anything({ types: ["weighed"], leaseMs: 60_000 }))).jobs;
  expect(heavy).toMatchObject({ id: "heavy" });
  const permit = await other.limits.take({ name: "slots", group: null, weight: 1, ttlMs: 40_000 });
  expect(permit).toMatchObject({ granted: true });
  await clock.advance(5_000);

  const before = await seen(other);
  expect(await repair()).toBe(2 * DAY_MS);
  expect(await seen(other)).toEqual(before);

  // Of the window 15 s are left, of the hold 25, of the permit 35, of the leases 55, and due jobs are due when they were.
  expect(await one.claim(anything({ types: ["t"], limits }))).toMatchObject({ jobs: [], nextInMs: 15_000 });
  expect(await other.report([{ id: "heavy", token: heavy!.token, weights: { tokens: 3 } }])).toEqual([]);
  expect((await other.limits.read({ name: "tokens", group: "g" }))[0]!.states[0]).toMatchObject({ used: 3 });
  await clock.advance(15_000);
  expect((await one.claim(anything({ types: ["t"], limits, leaseMs: DAY_MS }))).jobs).toMatchObject([{ id: "b" }]);
  await clock.advance(19_999);
  expect(await one.limits.take({ name: "slots", group: null, weight: 1, ttlMs: 1 })).toMatchObject({ granted: false });
  await clock.advance(2);
  await one.sweep();
  expect(await one.limits.take({ name: "slots", group: null, weight: 1, ttlMs: 1 })).toMatchObject({ granted: true });
  expect(await other.sweep()).toMatchObject({ stalled: 0 });
  await clock.advance(20_000);
  expect(await other.sweep()).toMatchObject({ stalled: 3 });
  await clock.advance(HOUR_MS - 60_000);
  expect((await one.claim(anything({ types: ["delayed"] }))).jobs).toMatchObject([{ id: "delayed" }]);
  await clock.advance(tomorrow - clock.wall() - 1);
  expect((await one.claim(anything({ types: ["delayed"], max: 0 }))).more).toBe(false);
  await clock.advance(2);
  expect((await other.find(["given"]))[0]).toMatchObject({ state: "waiting" });
}

/** What is shown of everything. */
async function seen(storage: JobStorage): Promise<unknown> {
  const { jobs } = await storage.list({
    queue: "q",
    states: null,
    type: null,
    group: null,
    since: null,
    until: null,
    limit: 100,
    cursor: null,
  });
  const explained = [];
  for (const { id } of jobs) explained.push(await storage.explain(id));
  return { jobs, explained, limits: await storage.limits.read({ name: null, group: null }) };
}

const RULES = [
  limitRule("held", { max: 5, windowMs: 60_000 }, { types: ["other"], byGroup: true }),
  limitRule("slots", { concurrency: 1 }, { types: ["none"] }),
  limitRule("tokens", { max: 15, windowMs: 600_000 }, { types: ["weighed"], weight: "tokens", byGroup: true }),
];
