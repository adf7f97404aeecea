import type { ClaimRequest } from "../../storage/job-storage.ts";
import { equal, ok } from "../expect.ts";
import { BY, change, define, rule, take, window } from "./limit-words.ts";
import { type Cases, completed, type Scene } from "./scene.ts";

/** A claim, and for how long others have waited for the slots that it takes, or waits for. */
async function claimed(s: Scene, request: Partial<ClaimRequest>) {
  const { jobs, othersWaitMs = 0 } = await s.claim(request);
  return { jobs, othersWaitMs };
}

/** The only slot of a limit, which a job of type `a` has. */
async function full(s: Scene, about: Parameters<typeof rule>[2] = {}) {
  await define(s, rule("k", { concurrency: 1 }, about));
  await s.addMany(5, { type: "a", group: "g" });
  await s.addMany(5, { type: "b", group: "g" });
  const { jobs, othersWaitMs } = await claimed(s, { types: ["a"], max: 1 });
  equal([jobs.length, othersWaitMs], [1, 0], "the first claim");
  return jobs[0]!;
}

/** Settles a job of type `a` and claims the next one in the same step, 300 ms later. */
async function goesOn(s: Scene, job: Parameters<typeof completed>[0]) {
  await s.clock.advance(300);
  return claimed(s, { types: ["a"], max: 1, settle: [completed(job)] });
}

async function waitsFor(s: Scene, job: Parameters<typeof completed>[0], who: string): Promise<void> {
  const { jobs, othersWaitMs } = await goesOn(s, job);
  equal(jobs.length, 1, "how many start");
  ok(othersWaitMs >= 300 && othersWaitMs < 10_000, `expected that ${who} waits for 300 ms, got ${othersWaitMs}`);
}

/** A worker starts a job of type `a` where slots are free, and ends it: others wait for none after that. */
async function endsTheWait(s: Scene, afterMs = 300): Promise<void> {
  const { jobs } = await claimed(s, { types: ["a"], max: 1 });
  equal(jobs.length, 1, "how many start");
  await s.clock.advance(afterMs);
  await s.settle(completed(jobs[0]!));
  const next = await claimed(s, { types: ["a"], max: 1 });
  equal(
    [next.jobs.length, next.othersWaitMs],
    [1, 0],
    "how many start after the release, and for how long others wait",
  );
}

