import { equal, ok } from "../expect.ts";
import {
  blocked,
  BREAKER,
  change,
  count,
  countOf,
  define,
  limitOf,
  refusedFor,
  rule,
  said,
  take,
  taken,
  usedAndHeld,
  window,
} from "./limit-words.ts";
import { type Cases, completed, dead, lease } from "./scene.ts";

export const permits: Cases = {
  "a permit that has ended cannot be cancelled": async (s) => {
    await define(s, rule("k", { everyMs: 1_000 }));
    const token = await taken(s, "k");
    await s.storage.limits.give(token, "released");
    await s.storage.limits.give(token, "cancelled");
    equal(await take(s, "k"), refusedFor(1_000), "the next one");
  },

  "permits and jobs share one window": async (s) => {
    await define(s, rule("k", window(3, 1_000)));
    await s.addMany(5);
    const answer = await take(s, "k");
    ok(answer.granted, "expected to be granted");
    equal(answer.held, false, "nothing is held");
    await s.clock.advance(100);
    equal(await said(s), { count: 2, more: false, nextInMs: 900, blockedBy: "k" }, "what is left for jobs");
    equal(await take(s, "k"), refusedFor(900), "what is left outside");
    await s.clock.advance(899);
    equal(await take(s, "k"), refusedFor(1), "a millisecond before");
    await s.clock.advance(1);
    ok((await take(s, "k")).granted, "expected to be granted at the instant");
  },

  "permits and jobs share one concurrency": async (s) => {
    await define(s, rule("k", { concurrency: 2 }));
    await s.addMany(5);
    const answer = await take(s, "k", { ttlMs: 1_000 });
    ok(answer.granted && answer.held, "expected something to be held");
    const job = await s.claimOne();
    equal(await said(s), blocked(1_000), "until the permit runs out");
    equal(await take(s, "k"), refusedFor(1_000), "outside as well");
    await s.settle(completed(job));
    equal((await take(s, "k")).granted, true, "when a job has ended");
    await s.storage.limits.give(answer.token, "released");
    equal(await count(s), 1, "when a permit was released");
  },

  "permits and jobs share spacing, holds and breakers": async (s) => {
    await define(s, rule("spaced", { everyMs: 300 }, { types: ["a"] }), rule("held", window(5, 1_000)));
    await s.add({ type: "a" });
    await taken(s, "spaced");
    equal((await said(s)).nextInMs, 300, "spacing");
    await change(s, "held", { holdMs: 400, group: null });
    equal(await take(s, "held"), refusedFor(400), "a hold");
    await change(s, "held", { paused: true });
    equal(await take(s, "held"), refusedFor(null), "stopped by hand");
  },

  "the slot of a permit is free when the permit expires": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    await s.addMany(3);
    const token = await taken(s, "k", { ttlMs: 1_000 });
    await s.clock.advance(999);
    equal(await said(s), blocked(1), "a millisecond before");
    await s.clock.advance(1);
    equal((await countOf(s, "k")).held, 0, "what is held");
    equal(await count(s), 1, "at the instant");
    await s.storage.limits.give(token, "released");
    await s.storage.limits.give(token, "cancelled");
    equal([await count(s), (await countOf(s, "k")).held], [0, 1], "what comes too late changes nothing");
  },

  "a permit is kept while it is renewed": async (s) => {
    await define(s, rule("k", { concurrency: 2 }));
    const [kept, lost] = [await taken(s, "k", { ttlMs: 1_000 }), await taken(s, "k", { ttlMs: 1_000 })];
    for (let i = 0; i < 3; i++) {
      await s.clock.advance(900);
      equal(await s.storage.limits.renew([kept], 1_000), [], "lost");
    }
    equal(await s.storage.limits.renew([kept, lost, "nobody"], 5_000), [lost, "nobody"], "lost after that");
    equal((await countOf(s, "k")).held, 1, "what is held");
    await s.clock.advance(5_000);
    equal(await s.storage.limits.renew([kept], 1_000), [kept], "never revived");
    await s.sweep();
    equal((await countOf(s, "k")).held, 0, "what is held then");
  },

  "a permit is given back once": async (s) => {
    await define(s, rule("k", { ...window(10, 60_000), concurrency: 3 }));
    const tokens = [await taken(s, "k"), await taken(s, "k"), await taken(s, "k")];
    await s.storage.limits.give(tokens[0]!, "released");
    await s.storage.limits.give(tokens[0]!, "released");
    await s.storage.limits.give(tokens[0]!, "cancelled");
    equal(await usedAndHeld(s, "k"), [3, 2], "after one was released three times");
    await s.storage.limits.give(tokens[1]!, "cancelled");
    await s.storage.limits.give(tokens[1]!, "cancelled");
    equal(await usedAndHeld(s, "k"), [2, 1], "after one was cancelled twice");
    await s.storage.limits.give("nobody", "cancelled");
    equal(await s.storage.limits.renew(tokens, 1_000), [tokens[0], tokens[1]], "which are lost");
  },

  "a permit that is cancelled costs nothing": async (s) => {
    await define(s, rule("k", { ...window(1, 60_000), everyMs: 50_000 }));
    const token = await taken(s, "k");
    equal((await take(s, "k")).granted, false, "while it counts");
    await s.storage.limits.give(token, "cancelled");
    equal((await take(s, "k")).granted, true, "when it is cancelled");
    for (const used of [0, 3]) {
      await define(s, rule(`corrected ${used}`, window(5, 60_000)));
      const corrected = await taken(s, `corrected ${used}`);
      await taken(s, `corrected ${used}`);
      await s.storage.limits.give(corrected, { used });
      await s.storage.limits.give(corrected, "cancelled");
      equal((await countOf(s, `corrected ${used}`)).used, 1, `what is left when it was corrected to ${used} before`);
    }
  },

  "a permit has the weight that is given or the estimate, and with weight 0 nothing is taken": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n", estimate: 4 }));
    await taken(s, "k");
    await taken(s, "k", { weight: 5 });
    equal((await countOf(s, "k")).used, 9, "used");
    equal(await take(s, "k"), refusedFor(1_000), "the estimate");
    equal((await take(s, "k", { weight: 1 })).granted, true, "one");
    equal((await take(s, "k", { weight: 0 })).granted, true, "nothing, under a full limit");
    equal((await countOf(s, "k")).used, 10, "used then");
    const never = await take(s, "k", { weight: 11 });
    equal([never.granted, "most" in never ? never.most : null], [false, 10], "what can never fit");
  },

  "a permit is settled with the weight that was really used": async (s) => {
    await define(s, rule("k", { ...window(10, 1_000), concurrency: 5 }, { weight: "n", estimate: 4 }));
    const token = await taken(s, "k");
    for (const used of [2, 9, 1]) {
      await s.storage.limits.give(token, { used });
      equal(await usedAndHeld(s, "k"), [used, 1], `used and held, after ${used}`);
    }
    await s.clock.advance(1_000);
    await s.storage.limits.give(token, { used: 3 });
    equal((await countOf(s, "k")).used, 2, "more, when the start has left the window");
    await s.storage.limits.give(token, "released");
    equal(await usedAndHeld(s, "k"), [2, 0], "released");
  },

  "permits count by group, and the group is ignored where the limit is not by group": async (s) => {
    await define(
      s,
      rule("g", { concurrency: 1 }, { byGroup: true }),
      rule("k", { concurrency: 1 }, { types: ["none"] }),
    );
    await s.add({ group: "a" }, { group: "b" });
    await taken(s, "g", { group: "a", ttlMs: 700 });
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal([jobs.map(({ group }) => group), nextInMs, blockedBy], [["b"], 700, "g[a]"], "who starts");
    await taken(s, "k", { group: "a" });
    equal((await take(s, "k", { group: "b" })).granted, false, "another group of a limit for all");
    equal(
      (await limitOf(s, "k")).states.map(({ group, held }) => [group, held]),
      [[null, 1]],
      "its only state",
    );
  },

  "a group that waits for a permit is served when it is released": async (s) => {
    await define(s, rule("g", { concurrency: 1 }, { byGroup: true }));
    const token = await taken(s, "g", { group: "a", ttlMs: 60_000 });
    await s.add({ group: "a" });
    equal(await count(s), 0, "while it is held");
    await s.storage.limits.give(token, "released");
    equal(await count(s), 1, "when it is released");
  },

  "a permit can be the probe of a breaker": async (s) => {
    await define(s, rule("k", window(100, 60_000), { breaker: { ...BREAKER, failures: 1 } }));
    await s.addMany(3);
    await s.settle(dead(await s.claimOne()));
    equal(await take(s, "k"), refusedFor(1_000), "while it is open");
    await s.clock.advance(1_000);
    const probe = await take(s, "k", { ttlMs: 500 });
    ok(probe.granted, "expected a probe to be granted");
    equal(await count(s), 0, "while it probes");
    await s.storage.limits.give(probe.token, "cancelled");
    equal(await count(s), 1, "a job that probes instead");
  },

  "permits and rates of the same name count in the same log": async (s) => {
    await define(s, rule("k", window(3, 1_000)));
    await s.addMany(5);
    const asked = { maxExecutions: 3, windowMs: 1_000 };
    equal((await s.storage.rates.tryRecordExecution("k", asked)).granted, true, "a start in rates");
    await taken(s, "k");
    equal((await countOf(s, "k")).used, 2, "used");
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k" }, "what is left for jobs");
    const { granted, retryInMs } = await s.storage.rates.tryRecordExecution("k", asked);
    equal([granted, retryInMs], [false, 1_000], "what is left for rates");
  },

  "a permit may be settled after its end, while its start is in the window": async (s) => {
    for (const [name, quota] of [
      ["window", window(1_000, 60_000)],
      ["both", { ...window(1_000, 60_000), concurrency: 5 }],
    ] as const) {
      await define(s, rule(name, quota, { weight: "n" }));
      const token = await taken(s, name, { weight: 10, ttlMs: 1_000 });
      await s.storage.limits.give(token, "released");
      await s.clock.advance(30_000);
      await s.sweep();
      await s.storage.limits.give(token, { used: 500 });
      equal(await usedAndHeld(s, name), [500, 0], `used and held (${name})`);
      await s.storage.limits.give(token, "cancelled");
      equal(await usedAndHeld(s, name), [500, 0], `when it is cancelled too late (${name})`);
      equal(await s.storage.limits.renew([token], 60_000), [token], `whether it can be renewed (${name})`);
    }
  },

  "a late charge of a permit may be corrected after its end, while that charge is in the window": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    const token = await taken(s, "k", { weight: 1 });
    await s.clock.advance(1_000);
    await s.storage.limits.give(token, { used: 5 });
    await s.storage.limits.give(token, "released");
    equal((await countOf(s, "k")).used, 4, "charged when the start has left the window");
    await s.clock.advance(999);
    for (const [used, counts] of [
      [9, 8],
      [3, 2],
    ] as const) {
      await s.storage.limits.give(token, { used });
      equal((await countOf(s, "k")).used, counts, `charged then, if it used ${used}`);
    }
    await s.clock.advance(1);
    await s.storage.limits.give(token, { used: 9 });
    equal((await countOf(s, "k")).used, 0, "when that has left the window, too");
  },

  "a permit without slots may be settled for ten minutes": async (s) => {
    await define(
      s,
      rule("k", window(10_000, 10_000), { weight: "n" }),
      rule("g", window(10_000, 10_000), { weight: "n", byGroup: true }),
    );
    const tokens = [await taken(s, "k", { weight: 100 }), await taken(s, "g", { weight: 100, group: "a" })];
    await s.clock.advance(599_999);
    await s.sweep();
    for (const token of tokens) await s.storage.limits.give(token, { used: 9_000 });
    equal([(await countOf(s, "k")).used, (await countOf(s, "g", "a")).used], [8_900, 8_900], "charged from now");
  },

  "renewing a permit never makes it expire sooner": async (s) => {
    await define(s, rule("k", { concurrency: 1 }));
    const token = await taken(s, "k", { ttlMs: 10_000 });
    equal(await s.storage.limits.renew([token], 1_000), [], "lost");
    await s.clock.advance(9_999);
    equal((await countOf(s, "k")).held, 1, "what is held just before");
    await s.clock.advance(1);
    equal((await countOf(s, "k")).held, 0, "what is held then");
  },

  "asking whether a permit would be granted takes nothing": async (s) => {
    await define(s, rule("k", { ...window(5, 1_000), concurrency: 1, everyMs: 50 }, { weight: "n", estimate: 4 }));
    for (let i = 0; i < 3; i++) {
      equal(await take(s, "k", { dry: true }), { granted: true, token: "", held: false }, "what fits");
    }
    equal(await usedAndHeld(s, "k"), [0, 0], "used and held");
    await taken(s, "k", { ttlMs: 700 });
    const asked = await take(s, "k", { dry: true });
    equal(asked, refusedFor(1_000), "what does not");
    const never = await take(s, "k", { dry: true, weight: 9 });
    equal([never.granted, "most" in never ? never.most : null], [false, 5], "what never does");
    equal(await usedAndHeld(s, "k"), [4, 1], "used and held then");
  },

  "more used than reserved is subtracted from what a service said is remaining, and less is not added": async (s) => {
    await define(s, rule("k", window(1_000, 60_000), { weight: "n", estimate: 10 }));
    const [first, second] = [await taken(s, "k"), await taken(s, "k")];
    await change(s, "k", { remaining: 100, resetMs: 30_000, group: null });
    await s.storage.limits.give(first, { used: 70 });
    equal((await countOf(s, "k")).free, 40, "what is left when more was used");
    await s.storage.limits.give(second, "cancelled");
    equal((await countOf(s, "k")).free, 40, "what is left when one never started");
    await s.addMany(2, { weights: { n: 15 } });
    const job = await s.claimOne();
    await s.storage.report([{ ...lease(job), weights: { n: 40 } }]);
    equal([(await countOf(s, "k")).free, await count(s)], [0, 0], "what is left when a job used more, and who starts");
  },
};
