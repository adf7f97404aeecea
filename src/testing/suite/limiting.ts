import { equal, ok } from "../expect.ts";
import { blocked, said } from "./limit-words.ts";
import { back, type Cases, completed, lease, limit, retry } from "./scene.ts";

export const limiting: Cases = {
  "no more jobs start than the limit allows, and the wake-up time is exact": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000)];
    equal(await said(s, { limits }), { count: 3, more: false, nextInMs: 1_000, blockedBy: "k" }, "the first claim");
    await s.clock.advance(999);
    equal(await said(s, { limits }), blocked(1), "a millisecond before");
    await s.clock.advance(1);
    equal(await said(s, { limits }), { count: 3, more: false, nextInMs: 1_000, blockedBy: "k" }, "at the instant");
  },

  "the window slides": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000)];
    equal((await said(s, { max: 1, limits })).more, true, "more while a start is available");
    await s.clock.advance(400);
    equal(await said(s, { max: 2, limits }), { count: 2, more: false, nextInMs: 600, blockedBy: "k" }, "full");
    await s.clock.advance(600);
    equal(await said(s, { limits }), { count: 1, more: false, nextInMs: 400, blockedBy: "k" }, "one has left");
    await s.clock.advance(400);
    equal(await said(s, { limits }), { count: 2, more: false, nextInMs: 600, blockedBy: "k" }, "two have left");
  },

  "no window has more starts than the limit, whatever the claims": async (s) => {
    await s.addMany(300);
    const starts: number[] = [];
    for (let i = 0; i < 120; i++) {
      const { jobs } = await s.claim({ max: 1 + (i % 4), limits: [limit("k", 5, 100)] });
      for (const { startedAt } of jobs) starts.push(startedAt!);
      await s.clock.advance(1 + ((i * 7) % 23));
    }
    ok(starts.length > 40, `expected more than 40 starts, got ${starts.length}`);
    for (let i = 5; i < starts.length; i++) {
      ok(starts[i]! - starts[i - 5]! >= 100, `six starts within ${starts[i]! - starts[i - 5]!} ms`);
    }
  },

  "a start needs every limit to be available, and a refusal charges nothing": async (s) => {
    await s.addMany(20);
    const both = [limit("wide", 10, 1_000), limit("narrow", 2, 5_000)];
    equal(await said(s, { limits: both }), { count: 2, more: false, nextInMs: 5_000, blockedBy: "narrow" }, "both");
    equal(await said(s, { limits: both }), blocked(5_000, "narrow"), "again");
    const { count } = await said(s, { max: 20, limits: [limit("wide", 10, 1_000)] });
    equal(count, 8, "what is left of the wide one");
  },

  "of several limits the one that blocks the longest is named": async (s) => {
    await s.addMany(20);
    const both = [limit("long", 4, 3_000), limit("short", 4, 1_000)];
    equal(
      await said(s, { max: 4, limits: both }),
      { count: 4, more: false, nextInMs: 3_000, blockedBy: "long" },
      "both full",
    );
    await s.clock.advance(2_500);
    await said(s, { max: 4, limits: [limit("short", 4, 1_000)] });
    equal(await said(s, { limits: both }), blocked(1_000, "short"), "when the short one was filled later");
  },

  "one name may be counted in two windows, and counts each start once": async (s) => {
    await s.addMany(20);
    const second = [limit("k", 2, 1_000)];
    const longer = [limit("k", 5, 10_000)];
    // From the beginning, so that both windows know of every start.
    equal((await said(s, { max: 0, limits: longer })).more, true, "the longer window at first");
    equal((await said(s, { limits: second })).count, 2, "the first second");
    await s.clock.advance(1_000);
    equal((await said(s, { limits: second })).count, 2, "the second second");
    await s.clock.advance(1_000);
    equal(
      await said(s, { limits: longer }),
      { count: 1, more: false, nextInMs: 8_000, blockedBy: "k" },
      "what is left of the longer window",
    );
  },

  "two claims with different numbers under one name each keep to their own": async (s) => {
    await s.addMany(20);
    equal((await said(s, { limits: [limit("k", 5, 1_000)] })).count, 5, "five");
    equal((await said(s, { limits: [limit("k", 7, 1_000)] })).count, 2, "two more under seven");
    equal((await said(s, { limits: [limit("k", 3, 500)] })).count, 0, "none under three");
    await s.clock.advance(500);
    equal((await said(s, { limits: [limit("k", 3, 500)] })).count, 3, "three when half a second has passed");
    equal((await said(s, { limits: [limit("k", 7, 1_000)] })).count, 0, "none under seven a second");
  },

  "a limit counts across queues, and only for claims that bring it along": async (s) => {
    await s.add({}, {}, { queue: "other" }, { queue: "other" });
    const limits = [limit("k", 1, 1_000)];
    equal((await said(s, { limits })).count, 1, "one queue");
    equal((await said(s, { queue: "other", limits })).count, 0, "another queue under the same limit");
    equal((await said(s, { queue: "other" })).count, 2, "another queue without it");
    equal((await said(s, {})).count, 1, "the same queue without it");
  },

  "a limit that blocks some types does not block others": async (s) => {
    await s.add({ type: "a", priority: 9 }, { type: "a", priority: 9 }, { type: "b" });
    const limits = [limit("k", 1, 1_000)];
    equal((await said(s, { types: ["a"], limits })).count, 1, "the limited type");
    equal((await said(s, { types: ["a"], limits })).blockedBy, "k", "the limited type is blocked");
    equal((await said(s, { types: ["b"] })).count, 1, "the other type");
  },

  "a claim without a due job is blocked by no limit": async (s) => {
    await s.addMany(1);
    const limits = [limit("k", 1, 1_000)];
    equal(await said(s, { limits }), { count: 1, more: false, nextInMs: null, blockedBy: null }, "the only job");
    equal(await said(s, { limits }), { count: 0, more: false, nextInMs: null, blockedBy: null }, "an empty queue");
  },

  "the wake-up time for a scheduled job is when it is due and the limit is available": async (s) => {
    await s.add({}, { due: { inMs: 300 } });
    const limits = [limit("k", 1, 1_000)];
    equal(
      await said(s, { limits }),
      { count: 1, more: false, nextInMs: 1_000, blockedBy: null },
      "a start is available later",
    );
    await s.clock.advance(300);
    equal(await said(s, { limits }), blocked(700), "it is due now");
    await s.clock.advance(700);
    equal((await said(s, { limits })).count, 1, "and is available then");
    await s.add({ due: { inMs: 5_000 } });
    equal((await said(s, { limits })).nextInMs, 5_000, "the job is due after the limit is available");
  },

  "a claim with max 0 says whether a limit blocks": async (s) => {
    await s.addMany(3);
    const limits = [limit("k", 2, 1_000)];
    equal(await said(s, { max: 0, limits }), { count: 0, more: true, nextInMs: 0, blockedBy: null }, "available");
    equal(
      await said(s, { max: 2, limits }),
      { count: 2, more: false, nextInMs: 1_000, blockedBy: "k" },
      "as many as wanted, and the next one is blocked",
    );
    equal(await said(s, { max: 0, limits }), blocked(1_000), "not available");
  },

  "jobs of a paused queue are not blocked by a limit": async (s) => {
    await s.addMany(3);
    await s.storage.setPaused("q", null, true);
    const limits = [limit("k", 1, 1_000)];
    equal(await said(s, { limits }), { count: 0, more: false, nextInMs: null, blockedBy: null }, "the claim");
    await s.storage.setPaused("q", null, false);
    equal((await said(s, { limits })).count, 1, "nothing was spent");
  },

  "the stamp of a start is startedAt": async (s) => {
    await s.addMany(3);
    await s.clock.advance(123);
    const job = await s.claimOne({ limits: [limit("k", 10, 1_000)] });
    equal(
      await s.storage.rates.getOldestExecutionAtOffset("k", 0),
      new Date(job.startedAt!).toISOString(),
      "the stamp",
    );
  },

  "claims and rates count in the same log": async (s) => {
    await s.addMany(10);
    const rule = { maxExecutions: 3, windowMs: 1_000 };
    equal((await s.storage.rates.tryRecordExecution("k", rule)).granted, true, "a start outside the queue");
    await s.clock.advance(100);
    equal(
      await said(s, { limits: [limit("k", 3, 1_000)] }),
      { count: 2, more: false, nextInMs: 900, blockedBy: "k" },
      "what is left for jobs",
    );
    const { granted, retryInMs } = await s.storage.rates.tryRecordExecution("k", rule);
    equal({ granted, retryInMs }, { granted: false, retryInMs: 900 }, "what is left outside");
    await s.storage.rates.clear("k");
    equal((await said(s, { limits: [limit("k", 3, 1_000)] })).count, 3, "after everything was cleared");
  },

  "a hold set through rates holds claims": async (s) => {
    await s.addMany(10);
    const until = new Date(s.clock.wall() + 700).toISOString();
    await s.storage.rates.setNextAvailableTime("k", until);
    const limits = [limit("k", 3, 1_000)];
    equal(await said(s, { limits }), blocked(700), "while paused");
    await s.clock.advance(699);
    equal((await said(s, { limits })).nextInMs, 1, "a millisecond before");
    await s.clock.advance(1);
    equal((await said(s, { limits })).count, 3, "when it is over");
  },

  "the longer of hold and window counts": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000)];
    await said(s, { limits });
    await s.storage.rates.setNextAvailableTime("k", new Date(s.clock.wall() + 300).toISOString());
    equal((await said(s, { limits })).nextInMs, 1_000, "a shorter pause");
    await s.storage.rates.setNextAvailableTime("k", new Date(s.clock.wall() + 2_000).toISOString());
    equal((await said(s, { limits })).nextInMs, 2_000, "a longer pause");
    await s.clock.advance(1_000);
    equal((await said(s, { limits })).count, 0, "available, but paused");
  },

  "a job that is given back may hold limits, which only ever extends": async (s) => {
    await s.addMany(10);
    const [a, b, c] = (await s.claim({ max: 3 })).jobs;
    await s.settle(back(a!, { held: true, hold: { names: ["k", "other"], scope: false, forMs: 2_000 } }));
    const limits = [limit("k", 5, 1_000)];
    equal(await said(s, { limits }), blocked(2_000), "held");
    equal((await said(s, { limits: [limit("other", 5, 1_000)] })).blockedBy, "other", "the other key");
    await s.settle(back(b!, { hold: { names: ["k"], scope: false, forMs: 500 } }));
    equal((await said(s, { limits })).nextInMs, 2_000, "a shorter hold changes nothing");
    await s.settle(back(c!, { hold: { names: ["k"], scope: false, forMs: 3_000 } }));
    equal((await said(s, { limits })).nextInMs, 3_000, "a longer one extends it");
    equal((await said(s, { max: 1 })).count, 1, "who is not under that limit goes on");
  },

  "a hold counts even if the job was to be cancelled": async (s) => {
    await s.addMany(3);
    const job = await s.claimOne();
    await s.change("cancel", job.id);
    await s.settle(back(job, { held: true, hold: { names: ["k"], scope: false, forMs: 800 } }));
    equal((await said(s, { limits: [limit("k", 5, 1_000)] })).nextInMs, 800, "nextInMs");
  },

  "a start stays counted, however the job ends": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000)];
    const [a, b, c] = (await s.claim({ limits })).jobs;
    await s.settle(completed(a!), retry(b!), back(c!));
    equal((await said(s, { limits })).count, 0, "how many may start");
    await s.change("remove", b!.id);
    equal((await said(s, { limits })).count, 0, "after one was removed");
  },

  "a start is taken back where the handler was never called": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000), limit("other", 3, 1_000)];
    const [a, b] = (await s.claim({ limits })).jobs;
    await s.clock.advance(100);
    equal(
      await said(s, { limits, settle: [back(a!)] }),
      blocked(900),
      "a job that had started and is given back stays counted",
    );
    await s.settle(back(b!, { unstarted: true }));
    equal((await said(s, { max: 0, limits: [limit("k", 3, 1_000)] })).more, true, "one is free under k");
    equal((await said(s, { max: 0, limits: [limit("other", 3, 1_000)] })).more, true, "one is free under the other");
    equal((await said(s, { limits })).count, 1, "one is free under both");
  },

  "taking back gives nothing to a limit that the job did not start under": async (s) => {
    await s.addMany(10);
    const k = limit("k", 3, 1_000);
    const other = limit("other", 3, 1_000);
    const [counted] = (await s.claim({ max: 1, limits: [k] })).jobs;
    const [free] = (await s.claim({ max: 1 })).jobs;
    const [elsewhere] = (await s.claim({ max: 1, limits: [other] })).jobs;
    // All of them at the same instant.
    await s.settle(back(free!, { unstarted: true }), back(elsewhere!, { unstarted: true }));
    equal((await said(s, { max: 5, limits: [k] })).count, 2, "how many may start under k");
    await s.settle(back(counted!, { unstarted: true }));
    equal((await said(s, { max: 5, limits: [other] })).count, 3, "how many may start under the other");
    equal((await said(s, { max: 5, limits: [k] })).count, 1, "how many more may start under k");
  },

  "a start is taken back under the limits of the latest claim only": async (s) => {
    await s.addMany(10);
    const k = limit("k", 2, 1_000);
    const first = await s.claimOne({ limits: [k] });
    await s.settle(back(first));
    const second = await s.claimOne();
    equal(second.id, first.id, "the same job");
    await s.settle(back(second, { unstarted: true }));
    equal((await said(s, { limits: [k] })).count, 1, "how many may start");
  },

  "taking back a start that has left the window gives nothing": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 2, 1_000)];
    const [a] = (await s.claim({ limits })).jobs;
    await s.clock.advance(1_000);
    equal((await said(s, { limits })).count, 2, "the next window");
    await s.settle(back(a!, { unstarted: true }));
    equal((await said(s, { limits })).count, 0, "how many may start");
    await s.clock.advance(1_000);
    equal((await said(s, { limits })).count, 2, "nor does it weigh on later windows");
  },

  "taking back after a clear gives nothing": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 2, 1_000)];
    const [a] = (await s.claim({ limits })).jobs;
    await s.storage.rates.clear("k");
    equal((await said(s, { limits })).count, 2, "after the clear");
    await s.settle(back(a!, { unstarted: true }));
    equal((await said(s, { limits })).count, 0, "how many may start");
  },

  "a stalled job's start stays counted": async (s) => {
    await s.addMany(3);
    const limits = [limit("k", 1, 5_000)];
    const job = await s.claimOne({ leaseMs: 1_000, limits });
    await s.clock.advance(1_000);
    await s.sweep();
    equal((await s.storage.heartbeat([lease(job)], 1_000)).lost, [job.id], "lost");
    equal((await said(s, { limits })).nextInMs, 4_000, "nextInMs");
  },

  "a claim that settles sees what it gave back as available": async (s) => {
    await s.addMany(5);
    const limits = [limit("k", 1, 1_000)];
    const job = await s.claimOne({ limits });
    const { jobs } = await s.claim({ limits, settle: [back(job, { unstarted: true })] });
    equal(
      jobs.map(({ id }) => id),
      [job.id],
      "the job that was given back is claimed again",
    );
  },

  "windows of very different lengths are exact together": async (s) => {
    await s.addMany(400);
    const limits = [limit("s", 10, 1_000), limit("m", 25, 60_000), limit("ms", 4, 7)];
    const starts: number[] = [];
    for (let i = 0; i < 200; i++) {
      const { jobs, nextInMs } = await s.claim({ max: 3, limits });
      for (const { startedAt } of jobs) starts.push(startedAt!);
      await s.clock.advance(nextInMs! > 0 ? nextInMs! : 1);
    }
    for (const { max, windowMs } of limits) {
      for (let i = max; i < starts.length; i++) {
        ok(starts[i]! - starts[i - max]! >= windowMs, `${max + 1} starts within ${windowMs} ms`);
      }
    }
    const minutes = (starts.at(-1)! - starts[0]!) / 60_000;
    ok(starts.length >= 25 * Math.floor(minutes), `expected 25 starts a minute, got ${starts.length} in ${minutes}`);
  },
};
