import { equal } from "../expect.ts";
import { blocked, change, count, countOf, define, limitOf, rule, said, window } from "./limit-words.ts";
import { back, type Cases, completed, type Scene } from "./scene.ts";

/** The groups of the jobs that a claim gets, in order. */
async function groupsOf(s: Scene, request: Parameters<Scene["claim"]>[0] = {}): Promise<string> {
  return (await s.claim(request)).jobs.map(({ group }) => group ?? "-").join("");
}

const of = (groups: string, about: Parameters<Scene["job"]>[0] = {}) =>
  Array.from(groups, (group) => ({ ...about, group: group === "-" ? null : group }));

export const groups: Cases = {
  "all groups of a paused limit are passed over at once": async (s) => {
    await define(s, rule("k", window(9, 1_000), { byGroup: true, types: ["t"] }));
    await change(s, "k", { paused: true });
    await s.add(...Array.from({ length: 1_500 }, (_, n) => ({ group: `g${n}`, priority: 1 })));
    const id = await s.addOne({ type: "free" });
    equal(await s.claimIds(), [id], "who starts in the first claim");
    await change(s, "k", { paused: false });
    equal((await s.claim({ max: 1_500 })).jobs.length, 1_500, "how many start when it goes on");
  },

  "a limit by group that is paused is named without a group": async (s) => {
    await define(s, rule("k", { everyMs: 1_000, concurrency: 1 }, { byGroup: true }));
    await s.add(...of("aab"));
    const { jobs } = await s.claim();
    equal([jobs.length, await said(s)], [2, blocked(null, "k[a]")], "while the group is full");
    await change(s, "k", { paused: true });
    equal(await said(s), blocked(null, "k"), "with a lane that waits for its group");
    await s.add(...of("c"));
    equal(await said(s), blocked(null, "k"), "with a lane that no claim has looked at");
    await s.settle(...jobs.map((job) => completed(job)));
    equal(await said(s), blocked(null, "k"), "when nothing is held any more");
    await change(s, "k", { paused: false });
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k[a]" }, "when it goes on");
  },

  "every group has a limit state of its own": async (s) => {
    await define(s, rule("k", window(2, 1_000), { byGroup: true }));
    await s.add(...of("aaabbc"));
    equal(await said(s), { count: 5, more: false, nextInMs: 1_000, blockedBy: "k[a]" }, "the first claim");
    equal(
      [(await countOf(s, "k", "a")).used, (await countOf(s, "k", "b")).used, (await countOf(s, "k", "c")).used],
      [2, 2, 1],
      "used",
    );
    await s.clock.advance(999);
    equal(await said(s), blocked(1, "k[a]"), "a millisecond before");
    await s.clock.advance(1);
    equal(await said(s), { count: 1, more: false, nextInMs: null, blockedBy: null }, "at the instant");
  },

  "jobs without a group share one limit state": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.add(...of("--a"));
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal([jobs.length, nextInMs, blockedBy], [2, null, "k"], "the first claim");
    equal((await countOf(s, "k", null)).held, 1, "what those without one hold");
    await s.settle(completed(jobs.find(({ group }) => group === null)!));
    equal(await groupsOf(s), "-", "when one has ended");
  },

  "a rule may have other numbers for some groups": async (s) => {
    const own = { a: { max: 3 }, b: { concurrency: 1 }, c: { max: null, windowMs: null } };
    await define(s, rule("k", window(2, 1_000), { byGroup: true, groups: own }));
    await s.add(...of("aaaaabbbbccccdddd"));
    const { jobs } = await s.claim({ max: 100 });
    const started = (group: string) => jobs.filter((job) => job.group === group).length;
    equal(["a", "b", "c", "d"].map(started), [3, 1, 4, 2], "how many of each start");
  },

  "a group has one limit state for all queues and types under the limit": async (s) => {
    await define(s, rule("k", window(3, 1_000), { byGroup: true, types: ["t", "u"] }));
    await s.add(...of("a"), ...of("a", { queue: "r" }), ...of("aa", { type: "u" }), ...of("aa", { type: "free" }));
    equal(await count(s, { queue: "r" }), 1, "another queue");
    equal(await said(s), { count: 4, more: false, nextInMs: 1_000, blockedBy: "k[a]" }, "two, and who is free");
  },

  "a full group in front of a free one does not hold it up": async (s) => {
    await define(s, rule("k", window(1, 60_000), { byGroup: true }));
    await s.addMany(300, { group: "full", priority: 5 });
    await s.add(...of("a", { type: "other" }), ...of("b"));
    equal(await count(s), 3, "one of each in one claim");
    await s.add(...of("c"));
    equal(await groupsOf(s, { max: 1 }), "c", "one that comes later");
    equal(await said(s), blocked(60_000, "k[full]"), "then");
  },

  "many full groups in front of a free one do not hold it up": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    const names = Array.from({ length: 150 }, (_, i) => `g${i}`);
    await s.add(...names.flatMap((group) => [{ group }, { group }, { group }]));
    equal(await count(s, { max: 1_000 }), 150, "one of each");
    await s.add({ group: "free", priority: -1 });
    equal(await groupsOf(s, { max: 1_000 }), "free", "the free one");
  },

  "a group is served again when its limit becomes available": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.add(...of("aaabbb"));
    const { jobs } = await s.claim();
    equal(await groupsOf(s), "", "while both run");
    await s.settle(completed(jobs.find(({ group }) => group === "b")!));
    equal(await groupsOf(s), "b", "when one has ended");
    equal(await groupsOf(s), "", "once");
    await s.settle(completed(jobs.find(({ group }) => group === "a")!));
    equal(await groupsOf(s), "a", "when the other has");
  },

  "a limit that becomes available for a group serves all its lanes: types, priorities, queues": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.add(...of("a"), ...of("a", { type: "u" }), ...of("a", { priority: 5 }), ...of("a", { queue: "r" }));
    const order: string[] = [];
    let job = await s.claimOne();
    for (let i = 0; i < 3; i++) {
      // A claim finds the lane blocked.
      equal([await count(s), await count(s, { queue: "r" })], [0, 0], "while one runs");
      order.push(`${job.queue}${job.type}${job.priority}`);
      await s.settle(completed(job));
      job = await s.claimOne(i < 2 ? {} : { queue: "r" });
    }
    order.push(`${job.queue}${job.type}${job.priority}`);
    equal(order, ["qt5", "qt0", "qu0", "rt0"], "who starts");
  },

  "a group whose numbers are changed is served at once": async (s) => {
    await define(s, rule("k", window(1, 60_000), { byGroup: true }));
    await s.add(...of("aaabb"));
    equal(await groupsOf(s), "ab", "one of each");
    equal(await groupsOf(s), "", "none");
    await change(s, "k", { quota: { max: 2 }, group: "a" });
    equal(await groupsOf(s), "a", "more for one group");
    await change(s, "k", { quota: { max: 5 }, group: null });
    equal(await groupsOf(s), "b", "more for all; what was changed for one group stays");
    await s.storage.limits.remove("k");
    equal(await groupsOf(s), "a", "without the limit");
  },

  "a claim that starts nothing does not name a limit whose hold of the group is over": async (s) => {
    await define(s, rule("k", window(5, 1_000), { byGroup: true }));
    await s.add({ group: "a", priority: 1 }, { group: "a" });
    await change(s, "k", { holdMs: 500, group: "a" });
    equal(await said(s), blocked(500, "k[a]"), "while the group is held");
    await s.clock.advance(500);
    equal(await said(s, { max: 0 }), { count: 0, more: true, nextInMs: 0, blockedBy: null }, "at the instant");
    equal(await said(s), { count: 2, more: false, nextInMs: null, blockedBy: null }, "the next claim");
  },

  "a group whose jobs have gone blocks no other group": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    const [, first] = await s.add(...of("aa"));
    equal((await said(s)).count, 1, "the first of a");
    await s.clock.advance(400);
    const [, second] = await s.add(...of("bb"));
    equal(await said(s), { count: 1, more: false, nextInMs: 600, blockedBy: "k[a]" }, "the first of b");
    await s.change("cancel", first!);
    equal(await said(s), blocked(1_000, "k[b]"), "without a");
    await s.change("remove", second!);
    equal(await said(s), { count: 0, more: false, nextInMs: null, blockedBy: null }, "without both");
    await s.add(...of("a"));
    equal(await said(s), blocked(600, "k[a]"), "with another one of a");
  },

  "a group whose jobs have gone does not pass on its turn": async (s) => {
    const [first] = await s.add({ type: "b" });
    await s.add({ type: "b", group: "a" });
    await s.add({ type: "c" });
    equal((await said(s, { max: 0 })).count, 0, "a look");
    await s.change("cancel", first!);
    equal(await groupsOf(s, { max: 1 }), "a", "who has waited for longest");
  },

  "a limit by group and one for all are both kept": async (s) => {
    await define(s, rule("all", window(3, 1_000)), rule("tenant", window(2, 2_000), { byGroup: true }));
    await s.add(...of("aaaabb"));
    equal(await groupsOf(s), "aba", "the first three");
    equal((await countOf(s, "tenant", "b")).used, 1, "what a refusal by the other has taken of the group");
    await s.clock.advance(1_000);
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "tenant[a]" }, "the next");
    equal((await countOf(s, "all")).used, 1, "what a refusal by the group has taken for all");
  },

  "a claim waits for a release where a limit by group and one for all refuse a lane that is not the first of its group":
    async (s) => {
      await define(
        s,
        rule("all", { concurrency: 1 }, { types: ["a"] }),
        rule("k", { concurrency: 1 }, { types: ["a"], byGroup: true }),
        rule("other", { concurrency: 1 }, { types: ["b"] }),
      );
      await s.add({ type: "a", group: "g" }, { type: "b", group: "h" });
      equal(await count(s), 2, "one of each type");
      // The job of the other type came first, and has its turn with that of this one.
      await s.add({ type: "b", group: "g" });
      await s.clock.advance(1);
      await s.add({ type: "a", group: "g" });
      for (const time of ["first", "then"]) {
        const { jobs, more, nextInMs } = await s.claim();
        equal([jobs.length, more, nextInMs], [0, false, null], time);
      }
    },

  "groups take turns, also under limits": async (s) => {
    await define(s, rule("k", { concurrency: 2 }));
    await s.add(...of("aaaabbcc"));
    let order = "";
    let running = (await s.claim()).jobs;
    while (running.length > 0) {
      order += running.map(({ group }) => group).join("");
      running = (await s.claim({ settle: running.map((job) => completed(job)) })).jobs;
    }
    equal(order, "abcabcaa", "the order");
  },

  "a job that a claim gives back is started by the same claim before groups of a lower priority": async (s) => {
    await s.add({ id: "first", type: "a", priority: 5 }, { id: "second", type: "b", group: "g" });
    const { jobs } = await s.claim({ max: 1 });
    equal(jobs[0]?.id, "first", "what starts first");
    const again = await s.claim({
      max: 1,
      settle: [back(jobs[0]!)],
    });
    equal(again.jobs[0]?.id, "first", "what starts when it is given back");
  },

  "of lanes that come due together the one of the highest priority is served first": async (s) => {
    await define(s, rule("k", window(1, 50), { byGroup: true }));
    await s.add({ id: "low", group: "g" }, { id: "high", group: "g", priority: 5 });
    const { jobs } = await s.claim({ max: 3 });
    equal(
      jobs.map(({ id }) => id),
      ["high"],
      "the first claim",
    );
    await s.claim({
      max: 0,
      settle: [back(jobs[0]!)],
    });
    await s.clock.advance(100);
    equal(await s.claimIds({ max: 1 }), ["high"], "when the limit is available");
  },

  "a job of a group whose lease ran out before it started is found by the claim that gives it back": async (s) => {
    await s.add({ id: "job", group: "g", maxAttempts: 1 });
    const { jobs } = await s.claim({ leaseMs: 60 });
    await s.clock.advance(100);
    await s.storage.sweep();
    equal((await s.get("job")).state, "dead", "its state when the lease has run out");
    equal(
      (await s.claim({ max: 0, settle: [back(jobs[0]!, { unstarted: true })] })).more,
      true,
      "whether more can start",
    );
    equal(await s.claimIds(), ["job"], "what starts");
  },

  "a group that is full loses no turn": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true, groups: { b: { max: 100 } } }));
    await s.add(...of("aaabbb"));
    equal(await groupsOf(s), "abbb", "the first claim");
    await s.add(...of("bbb"));
    await s.clock.advance(1_000);
    equal(await groupsOf(s, { max: 2 }), "ab", "who waited is first");
  },

  "a group with a share starts so many each time it has its turn": async (s) => {
    await define(s, rule("k", window(100, 1_000), { byGroup: true, groups: { a: { share: 3 } } }));
    await s.add(...of("aaaaaaaabbb"));
    equal(await groupsOf(s, { max: 9 }), "aaabaaaba", "in one claim");
    await s.add(...of("aaaabbb", { priority: 3 }));
    let order = "";
    for (let i = 0; i < 7; i++) order += await groupsOf(s, { max: 1 });
    equal(order, "aaababb", "one by one");
  },

  "the limit state of an idle group is deleted after its time, and not before": async (s) => {
    await define(s, rule("w", window(2, 5_000), { byGroup: true }));
    const names = Array.from({ length: 100 }, (_, i) => ({ group: `g${i}` }));
    await s.add(...names);
    const { jobs } = await s.claim({ max: 1_000 });
    await s.settle(...jobs.map((job) => completed(job)));
    equal((await limitOf(s, "w")).groups, 100, "how many groups have a state");
    equal((await limitOf(s, "w")).states.length, 100, "how many are shown");
    await s.clock.advance(4_999);
    await s.sweep();
    equal((await limitOf(s, "w")).groups, 100, "before the window has passed");
    await s.add({ group: "g7" });
    equal(await count(s), 1, "one of them");
    await s.clock.advance(1);
    await s.sweep();
    equal((await limitOf(s, "w")).groups, 1, "when it has passed: only what was used since");
    await s.clock.advance(4_999);
    await s.sweep();
    equal((await limitOf(s, "w")).groups, 0, "when that has passed as well");
  },

  "the limit state of an idle group is deleted, whatever the limit counts": async (s) => {
    await define(
      s,
      rule("slots", { concurrency: 1 }, { byGroup: true }),
      rule("spaced", { everyMs: 100 }, { byGroup: true }),
      rule("window", window(5, 1_000), { byGroup: true }),
      rule("asked", window(5, 1_000), { byGroup: true, types: ["other"] }),
    );
    await s.add({ group: "ran" }, { group: "blocked", type: "other" });
    await change(s, "asked", { paused: true });
    const job = await s.claimOne();
    equal(await count(s), 0, "how many start while one is stopped");
    await s.settle(completed(job));
    await change(s, "asked", { paused: false });
    await change(s, "asked", { holdMs: 500, group: "held" });
    await s.clock.advance(7_200_000);
    await s.sweep();
    const found = await s.storage.limits.read({ name: null, group: null });
    equal(
      found.map((one) => [one.rule.name, one.groups]),
      [
        ["asked", 0],
        ["slots", 0],
        ["spaced", 0],
        ["window", 0],
      ],
      "how many groups have a state",
    );
  },

  "the limit state of a group is kept while it has slots, spacing, a hold or failures": async (s) => {
    const breaker = { failures: 3, openMs: 1_000, probes: 1, kinds: null };
    await define(
      s,
      rule("held", { concurrency: 1 }, { byGroup: true }),
      rule("spaced", { everyMs: 7_200_000 }, { byGroup: true, types: ["spaced"] }),
      rule("left alone", window(5, 1_000), { byGroup: true }),
      rule("failing", window(5, 1_000), { byGroup: true, breaker }),
    );
    await s.add({ group: "a", type: "spaced" }, { group: "a", type: "spaced" });
    await s.claimOne({ leaseMs: 100_000_000 });
    await change(s, "left alone", { holdMs: 7_200_000, group: "b" });
    await s.clock.advance(7_199_999);
    await s.sweep();
    equal(
      [(await countOf(s, "held", "a")).held, (await countOf(s, "spaced", "a")).nextInMs],
      [1, 1],
      "what is held, and how long the spacing lasts",
    );
    equal((await countOf(s, "left alone", "b")).nextInMs, 1, "how long it is left alone");
  },

  "of many groups the hundred that were used last are shown, and any group that is asked for": async (s) => {
    await define(s, rule("k", window(9, 60_000), { byGroup: true }));
    await s.add(...Array.from({ length: 130 }, (_, i) => ({ group: `g${i}` })));
    await s.claim({ max: 130 });
    await s.clock.advance(10);
    await s.add({ group: "g3" });
    await s.claim();
    const { groups: counted, states } = await limitOf(s, "k");
    equal([counted, states.length], [130, 100], "how many there are, and how many are shown");
    equal(
      states.some(({ group, used }) => group === "g3" && used === 2),
      true,
      "the one that was used last is there",
    );
    const [asked] = await s.storage.limits.read({ name: "k", group: "g1" });
    equal(
      asked!.states.map(({ group, used }) => [group, used]),
      [["g1", 1]],
      "the one that is asked for",
    );
  },
};