export const othersWait: Cases = {
  "a claim that takes a slot again says for how long workers for another type have waited for it": async (s) => {
    const job = await full(s);
    equal(await claimed(s, { types: ["b"] }), { jobs: [], othersWaitMs: 0 }, "what the other worker gets");
    await waitsFor(s, job, "a worker for another type");
  },

  "a claim that takes a slot again says for how long workers of another queue have waited for it": async (s) => {
    const job = await full(s);
    await s.add({ queue: "r" });
    equal(await claimed(s, { queue: "r" }), { jobs: [], othersWaitMs: 0 }, "what the other worker gets");
    await waitsFor(s, job, "a worker of another queue");
  },

  "a worker that starts jobs of other types waits for a slot all the same": async (s) => {
    const job = await full(s, { types: ["a", "b"] });
    await s.addMany(2, { type: "c" });
    equal((await claimed(s, { types: ["b", "c"], max: 5 })).jobs.length, 2, "how many start for the other worker");
    await waitsFor(s, job, "a worker for another type");
  },

  "a worker whose claims are filled by jobs of other types waits for a slot all the same": async (s) => {
    const job = await full(s, { types: ["a", "b"] });
    await s.addMany(3, { type: "c" });
    equal((await claimed(s, { types: ["b", "c"], max: 2 })).jobs.length, 2, "how many start for the other worker");
    await waitsFor(s, job, "a worker for another type");
  },

  "a claim that takes a slot again says for how long a permit has waited for it": async (s) => {
    const job = await full(s);
    equal((await take(s, "k")).granted, false, "a permit is granted");
    await waitsFor(s, job, "a permit");
  },

  "a claim that takes a slot of a group again says for how long others have waited for it": async (s) => {
    const job = await full(s, { byGroup: true });
    equal(await claimed(s, { types: ["b"] }), { jobs: [], othersWaitMs: 0 }, "what the other worker gets");
    await waitsFor(s, job, "a worker for another type");
  },

  "a claim that takes a slot of a key again says for how long others have waited for it": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant", "model")));
    for (const type of ["a", "b"]) await s.addMany(3, { type, keys: { tenant: "x", model: "y" } });
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    equal(await claimed(s, { types: ["b"] }), { jobs: [], othersWaitMs: 0 }, "what the other worker gets");
    await waitsFor(s, jobs[0]!, "a worker for another type");
  },

  "workers for the same types do not wait for each other's slots": async (s) => {
    const job = await full(s);
    equal(await claimed(s, { types: ["a"], worker: "other" }), { jobs: [], othersWaitMs: 0 }, "what the other gets");
    equal((await goesOn(s, job)).othersWaitMs, 0, "for how long others wait");
  },

  "the order in which a worker names its types does not matter to whom it waits for": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    await s.addMany(5, { type: "a" });
    const { jobs } = await claimed(s, { types: ["a", "b"], max: 1 });
    await claimed(s, { types: ["b", "a"], max: 1 });
    await s.clock.advance(300);
    const { othersWaitMs } = await claimed(s, { types: ["a", "b"], max: 1, settle: [completed(jobs[0]!)] });
    equal(othersWaitMs, 0, "for how long others wait");
  },

  "a worker that has slots of its own is not one that waits for some": async (s) => {
    await define(s, rule("k", { concurrency: 2 }));
    for (const type of ["a", "b"]) await s.addMany(5, { type });
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    equal((await claimed(s, { types: ["b"], max: 5 })).jobs.length, 1, "how many the other worker starts");
    equal((await goesOn(s, jobs[0]!)).othersWaitMs, 0, "for how long others wait");
  },

  "a worker that starts a heavy job and is refused another one is not one that waits for slots": async (s) => {
    await define(s, rule("k", { concurrency: 5 }, { weight: "n" }));
    await s.add({ type: "a", weights: { n: 4 } });
    const job = await s.claimOne({ types: ["a"] });
    await s.add({ type: "b", weights: { n: 4 } }, { type: "b", weights: { n: 4 } });
    equal((await claimed(s, { types: ["b"] })).jobs.length, 0, "how many the other worker starts");
    await s.settle(completed(job));
    equal((await claimed(s, { types: ["b"] })).jobs.length, 1, "how many it starts then");
    await s.add({ type: "a", weights: { n: 2 } });
    await s.clock.advance(300);
    equal(await claimed(s, { types: ["a"] }), { jobs: [], othersWaitMs: 0 }, "what the first worker gets");
  },

  "a claim for no jobs, which only looks, waits for no slot": async (s) => {
    const job = await full(s);
    equal(await claimed(s, { types: ["b"], max: 0 }), { jobs: [], othersWaitMs: 0 }, "what it gets");
    equal((await goesOn(s, job)).othersWaitMs, 0, "for how long others wait");
  },

  "others that were woken up by a release wait anew": async (s) => {
    const job = await full(s);
    await claimed(s, { types: ["b"] });
    await s.clock.advance(300);
    await s.settle(completed(job));
    const { jobs, othersWaitMs } = await claimed(s, { types: ["a"], max: 1 });
    equal([jobs.length, othersWaitMs], [1, 0], "a claim after the release");
    await claimed(s, { types: ["b"] });
    await waitsFor(s, jobs[0]!, "a worker for another type");
  },

  "the claim of a worker that waits reports others that wait beside it": async (s) => {
    await full(s);
    await claimed(s, { types: ["b"] });
    await s.clock.advance(50);
    const { jobs, othersWaitMs } = await claimed(s, { types: ["a"] });
    equal([jobs.length, othersWaitMs > 0], [0, true], "a claim in vain, and whether others wait");
  },

  "a release where slots are free ends the wait of others that a pause refused": async (s) => {
    await define(s, rule("k", { concurrency: 5 }));
    await change(s, "k", { paused: true });
    for (const type of ["a", "b"]) await s.addMany(5, { type });
    equal((await claimed(s, { types: ["b"] })).jobs.length, 0, "how many start under a paused limit");
    await change(s, "k", { paused: false });
    await endsTheWait(s);
  },

  "a claim that gives back a slot where others are free says that nothing waits for it": async (s) => {
    await define(s, rule("k", { concurrency: 5 }));
    await s.addMany(5, { type: "a" });
    await change(s, "k", { holdMs: 100, group: null });
    equal((await take(s, "k")).granted, false, "a permit of a limit that is held is granted");
    await s.clock.advance(200);
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    const next = await goesOn(s, jobs[0]!);
    equal([next.jobs.length, next.othersWaitMs], [1, 0], "how many start, and for how long others wait");
    equal((await goesOn(s, next.jobs[0]!)).othersWaitMs, 0, "for how long they wait at the next claim");
  },

  "a release where slots are free ends the wait of others that a window refused": async (s) => {
    await define(s, rule("k", { concurrency: 5, ...window(1, 100) }));
    for (const type of ["a", "b"]) await s.addMany(5, { type });
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    equal((await claimed(s, { types: ["b"] })).jobs.length, 0, "how many start under a full window");
    await s.settle(completed(jobs[0]!));
    await s.clock.advance(200);
    await endsTheWait(s, 200);
  },

  "a release where slots are free ends the wait of others that spacing refused": async (s) => {
    await define(s, rule("k", { concurrency: 5, everyMs: 1_000 }));
    for (const type of ["a", "b"]) await s.addMany(5, { type });
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    equal((await claimed(s, { types: ["b"] })).jobs.length, 0, "how many start just after another one");
    await s.settle(completed(jobs[0]!));
    await s.clock.advance(1_000);
    equal((await claimed(s, { types: ["a"], max: 1 })).othersWaitMs, 0, "for how long others wait");
  },

  "a release where nothing waits any more ends the wait of others for slots of a group": async (s) => {
    const job = await full(s, { byGroup: true });
    const [id] = await s.addMany(1, { type: "other", group: "g" });
    equal((await claimed(s, { types: ["other"] })).jobs.length, 0, "how many the other worker starts");
    await s.storage.change({ action: "cancel", queue: "q", ids: [id!] });
    await s.clock.advance(300);
    await s.settle(completed(job));
    equal((await claimed(s, { types: ["a"], max: 1 })).othersWaitMs, 0, "for how long others wait");
  },

  "one release for several groups ends the wait of others for all of them": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    for (const group of ["g", "h"]) for (const type of ["a", "b"]) await s.addMany(3, { type, group });
    const { jobs } = await claimed(s, { types: ["a"], max: 2 });
    equal([jobs.length, (await claimed(s, { types: ["b"], max: 2 })).jobs.length], [2, 0], "how many start");
    await s.clock.advance(300);
    await s.settle(...jobs.map((job) => completed(job)));
    equal((await claimed(s, { types: ["a"], max: 2 })).othersWaitMs, 0, "for how long others wait");
  },

  "jobs under windows alone wait for no turn": async (s) => {
    await define(s, rule("k", { max: 1, windowMs: 100 }));
    for (const type of ["a", "b"]) await s.addMany(5, { type });
    const { jobs } = await claimed(s, { types: ["a"], max: 1 });
    await claimed(s, { types: ["b"] });
    equal((await goesOn(s, jobs[0]!)).othersWaitMs, 0, "for how long others wait");
  },
};
