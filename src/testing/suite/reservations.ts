import { equal } from "../expect.ts";
import { blocked, BREAKER, change, count, define, rule, said } from "./limit-words.ts";
import { type Cases, completed, dead } from "./scene.ts";

const ANY = { leaseMs: 600_000 };

export const reservations: Cases = {
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
