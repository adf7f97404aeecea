import { equal } from "../expect.ts";
import { BREAKER, change, count, countOf, define, rule, usedAndHeld, window } from "./limit-words.ts";
import { type Cases, completed, dead, type Scene } from "./scene.ts";

const LONG = { leaseMs: 600_000 };
const held = async (s: Scene, name = "k", group: string | null = null) => (await countOf(s, name, group)).held;

export const adopting: Cases = {
  "running jobs take slots of a concurrency that is added to their limit": async (s) => {
    await define(s, rule("k", window(100, 60_000)));
    await s.addMany(6);
    const { jobs } = await s.claim({ max: 3, ...LONG });
    await change(s, "k", { quota: { concurrency: 3 }, group: null });
    equal([await usedAndHeld(s, "k"), await count(s)], [[3, 3], 0], "used and held, and who starts");
    await change(s, "k", { quota: { concurrency: 4 }, group: null });
    equal(await held(s), 3, "held, when it is changed again");
    equal(await count(s, LONG), 1, "who starts then");
    await s.settle(completed(jobs[0]!), completed(jobs[1]!));
    equal([await held(s), await count(s, LONG)], [2, 2], "what comes back with them, and who starts");
    await s.clock.advance(600_000);
    await s.sweep();
    equal(await held(s), 0, "held when all leases have run out");
  },

  "running jobs take slots of a limit that is new, or that applies to them now": async (s) => {
    await s.add({ type: "a" }, { type: "a" }, { type: "b" });
    const { jobs } = await s.claim(LONG);
    await define(s, rule("k", { concurrency: 3 }, { types: ["a"] }));
    equal(await held(s), 2, "what is held at first");
    await s.storage.limits.define([rule("k", { concurrency: 3 }, { types: ["a", "b"] })]);
    equal(await held(s), 3, "what is held of more types");
    await s.add({ type: "a" });
    equal(await count(s), 0, "who starts");
    await s.settle(completed(jobs[2]!));
    equal([await held(s), await count(s)], [2, 1], "when one of them has ended");
  },

  "running jobs take slots of their own group where the limit counts by group from now on": async (s) => {
    await define(s, rule("k", { concurrency: 2 }));
    await s.add({ group: "a" }, { group: "b" });
    const { jobs } = await s.claim(LONG);
    await s.storage.limits.define([rule("k", { concurrency: 2 }, { byGroup: true })]);
    equal([await held(s, "k", "a"), await held(s, "k", "b")], [1, 1], "what is held of each");
    await s.add({ group: "a" }, { group: "a" }, { group: "b" });
    equal(await count(s, LONG), 2, "who starts");
    await s.settle(completed(jobs.find(({ group }) => group === "a")!));
    equal([await held(s, "k", "a"), await held(s, "k", "b")], [1, 2], "when one has ended");
    await s.storage.limits.define([rule("k", { concurrency: 2 })]);
    equal([await held(s), await count(s)], [3, 0], "what is held for all again, and who starts");
  },

  "running jobs take as many slots of a new limit as they weigh": async (s) => {
    await s.add({ weights: { gb: 6 } }, {});
    const { jobs } = await s.claim(LONG);
    await define(s, rule("k", { concurrency: 10 }, { weight: "gb", estimate: 3 }));
    equal(await held(s), 9, "what is held");
    await s.add({ weights: { gb: 2 } });
    equal(await count(s), 0, "who starts");
    await s.settle(completed(jobs[1]!));
    equal([await held(s), await count(s)], [6, 1], "when one has ended");
  },

  "the failure of a running job counts for a breaker that is new": async (s) => {
    await s.addMany(2);
    const { jobs } = await s.claim({ max: 1, ...LONG });
    await define(s, rule("k", {}, { breaker: { ...BREAKER, failures: 1 } }));
    await s.settle(dead(jobs[0]!));
    equal([(await countOf(s, "k")).breaker, await count(s)], ["open", 0], "the breaker, and who starts");
  },

  "running jobs take slots of a limit that is removed and declared again": async (s) => {
    await define(s, rule("k", { concurrency: 2 }), rule("g", { concurrency: 2 }, { byGroup: true }));
    await s.addMany(4, { group: "a" });
    const { jobs } = await s.claim(LONG);
    for (const name of ["k", "g"]) await s.storage.limits.remove(name);
    await define(s, rule("k", { concurrency: 2 }), rule("g", { concurrency: 2 }, { byGroup: true }));
    equal([await held(s), await held(s, "g", "a"), await count(s)], [2, 2, 0], "what is held, and who starts");
    await s.settle(completed(jobs[0]!));
    equal([await held(s), await held(s, "g", "a"), await count(s)], [1, 1, 1], "when one has ended");
  },
};
