import type { JobRecord } from "../../core/job.ts";
import type { Outcome } from "../../storage/job-storage.ts";
import { equal } from "../expect.ts";
import { blocked, change, count, countOf, define, rule, said, usedAndHeld, window } from "./limit-words.ts";
import { back, cancelled, type Cases, completed, dead, lease, retry, type Scene } from "./scene.ts";

/** Every way in which a worker ends a lease. */
const ENDS: Readonly<Record<string, (job: JobRecord) => Outcome>> = {
  completed: (job) => completed(job),
  retry: (job) => retry(job, 60_000),
  dead: (job) => dead(job),
  cancelled: (job) => cancelled(job),
  back: (job) => back(job, { inMs: 60_000 }),
  unstarted: (job) => back(job, { inMs: 60_000, unstarted: true }),
};

/** A limit for all, one for each group, and a window to see what stays counted. */
async function underThree(s: Scene): Promise<void> {
  await define(
    s,
    rule("general", { concurrency: 1 }),
    rule("grouped", { concurrency: 1 }, { byGroup: true }),
    rule("window", window(100, 100_000)),
  );
}

const counted = async (s: Scene) => [
  (await countOf(s, "general")).held,
  (await countOf(s, "grouped", "g")).held,
  (await countOf(s, "window")).used,
];

export const releasing: Cases = {
  "slots are released however a job ends, and its start stays counted": async (s) => {
    await underThree(s);
    let starts = 0;
    for (const [name, end] of Object.entries(ENDS)) {
      await s.add({ group: "g" });
      const job = await s.claimOne();
      starts += 1;
      equal(await counted(s), [1, 1, starts], `while it runs (${name})`);
      await s.settle(end(job));
      if (name === "unstarted") starts -= 1;
      equal(await counted(s), [0, 0, starts], `when it has ended (${name})`);
    }
  },

  "a claim that settles releases slots, and can take them in the same step": async (s) => {
    await underThree(s);
    await s.addMany(9, { group: "g" });
    let job = await s.claimOne();
    for (const [name, end] of Object.entries(ENDS)) {
      const { jobs } = await s.claim({ settle: [end(job)] });
      equal(jobs.length, 1, `how many start after ${name}`);
      equal((await counted(s)).slice(0, 2), [1, 1], `what is held after ${name}`);
      job = jobs[0]!;
    }
  },

  "slots are released once": async (s) => {
    await define(s, rule("k", { concurrency: 3 }));
    await s.addMany(6);
    const { jobs } = await s.claim();
    await s.settle(completed(jobs[0]!), completed(jobs[0]!));
    await s.settle(retry(jobs[0]!), back(jobs[0]!, { unstarted: true }));
    equal((await countOf(s, "k")).held, 2, "what is held");
    equal(await count(s), 1, "how many start");
  },

  "a job that is asked to stop keeps its slots until it ends": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    await s.addMany(2);
    const job = await s.claimOne();
    await s.change("cancel", job.id);
    equal(await said(s), blocked(null), "while it stops");
    await s.settle(cancelled(job));
    equal(await count(s), 1, "when it has stopped");
  },

  "an expired lease releases its slots, and its start stays counted": async (s) => {
    await underThree(s);
    await s.addMany(2, { group: "g" });
    const job = await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(999);
    await s.sweep();
    equal(await counted(s), [1, 1, 1], "before the lease has run out");
    await s.clock.advance(1);
    await s.sweep();
    equal(await counted(s), [0, 0, 1], "after that");
    equal(await s.settle(back(job, { unstarted: true })), [job.id], "what it says later is lost");
    equal(await counted(s), [0, 0, 1], "and changes nothing");
    await s.claimOne({ leaseMs: 1_000 });
    equal(await counted(s), [1, 1, 2], "the next start");
  },

  "an expired lease of the last attempt releases its slots, too": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    const [id] = await s.add({ maxAttempts: 1 });
    await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await s.sweep();
    equal([await s.state(id!), (await countOf(s, "k")).held], ["dead", 0], "the job, and what is held");
  },

  "a lease that is renewed keeps its slots": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    await s.addMany(2);
    const job = await s.claimOne({ leaseMs: 1_000 });
    for (let i = 0; i < 5; i++) {
      await s.clock.advance(900);
      await s.storage.heartbeat([lease(job)], 1_000);
      await s.sweep();
    }
    equal(await count(s), 0, "how many start");
  },

  "a start that never happened costs nothing of windows and of spacing": async (s) => {
    await s.addMany(5);
    await define(s, rule("w", window(1, 10_000)), rule("s", { everyMs: 5_000 }));
    const job = await s.claimOne();
    await s.clock.advance(10);
    equal((await said(s)).count, 0, "while it has started");
    await s.settle(back(job, { unstarted: true }));
    equal([(await countOf(s, "w")).used, (await countOf(s, "s")).nextInMs], [0, 0], "used, and when the next may come");
    equal(await count(s), 1, "how many start");
  },

  "a start that never happened gives back its weights, and nothing else": async (s) => {
    await define(s, rule("k", window(10, 10_000), { weight: "n" }));
    await s.add({ weights: { n: 3 } }, { weights: { n: 4 } });
    const [first] = (await s.claim()).jobs;
    await s.clock.advance(100);
    await s.settle(back(first!, { inMs: 60_000, unstarted: true }));
    equal((await countOf(s, "k")).used, 4, "used");
    await s.clock.advance(9_900);
    equal((await countOf(s, "k")).used, 0, "used when the window has passed");
  },

  "what was charged under a rule is given back though the rule has changed": async (s) => {
    await s.addMany(9);
    await define(s, rule("k", { concurrency: 2 }));
    const { jobs } = await s.claim();
    await change(s, "k", { quota: { concurrency: 3 }, group: null });
    equal(await count(s), 1, "one more");
    await s.storage.limits.define([rule("k", { concurrency: 3 }, { types: ["other", "t"] })]);
    await s.settle(...jobs.map((job) => completed(job)));
    equal(await usedAndHeld(s, "k"), [0, 1], "used and held");
    equal(await count(s), 2, "how many start");
  },

  "a job that started without the limit takes its slots, and gives back nothing else": async (s) => {
    await s.addMany(5);
    const [before] = (await s.claim({ max: 1 })).jobs;
    await define(s, rule("k", { ...window(2, 10_000), concurrency: 2 }));
    equal(await count(s), 1, "how many start");
    equal(await usedAndHeld(s, "k"), [1, 2], "used and held");
    await s.settle(back(before!, { inMs: 60_000, unstarted: true }));
    equal(await usedAndHeld(s, "k"), [1, 1], "used and held then");
  },

  "a job that started without the limit gives back no spacing of a start at the same instant": async (s) => {
    await s.addMany(3);
    const [before] = (await s.claim({ max: 1 })).jobs;
    await define(s, rule("k", { everyMs: 5_000, concurrency: 3 }));
    equal(await said(s), { count: 1, more: false, nextInMs: 5_000, blockedBy: "k" }, "who starts with the limit");
    await s.settle(back(before!, { unstarted: true }));
    equal(await said(s), blocked(5_000), "who starts at the same instant");
    await s.clock.advance(5_000);
    equal(await count(s), 1, "who starts when the spacing is over");
  },
};
