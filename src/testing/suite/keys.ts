import { equal } from "../expect.ts";
import { keyStates } from "./key-states.ts";
import { blocked, BY, countOf, define, ids, rule, said, window } from "./limit-words.ts";
import { back, type Cases, completed } from "./scene.ts";

export const keys: Cases = {
  "a job shows its keys, and keeps them when it is tried again": async (s) => {
    const id = await s.addOne({ keys: { tenant: "acme", model: "large" } });
    const none = await s.addOne();
    equal((await s.get(id)).keys, { tenant: "acme", model: "large" }, "the keys of a job that waits");
    equal((await s.get(none)).keys, undefined, "the keys of a job without any");
    const { jobs } = await s.claim({ max: 1 });
    equal(jobs[0]?.keys, { tenant: "acme", model: "large" }, "the keys of a job that was claimed");
    await s.settle({
      id,
      token: jobs[0]!.token,
      to: "back",
      inMs: 0,
      held: false,
      error: null,
      hold: null,
      unstarted: false,
    });
    equal((await s.claim({ max: 1 })).jobs[0]?.keys, { tenant: "acme", model: "large" }, "its keys afterwards");
  },

  "a limit by a key counts each of its values": async (s) => {
    await define(s, rule("k", window(1, 1_000), BY("tenant")));
    await s.add(
      { id: "a1", keys: { tenant: "a" } },
      { id: "a2", keys: { tenant: "a", model: "x" } },
      { id: "b1", keys: { tenant: "b" } },
    );
    equal(await ids(s), "a1 b1", "the first claim");
    equal((await countOf(s, "k", "a")).used, 1, "what is counted for one value");
    equal(await said(s), blocked(1_000, "k[a]"), "while it is full");
    await s.clock.advance(1_000);
    equal(await ids(s), "a2", "when a slot is available again");
  },

  "jobs without the key share one limit state": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    await s.add({ id: "n1" }, { id: "n2", keys: { model: "x" } }, { id: "a", keys: { tenant: "a" } });
    equal(await ids(s), "n1 a", "what starts");
  },

  "a limit by several keys counts each combination": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant", "model")));
    await s.add(
      { id: "ax", keys: { tenant: "a", model: "x" } },
      { id: "ax2", keys: { model: "x", tenant: "a" } },
      { id: "ay", keys: { tenant: "a", model: "y" } },
      { id: "bx", keys: { tenant: "b", model: "x" } },
      { id: "a", keys: { tenant: "a" } },
      { id: "x", keys: { model: "x" } },
      { id: "none" },
    );
    equal(await ids(s), "ax ay bx a x none", "what starts");
  },

  "values that contain separators are not taken for others": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant", "model")));
    const pairs = [
      ["a,b", "c"],
      ["a", "b,c"],
      ["a\\", ",c"],
      ["a\\,", "c"],
    ];
    await s.add(...pairs.map(([tenant, model], i) => ({ id: `j${i}`, keys: { tenant: tenant!, model: model! } })));
    equal(await ids(s), "j0 j1 j2 j3", "what starts");
  },

  "a job that is moved to another group is counted for that group, and those it leaves for theirs": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("group", "model")));
    await s.add({ id: "moved", group: "g", keys: { model: "x" } }, { id: "left", group: "g", keys: { model: "x" } });
    await s.storage.update({ queue: "q", id: "moved", set: { group: "h" } });
    const { jobs, more } = await s.claim();
    equal([jobs.map(({ id }) => id).toSorted(), more], [["left", "moved"], false], "what starts");
    equal((await countOf(s, "k", "g,x")).held, 1, "what is held of the first group");
    equal((await countOf(s, "k", "h,x")).held, 1, "what is held of the other");
  },

  "a limit counts by the group and by keys together": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("group", "model")));
    await s.add(
      { id: "gx", group: "g", keys: { model: "x" } },
      { id: "hx", group: "h", keys: { model: "x" } },
      { id: "gx2", group: "g", keys: { model: "x" } },
      { id: "gy", group: "g", keys: { model: "y" } },
    );
    equal((await ids(s)).split(" ").toSorted().join(" "), "gx gy hx", "what starts");
  },

  "without groups jobs start in the order in which they came due, whatever their keys": async (s) => {
    await define(s, rule("k", { concurrency: 100 }, BY("user")));
    const users = "abcabbca".split("");
    await s.add(...users.map((user, i) => ({ id: `${i}${user}`, type: i % 3 === 0 ? "t" : "u", keys: { user } })));
    const order: string[] = [];
    for (let i = 0; i < users.length; i += 2) order.push(await ids(s, { max: 2 }));
    equal(order.join(" "), users.map((user, i) => `${i}${user}`).join(" "), "the order");
  },

  "groups take turns, whatever the keys of their jobs": async (s) => {
    await define(s, rule("k", { concurrency: 100 }, BY("user")));
    await s.add(
      { id: "g1", group: "g", keys: { user: "a" } },
      { id: "g2", group: "g", keys: { user: "b" } },
      { id: "g3", group: "g", keys: { user: "c" } },
      { id: "h1", group: "h", keys: { user: "a" } },
      { id: "h2", group: "h", keys: { user: "b" } },
    );
    const order: string[] = [];
    for (let i = 0; i < 5; i++) order.push(await ids(s, { max: 1 }));
    equal(order.join(" "), "g1 h1 g2 h2 g3", "the order");
  },

  "a job that is given back starts before later jobs of its group, whatever their types and keys": async (s) => {
    await s.add({ id: "first", type: "t", group: "g", keys: { user: "a" } }, { id: "second", type: "u", group: "g" });
    const { jobs } = await s.claim({ types: ["t"] });
    equal(await s.claim({ max: 0 }).then(({ more }) => more), true, "whether the second can start");
    equal(await ids(s, { max: 1, settle: [back(jobs[0]!)] }), "first", "what starts when the first is given back");
  },

  "a job that waits for a full key gives its group no turn, whether or not a claim has met it": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { ...BY("tenant"), types: ["slow"] }));
    const x = { tenant: "x" };
    // The lane of slow jobs was served the longest ago, and its group the latest.
    for (const [id, type, group] of [
      ["s1", "slow", "g"],
      ["h1", "fast", "h"],
      ["g1", "fast", "g"],
    ] as const) {
      await s.add({ id, type, group, keys: x });
      equal(await ids(s, { types: [type] }), id, "the turns before");
    }
    await s.add(...["g2", "h2", "g3", "h3"].map((id) => ({ id, type: "fast", group: id[0]!, keys: x })));
    await s.add({ id: "s2", type: "slow", group: "g", keys: x });
    equal(await ids(s, { max: 1 }), "h2", "what starts before a claim has met it");
    equal(await ids(s, { types: ["slow"] }), "", "a claim for its type");
    equal(await ids(s, { max: 2 }), "g2 h3", "what starts afterwards");
  },

  "a full key hides no job that could start": async (s) => {
    await define(s, rule("tenant", { concurrency: 2 }, BY("tenant")), rule("model", { concurrency: 1 }, BY("model")));
    const both = { tenant: "a", model: "x" };
    await s.add(
      { id: "1", keys: both },
      { id: "2", keys: both },
      { id: "3", keys: { tenant: "a", model: "y" } },
      { id: "4", keys: { tenant: "b", model: "x" } },
      { id: "5", keys: { tenant: "b", model: "z" } },
    );
    const { jobs } = await s.claim();
    equal(jobs.map(({ id }) => id).join(" "), "1 3 5", "the first claim");
    await s.settle(completed(jobs[0]!));
    equal(await ids(s), "2", "when both keys of the oldest are available");
    await s.settle(completed(jobs[1]!));
    equal(await ids(s), "", "when only the other key of the rest is available");
  },

  "what is given back lets the next job of that key start, in every queue and type": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const a = { tenant: "a" };
    await s.add({ id: "1", keys: a }, { id: "2", keys: a, type: "u" }, { id: "3", keys: { tenant: "b" } });
    await s.add({ id: "4", keys: a, queue: "r" });
    const { jobs } = await s.claim();
    equal(jobs.map(({ id }) => id).join(" "), "1 3", "the first claim");
    equal(await ids(s, { queue: "r" }), "", "the other queue");
    await s.settle(completed(jobs[0]!));
    equal(await ids(s, { queue: "r" }), "4", "the other queue, when a slot is available");
    equal(await ids(s), "", "the first queue, when that is taken");
  },

  "a heavy job is not passed by lighter ones of its key, and keeps back no others": async (s) => {
    await define(s, rule("k", window(10, 1_000), { ...BY("model"), weight: "n" }));
    const of = (id: string, model: string, n: number) => ({ id, keys: { model, id }, weights: { n } });
    await s.add(of("first", "x", 6));
    equal(await ids(s), "first", "what starts first");
    await s.add(of("heavy", "x", 8), of("light", "x", 1), of("other", "y", 1));
    equal(await ids(s), "other", "while the heavy one does not fit");
    await s.clock.advance(1_000);
    equal(await ids(s), "heavy light", "when it fits");
  },

  "a limit with numbers of its own for one value uses them": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { ...BY("tenant"), groups: { big: { concurrency: 3 } } }));
    const tenants = ["big", "big", "big", "big", "small", "small"];
    await s.add(...tenants.map((tenant, i) => ({ id: `${i}`, keys: { tenant } })));
    equal(await ids(s), "0 1 2 4", "what starts");
  },

  "a job with keys that is given back goes before jobs of a lower priority, beside another one without keys": async (
    s,
  ) => {
    await define(s, rule("k", { concurrency: 1 }));
    await s.add({ id: "low" }, { id: "keyed", type: "u", priority: 5, keys: { tenant: "a" } });
    await s.add({ id: "plain", type: "u", priority: 5 });
    const { jobs } = await s.claim({ max: 1 });
    equal(await ids(s, { max: 1, settle: [back(jobs[0]!)] }), "keyed", "what starts, when it is given back");
  },

  "a claim wakes up for a job with keys that is first, and not for the one without keys behind it": async (s) => {
    await define(s, rule("k", window(3, 1_000), { weight: "n" }));
    await s.add({ weights: { n: 2 } });
    await s.claimOne();
    await s.clock.advance(500);
    await s.add({ weights: { n: 1 } });
    await s.claimOne();
    await s.add({ keys: { tenant: "a" }, weights: { n: 2 } }, { weights: { n: 3 } });
    equal(await said(s), blocked(500), "while both wait");
  },

  ...keyStates,
};
