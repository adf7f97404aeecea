import { equal } from "../expect.ts";
import { define, rule, taken } from "./limit-words.ts";
import { back, type Cases, completed, retry } from "./scene.ts";

export const order: Cases = {
  "jobs start in the order in which they were added": async (s) => {
    const ids = [...(await s.add({}, {}, {})), ...(await s.add({}, {}))];
    equal(await s.claimIds({ max: 2 }), ids.slice(0, 2), "the first two");
    equal(await s.claimIds(), ids.slice(2), "the others");
  },

  "jobs of a higher priority start first, whatever the group": async (s) => {
    const [low, high, negative, highInGroup] = await s.add(
      { priority: 1 },
      { priority: 10 },
      { priority: -5 },
      { priority: 10, group: "a" },
    );
    equal(await s.claimIds(), [high, highInGroup, low, negative], "the order");
  },

  "a job that is given back starts before those of lower priorities, though it had been the only one of its priority":
    async (s) => {
      await define(s, rule("slot", { concurrency: 1 }));
      const [high] = await s.add({ group: "a", priority: 5 }, { group: "a" });
      const permit = await taken(s, "slot");
      equal(await s.claimIds(), [], "what starts while the limit is taken");
      await s.storage.limits.give(permit, "released");
      const job = await s.claimOne();
      equal(job.id, high, "the first");
      await s.settle(back(job));
      equal(await s.claimIds(), [high], "what starts next");
    },

  "a job that is added starts before those of lower priorities, though the others of its priority start in the same claim":
    async (s) => {
      const [first, high] = await s.add({ group: "a", priority: 9 }, { group: "a", priority: 5 }, { group: "a" });
      equal(await s.claimIds({ max: 1 }), [first], "the first");
      const added = await s.addOne({ group: "a", priority: 5 });
      equal(await s.claimIds({ max: 2 }), [high, added], "the next two");
    },

  "groups take turns within a priority, and jobs without a group are one more group": async (s) => {
    const [a1, a2, a3, b1, b2, none1, none2] = await s.add(
      { group: "a" },
      { group: "a" },
      { group: "a" },
      { group: "b" },
      { group: "b" },
      {},
      {},
    );
    equal(await s.claimIds(), [a1, b1, none1, a2, b2, none2, a3], "the order");
  },

  "turns go on from one claim to the next": async (s) => {
    const [a1, a2, b1, b2, c1] = await s.add(
      { group: "a" },
      { group: "a" },
      { group: "b" },
      { group: "b" },
      { group: "c" },
    );
    equal(await s.claimIds({ max: 2 }), [a1, b1], "the first two");
    equal(await s.claimIds({ max: 1 }), [c1], "the one whose turn it is");
    equal(await s.claimIds({ max: 1 }), [a2], "a again, served the longest ago");
    const d1 = await s.addOne({ group: "d" });
    equal(await s.claimIds(), [d1, b2], "a group that was never served comes first");
  },

  "a group that was empty keeps its turn": async (s) => {
    await s.add({ group: "a" }, { group: "b" });
    await s.claimIds();
    const [b2, a2] = await s.add({ group: "b" }, { group: "a" });
    equal(await s.claimIds(), [a2, b2], "the one served the longest ago is first");
  },

  "each priority has turns of its own": async (s) => {
    const [a1, a2, b1, high] = await s.add({ group: "a" }, { group: "a" }, { group: "b" }, { group: "a", priority: 5 });
    equal(await s.claimIds({ max: 1 }), [high], "the higher priority");
    equal(await s.claimIds(), [a1, b1, a2], "the lower one");
  },

  "within a group jobs start by due time, then in the order of adding": async (s) => {
    const [later, sooner, sameAsLater] = await s.add(
      { due: { inMs: 200 } },
      { due: { inMs: 100 } },
      { due: { inMs: 200 } },
    );
    await s.clock.advance(150);
    const now = await s.addOne();
    await s.clock.advance(100);
    equal(await s.claimIds(), [sooner, now, later, sameAsLater], "the order");
  },

  "a job that is given back at once takes its old place": async (s) => {
    const ids = await s.add({}, {}, {}, {});
    const { jobs } = await s.claim({ max: 2 });
    await s.clock.advance(10);
    await s.settle(back(jobs[1]!), back(jobs[0]!));
    equal((await s.get(ids[0]!)).dueAt, jobs[0]!.dueAt, "dueAt");
    equal(await s.claimIds(), ids, "the order");
  },

  "a job that is retried at once takes its old place": async (s) => {
    const [a, b] = await s.add({}, {});
    const job = await s.claimOne();
    await s.clock.advance(10);
    await s.settle(retry(job, 0));
    equal((await s.get(a!)).dueAt, job.dueAt, "dueAt");
    equal(await s.claimIds(), [a, b], "the order");
  },

  "while a job backs off others of its group start, and when it is due again it takes its old place": async (s) => {
    for (const group of [null, "g"]) {
      const ids = await s.add({ group }, { group }, { group }, { group });
      const job = await s.claimOne();
      const dueAt = s.clock.wall() + 200;
      await s.settle(retry(job, 200));
      equal((await s.get(job.id)).dueAt, dueAt, `dueAt while it backs off, of group ${group}`);
      equal(await s.claimIds({ max: 1 }), [ids[1]], `while it backs off, of group ${group}`);
      await s.clock.advance(200);
      equal((await s.get(job.id)).dueAt, job.dueAt, `dueAt when it is due again, of group ${group}`);
      equal(await s.claimIds(), [ids[0], ids[2], ids[3]], `when it is due again, of group ${group}`);
    }
  },

  "however often a job backs off, it takes its first place": async (s) => {
    const [a, b] = await s.add({}, {});
    for (const inMs of [100, 300]) {
      await s.clock.advance(10);
      await s.settle(retry(await s.claimOne(), inMs));
      await s.clock.advance(inMs);
    }
    await s.settle(back(await s.claimOne(), { inMs: 500, held: true }));
    await s.clock.advance(500);
    equal(await s.claimIds(), [a, b], "the order");
  },

  "jobs that back off for different times take their old places": async (s) => {
    const ids = await s.add(...Array.from({ length: 30 }, (_, i) => ({ type: `t${i % 2}` })));
    const { jobs } = await s.claim({ max: 20 });
    await s.settle(...jobs.map((job, i) => retry(job, 1 + ((i * 7) % 20))));
    await s.clock.advance(10);
    equal(
      await s.claimIds({ max: 10 }),
      ids.slice(0, 20).filter((_, i) => 1 + ((i * 7) % 20) <= 10),
      "those that are due again",
    );
    await s.clock.advance(10);
    equal(
      await s.claimIds({ max: 30 }),
      ids.filter((_, i) => i >= 20 || 1 + ((i * 7) % 20) > 10),
      "the others",
    );
  },

  "a job that is promoted while it backs off takes its old place": async (s) => {
    const [a, b] = await s.add({}, {});
    await s.settle(retry(await s.claimOne(), 60_000));
    await s.clock.advance(10);
    equal(await s.change("promote", a!), [a], "what was promoted");
    equal(await s.claimIds(), [a, b], "the order");
  },

  "a job that is cancelled while it backs off and retried by hand goes to the end": async (s) => {
    const [a, b] = await s.add({}, {});
    await s.settle(retry(await s.claimOne(), 100));
    await s.change("cancel", a!);
    await s.clock.advance(10);
    await s.change("retry", a!);
    equal((await s.get(a!)).dueAt, s.clock.wall(), "dueAt");
    equal(await s.claimIds(), [b, a], "the order");
  },

  "jobs that are given back out of order take their old places": async (s) => {
    const ids = await s.addMany(60);
    const { jobs } = await s.claim({ max: 40 });
    const mixed = jobs.toSorted((a, b) => ((a.token * 17) % 41) - ((b.token * 17) % 41));
    await s.settle(...mixed.map((job) => back(job)));
    await s.change("cancel", ids[5]!, ids[30]!, ids[50]!);
    const kept = ids.filter((_, i) => ![5, 30, 50].includes(i));
    equal(await s.claimIds({ max: 100 }), kept, "the order");
  },

  "a claim gets only the types it asks for, and any type if it names none": async (s) => {
    const [a, b, c] = await s.add({ type: "a" }, { type: "b" }, { type: "c" });
    equal(await s.claimIds({ types: ["unknown"] }), [], "an unknown type");
    equal(await s.claimIds({ types: [] }), [], "no type at all");
    equal(await s.claimIds({ types: ["c", "a"] }), [a, c], "two types");
    equal(await s.claimIds({ types: null }), [b], "any type");
  },

  "jobs start first in, first out, whatever their types": async (s) => {
    const ids = await s.add(...["a", "a", "a", "b", "a", "c", "b", "b", "a", "c"].map((type) => ({ type })));
    equal(await s.claimIds({ max: 1 }), ids.slice(0, 1), "one");
    equal(await s.claimIds({ max: 3 }), ids.slice(1, 4), "some");
    equal(await s.claimIds({ max: 3, types: ["a", "b", "c"] }), ids.slice(4, 7), "some, by the names of all types");
    equal(await s.claimIds(), ids.slice(7), "the others");
  },

  "jobs of a group start first in, first out, whatever their types, while groups take turns": async (s) => {
    const [g1, g2, g3, g4, h1, h2, none1, none2] = await s.add(
      { group: "g", type: "a" },
      { group: "g", type: "a" },
      { group: "g", type: "b" },
      { group: "g", type: "a" },
      { group: "h", type: "b" },
      { group: "h", type: "a" },
      { type: "b" },
      { type: "a" },
    );
    equal(await s.claimIds({ max: 2 }), [g1, h1], "the first turns");
    equal(await s.claimIds({ max: 2 }), [none1, g2], "the next");
    equal(await s.claimIds(), [h2, none2, g3, g4], "the others");
  },

  "a group has one turn, however many types its jobs have": async (s) => {
    await s.add({ group: "g", type: "a" }, { group: "h", type: "a" });
    await s.claimIds();
    const [h2, h3, g2, g3] = await s.add(
      { group: "h", type: "b" },
      { group: "h", type: "c" },
      { group: "g", type: "a" },
      { group: "g", type: "b" },
    );
    equal(await s.claimIds({ max: 1 }), [g2], "served the longest ago; a type that is new in a group changes nothing");
    equal(await s.claimIds(), [h2, g3, h3], "the others");
  },

  "a claim for one type gets its jobs in order, and groups take turns": async (s) => {
    const [a1, , a2, , a3, a4] = await s.add(
      { group: "g", type: "a" },
      { group: "g", type: "b" },
      { group: "g", type: "a" },
      { group: "h", type: "b" },
      { group: "h", type: "a" },
      { type: "a" },
    );
    equal(await s.claimIds({ types: ["a"], max: 2 }), [a1, a3], "the first turns");
    equal(await s.claimIds({ types: ["a"] }), [a4, a2], "the others");
    equal((await s.overview())?.counts.waiting, 2, "those of the other type");
  },

  "a group that one worker serves all the time has its turns with another": async (s) => {
    await s.addMany(3, { group: "g", type: "slow" });
    await s.addMany(9, { group: "g", type: "fast" });
    await s.addMany(3, { group: "h", type: "slow" });
    const served: (string | null)[] = [];
    for (let i = 0; i < 6; i++) {
      served.push((await s.claimOne({ types: ["slow", "fast"] })).group);
      await s.claimOne({ types: ["fast"] });
    }
    equal(served, ["g", "h", "g", "h", "g", "h"], "the groups that who takes both types serves");
  },

  "jobs of a paused type are passed over, and take their place when it is resumed": async (s) => {
    const [a1, b1, a2, b2] = await s.add({ type: "a" }, { type: "b" }, { type: "a" }, { type: "b" });
    await s.storage.setPaused("q", "a", true);
    equal(await s.claimIds({ max: 1 }), [b1], "while it is paused");
    await s.storage.setPaused("q", "a", false);
    equal(await s.claimIds(), [a1, a2, b2], "afterwards");
  },

  "a job that was delayed, retried or given back takes its place among those of other types": async (s) => {
    const [delayed, first, second] = await s.add({ type: "a", due: { inMs: 100 } }, { type: "b" }, { type: "a" });
    const jobs = [await s.claimOne(), await s.claimOne()];
    equal(
      jobs.map(({ id }) => id),
      [first, second],
      "those that are due",
    );
    await s.clock.advance(50);
    const before = await s.addOne({ type: "c" });
    await s.settle(retry(jobs[0]!, 100), back(jobs[1]!));
    await s.clock.advance(150);
    const last = await s.addOne({ type: "a" });
    equal(await s.claimIds(), [first, second, before, delayed, last], "by the time they first came due");
  },

  "five groups with three types have one turn each, in order within each group": async (s) => {
    const types = ["a", "b", "c"];
    const groups = ["v", "w", "x", "y", "z"];
    const added = Array.from({ length: 60 }, (_, i) => ({
      group: groups[(i * 7) % 5]!,
      type: types[Math.floor((i * i) / 5) % 3]!,
    }));
    const ids = await s.add(...added);
    const started: string[] = [];
    for (let i = 0; i < 60 && started.length < 60; i++) {
      const max = (i % 7) + 1;
      const { jobs } = await s.claim({ max, types: max % 2 === 0 ? null : types });
      for (const { id } of jobs) started.push(id);
    }
    const groupOf = (id: string) => added[ids.indexOf(id)]!.group;
    for (let i = 0; i < 60; i += 5) {
      equal(
        started.slice(i, i + 5).map((id) => groupOf(id)),
        ["v", "x", "z", "w", "y"],
        `turns ${i} to ${i + 4}`,
      );
    }
    for (const group of groups) {
      equal(
        started.filter((id) => groupOf(id) === group),
        ids.filter((id) => groupOf(id) === group),
        `the order within ${group}`,
      );
    }
  },

  "hundreds of groups with several types have one turn each, and each starts its first job": async (s) => {
    const groups = Array.from({ length: 300 }, (_, i) => `g${i}`);
    const types = ["a", "b", "c"];
    // The lanes of each type come into being in another order.
    await s.add(...groups.map((group, i) => ({ group, type: types[i % 3]! })));
    await s.add(...groups.toReversed().map((group, i) => ({ group, type: types[i % 2]! })));
    const first = await s.claim({ max: 40 });
    const rest = await s.claim({ max: 260 });
    const jobs = [...first.jobs, ...rest.jobs];
    equal(new Set(jobs.map(({ group }) => group)).size, 300, "how many groups had their turn");
    const wrong = jobs.filter(({ group, type }) => type !== types[groups.indexOf(group!) % 3]);
    equal(wrong, [], "groups that gave their second job first");
    const again = await s.claim({ max: 300 });
    equal(
      again.jobs.map(({ group }) => group),
      jobs.map(({ group }) => group),
      "the second turns",
    );
    equal(again.more, false, "more");
  },

  "jobs of other types do not hold up those that are asked for": async (s) => {
    await s.addMany(300, { type: "other", priority: 100 });
    const mine = await s.addOne({ type: "mine" });
    const { jobs, more } = await s.claim({ types: ["mine"] });
    equal(
      jobs.map(({ id }) => id),
      [mine],
      "the job",
    );
    equal(more, false, "more");
    equal((await s.overview())?.counts.waiting, 300, "those of the other type");
  },

  "a claim gets only jobs of its queue": async (s) => {
    const [mine] = await s.add({ queue: "mine" });
    const [other] = await s.add({ queue: "other" });
    equal(await s.claimIds({ queue: "nobody" }), [], "a queue without jobs");
    equal(await s.claimIds({ queue: "mine" }), [mine], "one queue");
    equal(await s.claimIds({ queue: "other" }), [other], "the other");
  },

  "a thousand groups get one turn each before any gets a second": async (s) => {
    const groups = Array.from({ length: 1_000 }, (_, i) => `g${i}`);
    await s.add(...groups.map((group) => ({ group })), ...groups.map((group) => ({ group })));
    const { jobs } = await s.claim({ max: 1_000 });
    equal(
      jobs.map(({ group }) => group),
      groups,
      "the first turns",
    );
    const again = await s.claim({ max: 1_000, settle: jobs.map((job) => completed(job)) });
    equal(
      again.jobs.map(({ group }) => group),
      groups,
      "the second turns",
    );
  },

  "tokens grow with every claim": async (s) => {
    await s.add({}, {}, {});
    const first = await s.claim({ max: 2 });
    const second = await s.claim({ settle: [back(first.jobs[0]!)] });
    const tokens = [...first.jobs, ...second.jobs].map(({ token }) => token);
    equal(tokens.length, 4, "how many were claimed");
    equal(
      tokens,
      tokens.toSorted((a, b) => a - b),
      "the tokens",
    );
    equal(new Set(tokens).size, 4, "how many different tokens");
  },
};
