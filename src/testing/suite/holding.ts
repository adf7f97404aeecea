import { equal } from "../expect.ts";
import { blocked, change, count, countOf, define, limitOf, rule, said, window } from "./limit-words.ts";
import { back, type Cases, lease, limit } from "./scene.ts";

const hold = (names: readonly string[], scope: boolean, forMs: number) => ({ hold: { names, scope, forMs } });

export const holding: Cases = {
  "a job that is given back holds the limit it names, to the millisecond, for every queue": async (s) => {
    await define(s, rule("k", window(5, 1_000)), rule("other", window(50, 1_000)));
    await s.addMany(3);
    await s.addMany(3, { queue: "r" });
    const job = await s.claimOne();
    await s.settle(back(job, { held: true, ...hold(["k"], false, 2_000) }));
    equal(await said(s), blocked(2_000), "its own queue");
    await s.clock.advance(1_999);
    equal(await said(s, { queue: "r" }), blocked(1), "another queue");
    const { free, nextInMs, reason, heldForMs } = await countOf(s, "k");
    equal({ free, nextInMs, reason, heldForMs }, { free: 0, nextInMs: 1, reason: "held", heldForMs: 1 }, "its state");
    equal((await countOf(s, "other")).heldForMs, 0, "the other");
    await s.clock.advance(1);
    equal([await count(s), (await countOf(s, "k")).heldForMs], [3, 0], "when it is over");
  },

  "a hold is only ever extended": async (s) => {
    await define(s, rule("k", window(50, 1_000)));
    await s.addMany(5);
    const { jobs } = await s.claim({ max: 3 });
    await s.settle(back(jobs[0]!, hold(["k"], false, 2_000)));
    await s.settle(back(jobs[1]!, hold(["k"], false, 500)));
    equal((await said(s)).nextInMs, 2_000, "a shorter one");
    await s.settle(back(jobs[2]!, hold(["k"], false, 3_000)));
    equal((await said(s)).nextInMs, 3_000, "a longer one");
    await change(s, "k", { holdMs: 1_000, group: null });
    equal((await said(s)).nextInMs, 3_000, "a shorter one by hand");
    await change(s, "k", { holdMs: 4_000, group: null });
    equal((await said(s)).nextInMs, 4_000, "a longer one by hand");
  },

  "a hold of a limit by group is for the group of the job": async (s) => {
    await define(s, rule("k", window(50, 1_000), { byGroup: true }));
    await s.add(...["a", "a", "b", "b"].map((group) => ({ group })));
    const job = await s.claimOne();
    await s.settle(back(job, hold(["k"], false, 2_000)));
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal([jobs.map(({ group }) => group).join(""), nextInMs, blockedBy], ["bb", 2_000, "k[a]"], "who starts");
    await change(s, "k", { holdMs: 500, group: "c" });
    await s.add({ group: "c" });
    equal(await said(s), blocked(500, "k[c]"), "a group by hand");
  },

  "a hold of the whole scope is for every limit that applied to the job, but for those by group": async (s) => {
    await define(
      s,
      rule("all", window(50, 1_000)),
      rule("type", window(50, 1_000), { types: ["t"] }),
      rule("other type", window(50, 1_000), { types: ["u"] }),
      rule("other queue", window(50, 1_000), { queues: ["r"] }),
      rule("tenant", window(50, 1_000), { byGroup: true }),
    );
    await s.add({ group: "g" });
    await s.settle(back(await s.claimOne(), hold([], true, 2_000)));
    const found = await s.storage.limits.read({ name: null, group: "g" });
    equal(
      found.map((one) => [
        one.rule.name,
        one.states.find(({ group }) => group === (one.rule.byGroup ? "g" : null))!.heldForMs,
      ]),
      [
        ["all", 2_000],
        ["other queue", 0],
        ["other type", 0],
        ["tenant", 0],
        ["type", 2_000],
      ],
      "for how long each is held",
    );
  },

  "a name without a rule can be held": async (s) => {
    await s.addMany(3);
    await s.settle(back(await s.claimOne(), hold(["queue:q", "__proto__"], true, 700)));
    const limits = [limit("queue:q", 5, 1_000)];
    equal(await said(s, { limits }), blocked(700, "queue:q"), "who claims under it");
    equal(await count(s), 3, "who does not");
  },

  "a hold counts even if the job was to be cancelled, and not if its lease was lost": async (s) => {
    await define(s, rule("k", window(50, 1_000)));
    await s.addMany(3);
    const { jobs } = await s.claim({ max: 2, leaseMs: 1_000 });
    await s.change("cancel", jobs[0]!.id);
    await s.settle(back(jobs[0]!, hold(["k"], false, 800)));
    equal((await said(s)).nextInMs, 800, "to be cancelled");
    await s.clock.advance(1_000);
    await s.sweep();
    await s.settle(back(jobs[1]!, hold(["k"], true, 5_000)));
    equal(await count(s), 2, "lost");
  },

  "what a service says is remaining bounds the starts until its instant": async (s) => {
    await define(s, rule("k", window(50, 1_000)));
    await s.addMany(9);
    await change(s, "k", { remaining: 2, resetMs: 5_000, group: null });
    equal((await countOf(s, "k")).free, 2, "free");
    equal(await said(s), { count: 2, more: false, nextInMs: 5_000, blockedBy: "k" }, "no more than that");
    equal((await countOf(s, "k")).reason, "remaining", "what is in the way");
    await s.clock.advance(4_999);
    equal((await said(s)).nextInMs, 1, "a millisecond before");
    await s.clock.advance(1);
    equal(await count(s), 7, "when its window begins anew");
  },

  "what a service says is remaining only tightens the limit": async (s) => {
    await define(s, rule("k", window(2, 10_000)));
    await s.addMany(9);
    await change(s, "k", { remaining: 100, resetMs: 1_000, group: null });
    equal(await said(s), { count: 2, more: false, nextInMs: 10_000, blockedBy: "k" }, "more is left there than here");
  },

  "of what a service says is remaining in one window the least counts": async (s) => {
    await define(s, rule("k", window(50, 1_000)));
    await s.addMany(20);
    await change(s, "k", { remaining: 3, resetMs: 10_000, group: null });
    await change(s, "k", { remaining: 8, resetMs: 10_000, group: null });
    equal((await countOf(s, "k")).free, 3, "an answer that was late");
    await change(s, "k", { remaining: 1, resetMs: 9_500, group: null });
    equal(await said(s), { count: 1, more: false, nextInMs: 10_000, blockedBy: "k" }, "less");
    await change(s, "k", { remaining: 6, resetMs: 60_000, group: null });
    equal(await count(s), 6, "another window");
  },

  "weights are subtracted from what a service said is remaining": async (s) => {
    await define(s, rule("k", window(100, 1_000), { weight: "n" }));
    await s.add(...[30, 15, 10].map((n) => ({ weights: { n } })));
    await change(s, "k", { remaining: 50, resetMs: 5_000, group: null });
    equal(await said(s), { count: 2, more: false, nextInMs: 5_000, blockedBy: "k" }, "45 of 50");
  },

  "what a service says is remaining may be for one group": async (s) => {
    await define(s, rule("k", window(50, 1_000), { byGroup: true }));
    await s.add(...["a", "a", "b", "b"].map((group) => ({ group })));
    await change(s, "k", { remaining: 1, resetMs: 5_000, group: "a" });
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal([jobs.map(({ group }) => group).join(""), nextInMs, blockedBy], ["abb", 5_000, "k[a]"], "who starts");
  },

  "a job that settles its weights may bring a hold as well": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n", estimate: 5 }));
    await s.addMany(3);
    const job = await s.claimOne();
    await s.storage.report([{ ...lease(job), weights: { n: 1 } }]);
    await s.settle(back(job, { held: true, settled: ["n"], inMs: 100, ...hold(["k"], false, 3_000) }));
    equal([(await countOf(s, "k")).used, (await said(s)).nextInMs], [1, 3_000], "what is used, and when it goes on");
  },

  "a limit by group that is held is held for all groups, also for those without jobs yet": async (s) => {
    await define(s, rule("k", window(9, 1_000), { byGroup: true }));
    await s.add({ group: "a" });
    await s.claim();
    await s.add({ group: "a" }, { group: "b" }, {});
    await change(s, "k", { holdMs: 500, group: null });
    await change(s, "k", { holdMs: 200, group: null });
    await change(s, "k", { holdMs: 900, group: "a" });
    const heldFor = async (group: string) => (await countOf(s, "k", group)).heldForMs;
    equal([await heldFor("a"), await heldFor("b"), await heldFor("nobody")], [900, 500, 500], "for how long");
    const { free, nextInMs, reason } = await countOf(s, "k", "nobody");
    equal([free, nextInMs, reason], [0, 500, "held"], "a group without jobs");
    equal((await limitOf(s, "k")).rule.heldUntil, s.clock.wall() + 500, "the instant");
    const { count: started, nextInMs: next } = await said(s);
    equal([started, next], [0, 500], "who starts");
    await s.clock.advance(500);
    equal((await s.claim()).jobs.map(({ group }) => String(group)).toSorted(), ["b", "null"], "who starts then");
    await s.clock.advance(400);
    equal(await count(s), 1, "who was held by itself");
  },

  "a hold of a limit by group ends when the limit is resumed or reset": async (s) => {
    await define(s, rule("k", window(9, 1_000), { byGroup: true }));
    for (const go of [{ paused: false }, { reset: true, group: null }] as const) {
      await change(s, "k", { holdMs: 60_000, group: null });
      await s.add({ group: "a" }, { group: "b" });
      equal(await count(s), 0, "while it is held");
      await change(s, "k", go);
      equal([await count(s), (await countOf(s, "k", "a")).heldForMs], [2, 0], "when it goes on");
    }
  },

  "a job that a service refused holds only its own group": async (s) => {
    await define(s, rule("k", window(9, 1_000), { byGroup: true }));
    for (const group of ["a", null]) {
      await s.add({ group });
      await s.settle(back(await s.claimOne(), { inMs: 60_000, ...hold(["k"], false, 700) }));
    }
    await s.add({ group: "a" }, {}, { group: "b" });
    equal((await s.claim()).jobs.map(({ group }) => group).join(), "b", "who starts");
    await s.clock.advance(700);
    equal(await count(s), 2, "the others");
  },

  "a window that reaches further back than starts were counted is full until that has passed": async (s) => {
    await define(s, rule("k", window(2, 1_000), { byGroup: true }));
    await s.addMany(2, { group: "a" });
    equal(await count(s), 2, "at first");
    await s.clock.advance(5_000);
    await s.sweep();
    await change(s, "k", { quota: { windowMs: 60_000 }, group: null });
    await s.addMany(2, { group: "a" });
    equal(await said(s), blocked(59_000, "k[a]"), "when it was made longer");
    await s.clock.advance(59_000);
    equal(await count(s), 2, "when it knows");
  },
};
