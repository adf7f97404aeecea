import { equal, ok } from "../expect.ts";
import { blocked, BREAKER, BY, change, count, define, rule, said, taken, window } from "./limit-words.ts";
import { type Cases, completed, dead, retry } from "./scene.ts";

const heavy = (n: number) => ({ type: "heavy", weights: { n } });
const light = (n: number) => ({ type: "light", weights: { n } });
const HEAVY = { types: ["heavy"], leaseMs: 600_000 };
const LIGHT = { types: ["light"], leaseMs: 600_000 };
const ANY = { leaseMs: 600_000 };

export const reservations: Cases = {
  "a claim that may start a heavy head starts no older job that takes what the head fits into": async (s) => {
    for (const [i, { quota, by }] of [
      { quota: { concurrency: 4 }, by: {} },
      { quota: { concurrency: 4 }, by: BY("tenant") },
      { quota: window(4, 1_000), by: {} },
    ].entries()) {
      const types = [`light ${i}`, `heavy ${i}`];
      const [few, many] = types as [string, string];
      const of = (type: string, n: number) => ({ type, keys: { tenant: "x" }, weights: { n } });
      await define(s, rule(`k ${i}`, quota, { weight: "n", types: [`running ${i}`, ...types], ...by }));
      await s.add(of(few, 1), ...Array.from({ length: 3 }, () => of(`running ${i}`, 1)));
      const { jobs } = await s.claim({ ...ANY, types: [`running ${i}`] });
      const id = await s.addOne(of(many, 4));
      equal([await count(s, { types: [many] }), await count(s, { types: [few] })], [0, 0], `at first, ${i}`);
      for (const job of jobs.slice(0, 2)) {
        equal(await s.claimIds({ types, settle: [completed(job)] }), [], `when a part is given back, ${i}`);
      }
      await s.clock.advance(1_000);
      equal(await s.claimIds({ types, settle: [completed(jobs[2]!)] }), [id], `when the head fits, ${i}`);
    }
  },

  "a heavy head that fits is not drained by jobs that another limit starts one at a time": async (s) => {
    await define(
      s,
      rule("k", { concurrency: 4 }, { weight: "n" }),
      rule("spaced", { everyMs: 100 }, { types: ["light"] }),
    );
    await s.add(light(1), light(1), light(1));
    const first = await s.claimOne();
    const id = await s.addOne(heavy(4));
    equal(await count(s), 0, "beside the first one");
    await s.clock.advance(1_000);
    equal(await s.claimIds({ settle: [completed(first)] }), [id], "when the first one ends");
  },

  "a heavy head starts before an older job that would delay it by the spacing of their limit": async (s) => {
    await define(s, rule("k", { concurrency: 8, everyMs: 50 }, { weight: "n" }));
    await s.add(light(6), light(1));
    const first = await s.claimOne(LIGHT);
    const id = await s.addOne(heavy(5));
    equal([await count(s, HEAVY), await count(s, LIGHT)], [0, 0], "at first");
    await s.clock.advance(1_000);
    equal(await s.claimIds({ settle: [completed(first)] }), [id], "when the head fits");
  },

  "of two heavy heads that do not fit beside each other the one that was refused first starts first": async (s) => {
    for (const [i, groups] of [
      ["served", "new"],
      [null, null],
    ].entries()) {
      const [first, second] = [`first ${i}`, `second ${i}`];
      await define(s, rule(`k ${i}`, { concurrency: 10 }, { weight: "n", types: [first, second] }));
      await s.add({ type: first, group: groups[0]!, weights: { n: 6 } });
      const job = await s.claimOne({ types: [first] });
      // It is older, or has its turn, and a claim refuses it later.
      const later = await s.addOne({ type: second, group: groups[1]!, weights: { n: 8 } });
      await s.clock.advance(1);
      const id = await s.addOne({ type: first, group: groups[0]!, weights: { n: 8 } });
      for (const types of [[first], [second]]) equal(await count(s, { types }), 0, `${types[0]}, at first`);
      const types = [first, second];
      const { jobs } = await s.claim({ types, settle: [completed(job)] });
      equal(
        jobs.map((one) => one.id),
        [id],
        `what starts, ${i}`,
      );
      equal(await s.claimIds({ types, settle: [completed(jobs[0]!)] }), [later], `what starts after it, ${i}`);
    }
  },

  "a heavy head that fits and that another limit refuses drains no older job of the same claim": async (s) => {
    await define(
      s,
      rule("k", { concurrency: 8 }, { weight: "n" }),
      rule("other", { concurrency: 1 }, { types: ["heavy"] }),
    );
    await s.add(light(6));
    const first = await s.claimOne(LIGHT);
    const late = await s.addOne(light(1));
    await s.add(heavy(8));
    equal([await count(s, HEAVY), await count(s, LIGHT)], [0, 0], "at first");
    await taken(s, "other", { ttlMs: 600_000 });
    const { jobs, more } = await s.claim({ settle: [completed(first)] });
    const started = jobs.map(({ id }) => id);
    equal(more && started.length === 0 ? await s.claimIds() : started, [late], "what starts");
  },

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
    for (const byGroup of [false, true]) {
      const [many, few, other] = [`heavy ${byGroup}`, `light ${byGroup}`, `other ${byGroup}`];
      const group = byGroup ? "g" : null;
      await define(s, rule(`k ${byGroup}`, { concurrency: 10 }, { weight: "n", types: [many, few], byGroup }));
      await s.add({ type: few, group, weights: { n: 6 } });
      const first = await s.claimOne({ types: [few] });
      const id = await s.addOne({ type: many, group, weights: { n: 8 } });
      equal(await count(s, { types: [many] }), 0, "the heavy one");
      await s.add({ type: few, group, weights: { n: 4 } }, { type: other, priority: 5 });
      equal(await count(s, { max: 1, types: [other, many], settle: [completed(first)] }), 1, "of a higher priority");
      const { count: none, nextInMs } = await said(s, { types: [few] });
      equal([none, nextInMs], [0, 100], `the light one, after that, by group: ${byGroup}`);
      equal(await s.claimIds({ types: [many] }), [id], "the heavy one");
    }
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

  "a heavy head of a higher priority starts when its instant has come, however many lanes of its type are ready":
    async (s) => {
      await define(s, rule("k", window(10, 1_000), { weight: "n" }));
      await s.addOne({ weights: { n: 5 } });
      await s.claimOne();
      const id = await s.addOne({ group: "first", priority: 1, weights: { n: 9 } });
      equal(await said(s), blocked(1_000, "k"), "the heavy one");
      await s.add(...Array.from({ length: 20 }, (_, n) => ({ group: `g${n}`, weights: { n: 3 } })));
      await s.clock.advance(1_000);
      equal(await s.claimIds({ max: 1 }), [id], "when the head fits");
    },

  "heavy heads of many types whose instants come together cost few claims": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.addOne({ weights: { n: 5 } });
    await s.claimOne();
    const types = Array.from({ length: 16 }, (_, n) => `t${n}`);
    await s.add(...types.map((type) => ({ type, weights: { n: 9 } })));
    for (const type of types) equal(await count(s, { types: [type] }), 0, `a job of the type ${type}`);
    await s.clock.advance(1_000);
    equal(await count(s, { max: 1 }), 1, "when the heads fit");
    let claims = 0;
    for (let more = true; more && claims < 16; claims++) ({ more } = await s.claim({ max: 1 }));
    ok(claims <= 3, `expected at most 3 claims in vain, got ${claims}`);
  },
};
