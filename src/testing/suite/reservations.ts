import { equal } from "../expect.ts";
import { blocked, BREAKER, change, count, define, rule, said, window } from "./limit-words.ts";
import { type Cases, completed, dead, retry } from "./scene.ts";

const heavy = (n: number) => ({ type: "heavy", weights: { n } });
const light = (n: number) => ({ type: "light", weights: { n } });
const HEAVY = { types: ["heavy"], leaseMs: 600_000 };
const LIGHT = { types: ["light"], leaseMs: 600_000 };
const ANY = { leaseMs: 600_000 };

export const reservations: Cases = {
  "a claim that looks and starts nothing ends no reservation of a heavy head": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    await s.claimOne(LIGHT);
    const id = await s.addOne(heavy(8));
    equal(await said(s, HEAVY), blocked(1_000), "the heavy one");
    await s.add(light(4));
    equal(await said(s, LIGHT), blocked(1_000), "behind it");
    await s.clock.advance(1_000);
    equal((await s.claim({ ...HEAVY, max: 0 })).more, true, "a look at the heavy one");
    equal(await said(s, LIGHT), blocked(100), "the light one, after that");
    equal(await s.claimIds(HEAVY), [id], "the heavy one");
  },

  "a claim that has enough without the heavy head ends no reservation of it": async (s) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n", types: ["light", "heavy"] }));
    await s.add(light(6));
    const first = await s.claimOne(LIGHT);
    const id = await s.addOne(heavy(8));
    equal(await count(s, HEAVY), 0, "the heavy one");
    await s.add(light(4), { type: "other", priority: 5 });
    equal(await count(s, { max: 1, types: ["other", "heavy"], settle: [completed(first)] }), 1, "of a higher priority");
    equal(await said(s, LIGHT), blocked(100), "the light one, after that");
    equal(await s.claimIds(HEAVY), [id], "the heavy one");
  },

  "a heavy head that a claim looks at and does not start is waited for no longer than before": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    await s.claimOne(LIGHT);
    await s.add(heavy(8));
    equal(await count(s, HEAVY), 0, "the heavy one");
    const late = await s.addOne(light(4));
    await s.clock.advance(1_060);
    equal((await s.claim({ ...HEAVY, max: 0 })).more, true, "a look at the heavy one");
    equal(await said(s, LIGHT), blocked(40), "the light one, after that");
    await s.clock.advance(40);
    equal(await s.claimIds(LIGHT), [late], "the light one, when the grace is over");
  },

  "a heavy head that does not fit into what its claim gives back is not passed by that claim": async (s) => {
    await define(s, rule("k", { concurrency: 5 }, { weight: "n" }));
    const of = (type: string, n: number) => ({ type, weights: { n } });
    await s.add(of("b", 1), of("a", 3), of("a", 2));
    const { jobs } = await s.claim({ ...ANY, max: 2 });
    equal([jobs.length, await count(s)], [2, 0], "how many start");
    await s.add(of("b", 5));
    equal([await count(s), await count(s)], [0, 0], "with another heavy one");
    equal(await count(s, { settle: [retry(jobs[1]!)] }), 0, "when the older one is given back");
  },

  "a heavy head keeps its reservation while something delays jobs of any weight": async (s) => {
    for (const what of ["spacing", "hold", "breaker"]) {
      const [few, many, name] = [`light ${what}`, `heavy ${what}`, `k ${what}`];
      const of = (type: string, n: number) => ({ type, weights: { n } });
      const spacing = what === "spacing" ? { everyMs: 100 } : {};
      const breaker = what === "breaker" ? { breaker: { ...BREAKER, failures: 1, openMs: 50 } } : {};
      await define(s, rule(name, { concurrency: 8, ...spacing }, { weight: "n", types: [few, many], ...breaker }));
      await s.add(of(few, 4), of(few, 4));
      const first = await s.claimOne({ ...ANY, types: [few] });
      await s.clock.advance(100);
      const second = await s.claimOne({ ...ANY, types: [few] });
      const id = await s.addOne(of(many, 5));
      equal(await count(s, { types: [many] }), 0, `the heavy one, ${what}`);
      await s.add(of(few, 1));
      await s.clock.advance(50);
      await s.settle(what === "breaker" ? dead(second) : completed(second));
      if (what === "hold") await change(s, name, { holdMs: 50, group: null });
      await s.settle(completed(first));
      equal(await said(s, { types: [many] }), blocked(50, name), `while it is delayed, ${what}`);
      await s.clock.advance(50);
      equal(await said(s, { types: [few] }), blocked(100, name), `the light one, then, ${what}`);
      equal(await s.claimIds({ types: [many] }), [id], `the heavy one, ${what}`);
    }
  },
};
