import { equal, ok, refused } from "../expect.ts";
import {
  blocked,
  BREAKER,
  BY,
  change,
  count,
  countOf,
  define,
  ids,
  limitOf,
  rule,
  said,
  take,
  taken,
  usedAndHeld,
  window,
} from "./limit-words.ts";
import { back, type Cases, completed, retry, type Scene } from "./scene.ts";

const LONG = { leaseMs: 600_000 };

/** Does this step wake up workers that a limit blocks? */
const wakesBlocked = (s: Scene, step: () => Promise<unknown>) => s.wakes(step, { mayStart: true, quietFirst: true });

/** The states of limits by keys, whatever reads or changes them. Part of the subject `keys`. */
export const keyStates: Cases = {
  "the state of a limit by several keys is read by their values, joined in the order of the limit": async (s) => {
    await define(s, rule("k", { concurrency: 5, ...window(5, 1_000) }, BY("tenant", "model")));
    await s.add(
      { keys: { model: "x", tenant: "a" } },
      { keys: { tenant: "a", model: "x" } },
      { keys: { tenant: "a,b", model: "x" } },
      { keys: { tenant: "a" } },
      {},
    );
    equal(await count(s), 5, "what starts");
    const { states, groups } = await limitOf(s, "k");
    const read = states.map(({ group, used, held }) => `${String(group)} ${used} ${held}`).toSorted();
    equal(read, [String.raw`a\,b,x 1 1`, "a, 1 1", "a,x 2 2", "null 1 1"].toSorted(), "the states");
    equal([groups, await usedAndHeld(s, "k", "a,x")], [4, [2, 2]], "how many, and one of them");
  },

  "a hold that a job asks for is for its keys, and not for its group": async (s) => {
    await define(s, rule("k", window(50, 1_000), BY("tenant")), rule("g", window(50, 1_000), { byGroup: true }));
    const of = (id: string, group: string, tenant: string) => ({ id, group, keys: { tenant } });
    await s.add(of("1", "a", "x"), of("2", "a", "y"), of("3", "b", "x"), of("4", "b", "a"));
    const first = await s.claimOne();
    await s.settle(back(first, { inMs: 0, held: true, hold: { names: ["k"], scope: false, forMs: 2_000 } }));
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal(
      [
        jobs
          .map(({ id }) => id)
          .toSorted()
          .join(" "),
        nextInMs,
        blockedBy,
      ],
      ["2 4", 2_000, "k[x]"],
      "what starts, and what blocks the rest",
    );
    equal((await countOf(s, "k", "x")).heldForMs, 2_000, "the hold");
    equal((await countOf(s, "g", "a")).heldForMs, 0, "of the limit by group");
    await s.clock.advance(2_000);
    equal((await ids(s)).split(" ").toSorted(), ["1", "3"], "when the hold is over");
  },

  "a hold of the whole scope leaves limits by keys as they are": async (s) => {
    await define(s, rule("all", window(50, 1_000)), rule("k", window(50, 1_000), BY("tenant")));
    await s.add({ keys: { tenant: "a" } });
    await s.settle(back(await s.claimOne(), { held: true, hold: { names: [], scope: true, forMs: 2_000 } }));
    equal([(await countOf(s, "all")).heldForMs, (await countOf(s, "k", "a")).heldForMs], [2_000, 0], "the holds");
  },

  "a limit by a key can be held, reset and changed for one value": async (s) => {
    await define(s, rule("k", window(1, 60_000), BY("tenant")));
    const jobs = ["a", "a", "b", "b"].map((tenant, i) => ({ id: `${i}${tenant}`, keys: { tenant } }));
    await s.add(...jobs);
    equal(await ids(s), "0a 2b", "what starts");
    await change(s, "k", { reset: true, group: "a" });
    await change(s, "k", { holdMs: 500, group: "a" });
    equal(await said(s), blocked(500, "k[a]"), "held");
    await change(s, "k", { quota: { max: 2 }, group: "b" });
    equal(await ids(s), "3b", "with another number for one value");
    await s.clock.advance(500);
    equal(await ids(s), "1a", "when the hold is over");
  },

  "a pause of a limit by a key stops all of its values": async (s) => {
    await define(s, rule("k", window(9, 1_000), BY("tenant")));
    await s.add({ keys: { tenant: "a" } }, { keys: { tenant: "b" } });
    await change(s, "k", { paused: true });
    equal(await count(s), 0, "while it is paused");
    ok(await wakesBlocked(s, () => change(s, "k", { paused: false })), "expected workers to be woken");
    equal(await count(s), 2, "when it is resumed");
  },

  "while a limit by a key is paused, what another key lets go on asks for no further claim": async (s) => {
    await define(s, rule("model", { concurrency: 1 }, BY("model")), rule("tenant", { concurrency: 1 }, BY("tenant")));
    await s.add(...Array.from({ length: 12 }, (_, i) => ({ keys: { model: "x", tenant: `t${i}` } })));
    const { jobs } = await s.claim({ max: 2 });
    equal([jobs.length, await count(s)], [1, 0], "what starts before");
    await change(s, "tenant", { paused: true });
    await s.settle(completed(jobs[0]!));
    for (const which of ["the first", "another"]) {
      const { blockedBy, ...answer } = await said(s, { max: 1 });
      equal(answer, { count: 0, more: false, nextInMs: null }, `${which} claim while it is paused`);
      ok(blockedBy?.startsWith("tenant") === true, `expected the paused limit to block, got ${blockedBy}`);
    }
    await change(s, "tenant", { paused: false });
    equal(await count(s), 1, "when it is resumed");
  },

  "an explanation names the key that blocks the job, and when that is available": async (s) => {
    await define(s, rule("k", window(1, 1_000), BY("tenant")));
    const keys = { tenant: "a" };
    await s.add({ id: "1", keys }, { id: "2", keys }, { id: "3", keys }, { id: "4", keys: { tenant: "b" } });
    await s.claimOne();
    await s.clock.advance(100);
    const why = async (id: string) => {
      const limits = (await s.storage.explain(id))!.limits;
      return limits.map(({ group, used, waitMs, reason }) => [group, used, waitMs, reason]);
    };
    equal(await why("2"), [["a", 1, 900, "window"]], "the next of a full key");
    equal(await why("3"), [["a", 1, 1_900, "window"]], "the one behind it");
    equal(await why("4"), [["b", 0, 0, null]], "one of another key");
  },

  "what a job has really used is settled under its key": async (s) => {
    await define(s, rule("k", window(10, 1_000), { ...BY("tenant"), weight: "n" }));
    const [a, b] = [{ tenant: "a" }, { tenant: "b" }];
    await s.add({ id: "1", keys: a, weights: { n: 8 } }, { id: "2", keys: b, weights: { n: 8 } });
    const { jobs } = await s.claim();
    const later = { keys: a, weights: { n: 7 } };
    await s.add({ id: "3", ...later }, { id: "4", ...later, keys: b });
    equal(await ids(s), "", "while both keys are full");
    const one = jobs.find(({ id }) => id === "1")!;
    await s.storage.report([{ id: one.id, token: one.token, weights: { n: 3 } }]);
    equal([(await countOf(s, "k", "a")).used, (await countOf(s, "k", "b")).used], [3, 8], "what is used of each");
    equal(await ids(s), "3", "what starts then");
  },

  "every value of a key has a breaker of its own": async (s) => {
    await define(s, rule("k", window(50, 1_000), { ...BY("tenant"), breaker: { ...BREAKER, failures: 1 } }));
    await s.add(...["a", "a", "b", "b"].map((tenant, i) => ({ id: `${i}`, group: "g", keys: { tenant } })));
    await s.settle(retry(await s.claimOne(), 100_000));
    const { jobs, blockedBy, nextInMs } = await s.claim();
    equal([jobs.map(({ id }) => id), blockedBy, nextInMs], [["2", "3"], "k[a]", 1_000], "what starts");
    equal([(await countOf(s, "k", "a")).breaker, (await countOf(s, "k", "b")).breaker], ["open", "closed"], "each");
  },

  "a weight that can never fit for the key of its job is refused": async (s) => {
    const groups = { small: { max: 2 } };
    await define(s, rule("k", window(10, 1_000), { ...BY("tenant"), weight: "n", groups }));
    const small = { tenant: "small" };
    equal(await refused(() => s.add({ keys: small, weights: { n: 3 } }), "too heavy"), "SLUICE_OPTIONS", "the code");
    // The name of a group is no value of the key.
    const [other, light] = await s.add({ group: "small", weights: { n: 3 } }, { keys: small, weights: { n: 2 } });
    const heavy = { keys: small };
    equal(await refused(() => s.update(other, heavy), "an update"), "SLUICE_OPTIONS", "the code of an update");
    equal((await s.get(other!)).keys, undefined, "the keys");
    equal((await s.claimIds()).toSorted(), [other!, light!].toSorted(), "what starts");
  },

  "a permit outside of jobs and jobs of the same key are counted together": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const token = await taken(s, "k", { group: "a" });
    await s.add({ id: "1", keys: { tenant: "a" } }, { id: "2", group: "a", keys: { tenant: "b" } });
    equal(await ids(s), "2", "what starts");
    equal((await take(s, "k", { group: "b" })).granted, false, "a permit of a full key");
    const given = () => s.storage.limits.give(token, "released");
    ok(await wakesBlocked(s, given), "expected workers to be woken");
    equal(await ids(s), "1", "when the permit is released");
  },

  "a permit for the value of other names than the limit is by is not taken, and the answer says the names": async (
    s,
  ) => {
    const by = ["tenant", "model"];
    await define(s, rule("k", { concurrency: 9 }, BY(...by)), rule("g", { concurrency: 9 }, { byGroup: true }));
    await define(s, rule("all", { concurrency: 9 }));
    const namesOf = async (name: string, names?: readonly string[]) => {
      const answer = await take(s, name, { group: "x", by: names });
      return answer.granted ? "granted" : (answer.by ?? "refused");
    };
    equal(await namesOf("k", by), "granted", "the same names");
    equal(await namesOf("k"), "granted", "no names");
    equal(await namesOf("g", ["group"]), "granted", "the group");
    equal(await namesOf("all", []), "granted", "none, of a limit for all");
    equal(await namesOf("k", ["model", "tenant"]), by, "another order");
    equal(await namesOf("k", ["tenant"]), by, "one of them");
    equal(await namesOf("g", ["tenant"]), ["group"], "a key, of a limit by group");
    equal(await namesOf("all", ["group"]), [], "the group, of a limit for all");
    const used = [await countOf(s, "k", "x"), await countOf(s, "g", "x"), await countOf(s, "all")];
    equal(
      used.map(({ held }) => held),
      [2, 1, 1],
      "what is held",
    );
  },

  "workers are woken up when a key that jobs wait for is available": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const keys = { tenant: "a" };
    await s.add({ id: "1", keys }, { id: "2", keys });
    const job = await s.claimOne();
    equal(await ids(s), "", "while it is full");
    ok(await wakesBlocked(s, () => s.settle(completed(job))), "expected workers to be woken");
    equal(await ids(s), "2", "then");
  },

  "a job that gets other keys is counted by these, and takes its place by due time and age": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const a = { tenant: "a" };
    await s.add({ id: "1", keys: a }, { id: "2", keys: a }, { id: "3", keys: { tenant: "b" } });
    equal(await ids(s, { max: 1 }), "1", "what starts first");
    const changed = () => s.update("2", { keys: { tenant: "b", model: "x" } });
    ok(await wakesBlocked(s, changed), "expected workers to be woken");
    equal((await s.get("2")).keys, { tenant: "b", model: "x" }, "the keys");
    equal(await ids(s), "2", "the older one of the other key");
    equal(await s.update("3", { keys: null }), { updated: true, state: "waiting" }, "the answer");
    equal((await s.get("3")).keys, undefined, "no keys");
    equal(await ids(s), "3", "without keys");
  },

  "a scheduled job that gets other keys has them when it is due": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const keys = { tenant: "a" };
    await s.add({ id: "1", keys }, { id: "2", keys, due: { inMs: 100 } });
    equal(await ids(s), "1", "what starts first");
    equal(await s.update("2", { keys: { tenant: "b" } }), { updated: true, state: "scheduled" }, "the answer");
    await s.clock.advance(100);
    equal(await ids(s), "2", "when it is due");
  },

  "an update that names no keys leaves them as they are": async (s) => {
    const id = await s.addOne({ keys: { tenant: "a" } });
    await s.update(id, { priority: 4, group: "g" });
    equal((await s.get(id)).keys, { tenant: "a" }, "the keys");
  },

  "a limit that is by something else from now on counts as full for one window": async (s) => {
    for (const [name, from, to] of [
      ["group to key", { byGroup: true }, BY("tenant")],
      ["key to group", BY("tenant"), { byGroup: true }],
      ["key to key", BY("tenant"), BY("model")],
      ["key to keys", BY("tenant"), BY("tenant", "model")],
      ["all to key", {}, BY("tenant")],
    ] as const) {
      const types = { types: [name] };
      await define(s, rule(name, window(1, 1_000), { ...types, ...from }));
      const job = { type: name, group: "a", keys: { tenant: "b", model: "c" } };
      // The values of one are those of the other, with another meaning.
      const other = { type: name, group: "b", keys: { tenant: "a", model: "d" } };
      await s.add(job);
      equal(await count(s, types), 1, `${name}: what starts before`);
      await s.clock.advance(400);
      const { changes } = await define(s, rule(name, window(1, 1_000), { ...types, ...to }));
      equal(changes.length, 1, `${name}: what is changed`);
      await s.add(job, other);
      const { jobs, nextInMs } = await s.claim(types);
      equal([jobs.length, nextInMs], [0, 1_000], `${name}: full for a window`);
      await s.clock.advance(999);
      equal(await count(s, types), 0, `${name}: to its end`);
      await s.clock.advance(1);
      equal(await count(s, types), 2, `${name}: then each has a start`);
    }
  },

  "a limit that is by something else forgets holds, breakers and numbers of the earlier values": async (s) => {
    const breaker = { ...BREAKER, failures: 1 };
    await define(s, rule("k", { concurrency: 5 }, { byGroup: true, breaker }));
    await s.add({ id: "1", group: "broken" });
    await s.settle(retry(await s.claimOne(), 600_000));
    await change(s, "k", { holdMs: 600_000, group: "held" });
    await change(s, "k", { quota: { concurrency: 0 }, group: "stopped" });
    await define(s, rule("k", { concurrency: 5 }, { ...BY("tenant"), breaker }));
    await s.add(...["broken", "held", "stopped"].map((tenant) => ({ id: tenant, keys: { tenant } })));
    equal(await ids(s), "broken held stopped", "what starts");
  },

  "running jobs take slots of their own key where the limit is by that key from now on": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    const of = (id: string, group: string, tenant: string) => ({ id, group, keys: { tenant } });
    await s.add(of("1", "a", "x"), of("2", "x", "b"));
    const { jobs } = await s.claim(LONG);
    equal(jobs.length, 2, "what starts before");
    await define(s, rule("k", { concurrency: 1 }, BY("tenant")));
    const held = await Promise.all(["a", "b", "x"].map(async (value) => (await countOf(s, "k", value)).held));
    equal(held, [0, 1, 1], "what is held of each");
    await s.add(of("3", "b", "a"), of("4", "c", "x"));
    equal(await ids(s, LONG), "3", "what starts");
    await s.settle(completed(jobs.find(({ id }) => id === "2")!));
    equal((await countOf(s, "k", "x")).held, 1, "after the end of a job that had the value as its group");
    await s.settle(completed(jobs.find(({ id }) => id === "1")!));
    equal(await ids(s), "4", "after the end of the job of that key");
  },
};
