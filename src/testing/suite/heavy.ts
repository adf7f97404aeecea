import { equal, ok } from "../expect.ts";
import { blocked, BY, change, count, define, refusedFor, rule, said, take, taken, window } from "./limit-words.ts";
import { back, type Cases, completed, lease, retry, type Scene } from "./scene.ts";

const heavy = (n: number) => ({ type: "heavy", weights: { n } });
const light = (n: number) => ({ type: "light", weights: { n } });
const HEAVY = { types: ["heavy"], leaseMs: 600_000 };
const LIGHT = { types: ["light"], leaseMs: 600_000 };

/** Six of ten are used for a second; one that needs eight was looked at, and waits; light ones wait elsewhere. */
async function waiting(s: Scene): Promise<string> {
  await define(s, rule("k", window(10, 1_000), { weight: "n" }));
  await s.add(light(6));
  await s.claimOne(LIGHT);
  const id = await s.addOne(heavy(8));
  equal(await said(s, HEAVY), blocked(1_000), "the heavy one");
  await s.add(light(1), light(1), { ...light(1), queue: "r" }, { ...light(1), queue: "r" });
  return id;
}

/** How much is taken outside of any job now. */
const granted = async (s: Scene) => (await take(s, "k", { weight: 1 })).granted;

export const heavyHeads: Cases = {
  "a job that counts for one and is refused twice reserves nothing": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { weight: "n" }));
    await s.add({});
    const job = await s.claimOne();
    await s.add({ queue: "r" });
    equal([await count(s, { queue: "r" }), await count(s, { queue: "r" })], [0, 0], "how many start elsewhere");
    await s.settle(completed(job));
    await s.add({});
    equal(await count(s), 1, "how many start then");
  },

  "a heavy head that waits for a limit is not passed by light jobs of other claims": async (s) => {
    const id = await waiting(s);
    await s.clock.advance(300);
    equal(await said(s, LIGHT), blocked(700), "of another type");
    equal((await said(s, { queue: "r" })).nextInMs, 700, "of another queue");
    equal(await take(s, "k", { weight: 1 }), refusedFor(700), "outside of any job");
    await s.clock.advance(700);
    equal(await s.claimIds(HEAVY), [id], "the heavy one, when it fits");
    equal([await count(s, LIGHT), await granted(s), await granted(s)], [2, false, false], "then the light ones");
  },

  "a heavy head of a paused type keeps no other job waiting": async (s) => {
    await waiting(s);
    const woken = await s.wakes(() => s.storage.setPaused("q", "heavy", true), { queue: "r", mayStart: true });
    ok(woken, "expected a wake-up when no job waits for the heavy one any more");
    equal([await count(s, LIGHT), await count(s, { queue: "r" })], [2, 2], "the light ones");
  },

  "a heavy head is not passed by light jobs that were refused before and wait for a release": async (s) => {
    await define(s, rule("k", { concurrency: 16 }, { weight: "n" }));
    await s.add(light(8));
    await s.claimOne(LIGHT);
    await s.add(heavy(16), light(4));
    equal([await count(s, HEAVY), await count(s, LIGHT)], [0, 0], "behind the heavy one");
    await s.storage.setPaused("q", "heavy", true);
    equal(await count(s, LIGHT), 1, "the light one");
  },

  "a heavy head is passed by jobs of a higher priority": async (s) => {
    await waiting(s);
    const higher = await s.addOne({ ...light(1), priority: 5 });
    await s.add({ ...light(1), priority: -5 });
    equal(await s.claimIds(LIGHT), [higher], "who starts");
  },

  "when a heavy head fits, other claims leave it a moment to be claimed": async (s) => {
    const id = await waiting(s);
    await s.clock.advance(1_000);
    equal(await said(s, LIGHT), blocked(100), "light ones, at the instant");
    await s.clock.advance(60);
    equal([(await said(s, { queue: "r" })).nextInMs, await granted(s)], [40, false], "and a little later");
    equal(await s.claimIds(HEAVY), [id], "the heavy one");
    equal(await count(s, LIGHT), 2, "the light ones after that");
  },

  "a claim that may take the heavy head itself goes by turns": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    await s.claimOne(LIGHT);
    // Its lane exists before: a claim has seen a job in it.
    const seen = await s.addOne({ ...light(1), group: "g" });
    await s.claim({ ...LIGHT, max: 0 });
    await s.change("cancel", seen);
    const id = await s.addOne({ ...heavy(8), group: "h" });
    equal(await count(s, HEAVY), 0, "the heavy one");
    await s.clock.advance(1_000);
    const other = await s.addOne({ ...light(1), group: "g" });
    equal(await s.claimIds(), [other, id], "who starts");
  },

  "other claims leave a heavy head that moment and no longer": async (s) => {
    await waiting(s);
    await s.clock.advance(1_100);
    equal([await count(s, LIGHT), await count(s, { queue: "r" }), await granted(s)], [2, 2, true], "who starts");
  },

  "a heavy head that fits and that another limit refuses keeps no light job waiting": async (s) => {
    for (const byGroup of [false, true]) {
      const [many, few, other] = [`heavy ${byGroup}`, `light ${byGroup}`, `other ${byGroup}`];
      const group = byGroup ? "g" : null;
      await define(
        s,
        rule(`k ${byGroup}`, window(10, 1_000), { weight: "n", types: [many, few], byGroup }),
        rule(other, { concurrency: 1 }, { types: [many], byGroup }),
      );
      await s.add({ type: few, group, weights: { n: 6 } });
      await s.claimOne({ types: [few] });
      const id = await s.addOne({ type: many, group, weights: { n: 8 } });
      equal((await said(s, { types: [many] })).nextInMs, 1_000, "the heavy one");
      const late = await s.addOne({ type: few, group, weights: { n: 1 } });
      equal((await said(s, { types: [few] })).nextInMs, 1_000, "the light one");
      const permit = await taken(s, other, { group, ttlMs: 600_000 });
      await s.clock.advance(1_000);
      equal(await s.claimIds({ types: [many] }), [], "the heavy one, while the other limit is full");
      equal(await s.claimIds({ types: [few] }), [late], "the light one, then");
      await s.storage.limits.give(permit, "released");
      equal(await s.claimIds({ types: [many] }), [id], "the heavy one, at last");
    }
  },

  "what is given back goes to the heavy head first": async (s) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add(light(6));
    const first = await s.claimOne(LIGHT);
    const [id] = await s.add(heavy(8), light(1), light(1));
    equal(await said(s, HEAVY), blocked(null), "the heavy one");
    equal(await said(s, LIGHT), blocked(null), "light ones");
    equal(await take(s, "k", { weight: 1 }), refusedFor(null), "outside of any job");
    equal((await s.claim({ ...LIGHT, settle: [completed(first)] })).nextInMs, 100, "light ones that give it back");
    equal(await s.claimIds(HEAVY), [id], "the heavy one then");
    equal(await count(s, LIGHT), 2, "and who fits beside it");
  },

  "what was reserved and not used goes to the heavy head first": async (s) => {
    await define(s, rule("k", window(10, 60_000), { weight: "n" }));
    await s.add(light(6));
    const first = await s.claimOne(LIGHT);
    const [id] = await s.add(heavy(8), light(1), light(1));
    equal([await count(s, HEAVY), await count(s, LIGHT)], [0, 0], "who starts at first");
    await s.storage.report([{ ...lease(first), weights: { n: 1 } }]);
    equal((await said(s, LIGHT)).nextInMs, 100, "light ones");
    equal([await s.claimIds(HEAVY), await count(s, LIGHT)], [[id], 1], "the heavy one, and what fits beside it");
  },

  "no job waits for a heavy head that is gone, or whose limit was changed": async (s) => {
    const ends: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
      cancelled: (id) => s.change("cancel", id),
      removed: (id) => s.change("remove", id),
      reset: () => change(s, "k", { reset: true, group: null }),
      changed: () => change(s, "k", { quota: { max: 20 }, group: null }),
    };
    for (const [what, end] of Object.entries(ends)) {
      const id = await waiting(s);
      await end(id);
      equal(await count(s, LIGHT), 2, `light ones, when it is ${what}`);
      await s.storage.limits.remove("k");
      equal((await count(s)) + (await count(s, { queue: "r" })) > 0, true, "what is left over");
    }
  },

  "a light job that backed off takes its old place in front of a heavy head": async (s) => {
    for (const group of [null, "g"]) {
      const name = `k ${group}`;
      await define(s, rule(name, window(10, 1_000), { weight: "n", types: [name] }));
      const same = { type: name, group };
      await s.add({ ...same, weights: { n: 1 } }, { ...same, weights: { n: 6 } });
      const { jobs } = await s.claim({ types: [name] });
      const late = await s.addOne({ ...same, weights: { n: 8 } });
      equal(await s.claimIds({ types: [name] }), [], "the heavy one");
      await s.settle(retry(jobs[0]!, 200));
      await s.clock.advance(200);
      equal(await s.claimIds({ types: [name] }), [jobs[0]!.id], "the light one, when it is due again");
      await s.clock.advance(1_000);
      equal(await s.claimIds({ types: [name] }), [late], "the heavy one, when it fits");
    }
  },

  "heavy heads of several claims start one after another": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    await s.claimOne(LIGHT);
    await s.add({ ...heavy(8), type: "a" }, { ...heavy(9), type: "b" }, { ...heavy(7), queue: "r" });
    const claims = [{ types: ["a"] }, { types: ["b"] }, { queue: "r" }];
    const started: number[] = [];
    let after = 0;
    for (; started.length < 3 && after <= 4_000; after += 50) {
      for (const one of claims.toReversed()) for (let i = await count(s, one); i > 0; i--) started.push(after);
      await s.clock.advance(50);
    }
    equal(started.length, 3, "how many have started");
    ok(
      started.every((at, i) => at <= (i + 1) * 1_200),
      `expected one in each window, got ${started.join(", ")}`,
    );
  },

  "a heavy head that does not fit into what is given back is not passed either": async (s) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add(light(6), light(3));
    const { jobs } = await s.claim(LIGHT);
    const [first, other] = await s.add(heavy(8), light(1));
    const started = async () => [await s.claimIds(LIGHT), await granted(s)];
    equal(await s.claimIds(HEAVY), [], "the heavy one");
    await s.settle(completed(jobs[1]!));
    await s.clock.advance(150);
    equal(await started(), [[], false], "when a part is given back");
    equal(await s.claimIds(HEAVY), [], "the heavy one, then");
    await s.settle(completed(jobs[0]!));
    equal(await started(), [[], false], "when enough is given back");
    equal(await s.claimIds(HEAVY), [first], "the heavy one, at last");
    equal(await started(), [[other], true], "beside the heavy one");
  },

  "a heavy head that no worker claims when it fits keeps light jobs waiting once, however much is given back": async (
    s,
  ) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add(light(6));
    const first = await s.claimOne(LIGHT);
    await s.add(heavy(8), ...Array.from({ length: 6 }, () => light(3)));
    equal(await s.claimIds(HEAVY), [], "the heavy one");
    await s.settle(completed(first));
    equal(await s.claimIds(LIGHT), [], "while the grace lasts");
    await s.clock.advance(100);
    const { jobs } = await s.claim(LIGHT);
    equal(jobs.length, 3, "after the grace");
    for (const job of jobs) {
      await s.settle(completed(job));
      equal((await s.claimIds(LIGHT)).length, 1, "when one ends");
    }
  },

  "a lighter job behind a heavy head looks again when the head fits, and not before": async (s) => {
    await define(s, rule("k", { ...window(3, 1_000), everyMs: 40 }, { weight: "n" }));
    await s.add(heavy(1), heavy(3), light(2));
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k" }, "the first of them");
  },

  "of heavy heads that a limit refuses at one instant the one that was refused first starts first": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    await s.claimOne(LIGHT);
    const [second, first] = await s.add({ ...heavy(7), type: "second" }, { ...heavy(8), type: "first" });
    for (const types of [["first"], ["second"]]) equal(await count(s, { types }), 0, `${types[0]}, at first`);
    await s.clock.advance(1_000);
    equal(await said(s, { types: ["second"] }), blocked(100), "the second, when both fit");
    equal(await s.claimIds({ types: ["first"] }), [first], "the first, then");
    await s.clock.advance(1_000);
    equal(await s.claimIds({ types: ["second"] }), [second], "the second, at last");
  },

  "of heavy heads that one claim finds the one of the group that has its turn starts first": async (s) => {
    await define(s, rule("k", window(8, 50), { weight: "n", ...BY("tenant") }));
    await s.add({ group: "served", weights: { n: 6 } });
    await s.claimOne({ max: 1 });
    const [later, first] = await s.add({ group: "served", weights: { n: 5 } }, { group: "new", weights: { n: 5 } });
    equal(await count(s), 0, "while both are too heavy");
    await s.clock.advance(50);
    equal(await s.claimIds(), [first], "when one of them fits");
    await s.clock.advance(50);
    equal(await s.claimIds(), [later], "then the other");
  },

  "lanes behind a heavy head of their type do not pass one of another type": async (s) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n", ...BY("tenant") }));
    const of = (type: string, doc: string, n: number) => ({ type, keys: { tenant: "t", doc }, weights: { n } });
    const ids = await s.add(...["a", "b", "c"].map((doc) => of("small", doc, 4)));
    const small = { types: ["small"] };
    const { jobs } = await s.claim(small);
    equal(
      jobs.map(({ id }) => id),
      ids.slice(0, 2),
      "what fits",
    );
    const large = await s.addOne(of("large", "f", 9));
    equal(await count(s, { types: ["large"] }), 0, "the large one, behind the third");
    await s.add(of("small", "d", 4), of("small", "e", 4));
    equal(await count(s, small), 0, "those behind it");
    const { jobs: third } = await s.claim({ ...small, settle: [completed(jobs[0]!)] });
    equal(
      third.map(({ id }) => id),
      [ids[2]],
      "the third",
    );
    equal(await count(s, { ...small, settle: [completed(jobs[1]!)] }), 0, "the fourth, which the limit refused later");
    const [start] = third;
    equal(await s.claimIds({ types: ["large"], settle: [completed(start!)] }), [large], "the large one, when it fits");
  },

  "a light job that waits for the second of two heavy heads does not keep the first one waiting": async (s) => {
    for (const byGroup of [false, true]) {
      const types = [`first ${byGroup}`, `light ${byGroup}`, `second ${byGroup}`];
      const [first, few, second] = types as [string, string, string];
      await define(s, rule(`k ${byGroup}`, { concurrency: 10 }, { weight: "n", types, byGroup }));
      await s.add({ type: few, weights: { n: 7 } });
      const job = await s.claimOne({ types: [few] });
      await s.add({ type: few, weights: { n: 1 } });
      const id = await s.addOne({ type: first, weights: { n: 4 } });
      await s.add({ type: second, queue: "r", weights: { n: 9 } });
      equal([await count(s, { types: [first] }), await count(s, { queue: "r" })], [0, 0], "the heavy ones");
      await s.storage.report([{ ...lease(job), weights: { n: 5 } }]);
      equal(await s.claimIds({ types: [first, few] }), [id], "what starts when the first one fits");
    }
  },

  "a heavy head that fits starts, also if a claim asks first for one that the limit refused later": async (s) => {
    for (const [i, [byTenant, one]] of [
      [false, false],
      [false, true],
      [true, false],
      [true, true],
    ].entries()) {
      const early = `early ${i}`;
      const [late, few] = one ? [early, early] : [`late ${i}`, `light ${i}`];
      const types = [early, late, few];
      const by = byTenant ? BY("tenant") : {};
      await define(s, rule(`k ${i}`, { concurrency: 9 }, { weight: "n", types, ...by }));
      const of = (type: string, group: string, n: number) => ({ type, group, keys: { tenant: "x" }, weights: { n } });
      await s.add(of(early, "served", 5), of(early, "served", 3));
      const { jobs } = await s.claim({ types: [early] });
      const first = await s.addOne(of(early, "served", 2));
      equal(await count(s, { types: [early] }), 0, "the head that is refused first");
      const second = await s.addOne(of(late, "new", 4));
      equal(await count(s, { types: [late] }), 0, "the other head");
      const other = await s.addOne(of(few, "other", 1));
      await s.settle(completed(jobs[1]!));
      await s.add({ ...of(few, "urgent", 2), priority: 5 });
      equal(await count(s, { types: [few], max: 1 }), 1, "of a higher priority, when both fit");
      equal(await s.claimIds({ types }), [first], "what starts when only the first one fits");
      await s.settle(completed(jobs[0]!));
      equal(await s.claimIds({ types }), [second, other], "then the other, and what fits beside it");
    }
  },

  "a job that waits for the second of two heavy heads does not delay the wake-up time of the first one": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add(light(6));
    const job = await s.claimOne(LIGHT);
    const [, first] = await s.add({ ...light(5), type: "other" }, heavy(5), { ...heavy(10), queue: "r" });
    equal(await count(s, HEAVY), 0, "the first one");
    await s.clock.advance(300);
    await s.add({ ...light(1), priority: 5 });
    await s.claimOne(LIGHT);
    equal(await said(s, { queue: "r" }), blocked(1_000), "the second one");
    await s.storage.report([{ ...lease(job), weights: { n: 5 } }]);
    equal(await said(s), blocked(700), "the job before the first one");
    await s.clock.advance(700);
    equal(await s.claimIds(), [first], "what starts when the first one fits");
  },

  "a pause of another type ends no reservation of a heavy head": async (s) => {
    const id = await waiting(s);
    await s.storage.setPaused("q", "other", true);
    await s.clock.advance(1_000);
    equal([await said(s, LIGHT), await s.claimIds(HEAVY)], [blocked(100), [id]], "who starts when it fits");
  },

  "a job whose window is given back goes before others that a claim expected to be refused": async (s) => {
    await define(s, rule("k", window(4, 1_000), { weight: "n" }));
    await s.add(heavy(4), heavy(4), light(4));
    const { jobs } = await s.claim({ max: 1 });
    await s.settle(back(jobs[0]!, { inMs: 400, unstarted: true }));
    equal((await s.claimIds())[0], "job-2", "what starts");
  },

  "a light job does not pass a heavy one for which too much was charged since the claim before": async (s) => {
    await define(s, rule("k", window(8, 1_000), { weight: "n" }));
    await s.add({ ...light(1), queue: "r" });
    const other = await s.claimOne({ queue: "r" });
    await s.add(heavy(6), light(1), { ...light(1), priority: 5 });
    equal(await count(s, { max: 1 }), 1, "the job of the highest priority");
    await s.storage.report([{ ...lease(other), weights: { n: 5 } }]);
    equal(await said(s, { max: 1 }), blocked(1_000), "the heavy one and the light one");
  },

  "a job that counts for one and waits for a release keeps no job of another claim waiting": async (s) => {
    await define(s, rule("k", { concurrency: 4 }, { weight: "n" }));
    await s.add(light(4));
    await s.add({ ...light(1), type: "other" });
    const [job] = (await s.claim({ leaseMs: 600_000 })).jobs;
    const late = await s.addOne(light(2));
    await s.settle(completed(job!));
    equal(await s.claimIds(LIGHT), [late], "what starts");
  },

  "a heavy head that fits and is cancelled keeps no other job waiting": async (s) => {
    await define(s, rule("k", window(2, 1_000), { weight: "n" }));
    await s.add({ ...light(1), id: "first" }, { ...light(1), id: "second" });
    const { jobs } = await s.claim({ max: 1 });
    const [id] = await s.add({ ...heavy(2), queue: "r" });
    equal(await count(s, { queue: "r" }), 0, "the heavy one");
    equal(await said(s), blocked(1_000), "behind it");
    await s.settle(back(jobs[0]!, { unstarted: true }));
    equal(await said(s), blocked(100), "when it fits");
    await s.storage.change({ action: "cancel", queue: "r", ids: [id!] });
    equal(await s.claimIds(), ["first", "second"], "when it is cancelled");
  },

  "a heavy head that takes what its claim returns wakes up workers that waited behind it": async (s) => {
    await define(s, rule("k", { concurrency: 4 }, { weight: "n" }));
    await s.add({ ...heavy(3), queue: "r" }, { ...heavy(3), queue: "r" });
    const first = await s.claimOne({ queue: "r" });
    const late = await s.addOne(light(1));
    equal(await said(s), blocked(null), "behind the heavy one");
    const step = () => s.claim({ queue: "r", settle: [completed(first)] });
    ok(await s.wakes(step, { mayStart: true, quietFirst: true }), "expected a wake-up when the heavy one starts");
    equal(await s.claimIds(), [late], "beside the heavy one");
  },

  "a heavy head that fits wakes up workers behind it, though no claim has asked for it since another release": async (
    s,
  ) => {
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add(light(2), light(4));
    const { jobs } = await s.claim(LIGHT);
    await s.add({ ...heavy(8), queue: "r" });
    equal(await count(s, { queue: "r" }), 0, "the heavy one");
    const late = await s.addOne(light(1));
    await s.settle(completed(jobs[0]!));
    equal(await said(s, LIGHT), blocked(null), "behind the heavy one, after the first release");
    const step = () => s.settle(completed(jobs[1]!));
    ok(await s.wakes(step, { mayStart: true, quietFirst: true }), "expected a wake-up when the heavy one fits");
    await s.clock.advance(100);
    equal(await s.claimIds(LIGHT), [late], "when no worker has claimed the heavy one");
  },

  "a heavy head that takes just what its claim returns wakes up workers that wait behind it": async (s) => {
    for (const [i, by] of [{}, BY("tenant")].entries()) {
      const types = [`heavy ${i}`, `light ${i}`];
      await define(s, rule(`k ${i}`, { concurrency: 11 }, { weight: "n", types, ...by }));
      const of = (type: string, n: number) => ({ type, keys: { tenant: "x" }, weights: { n } });
      const [heavyOnes, lightOnes] = types.map((type) => ({ types: [type], leaseMs: 600_000 }));
      await s.add(of(types[0]!, 7));
      const first = await s.claimOne(heavyOnes);
      const second = await s.addOne(of(types[0]!, 7));
      const late = await s.addOne(of(types[1]!, 1));
      equal(await count(s, { types }), 0, "the heavy one, and what is behind it");
      const step = async () => equal(await s.claimIds({ ...heavyOnes, settle: [completed(first)] }), [second], "then");
      ok(await s.wakes(step, { mayStart: true, quietFirst: true }), "expected a wake-up when the heavy one starts");
      equal(await s.claimIds(lightOnes), [late], "beside the heavy one");
    }
  },

  "a job that comes due in front of a heavy head wakes up workers that wait behind the head": async (s) => {
    await define(
      s,
      rule("k", { concurrency: 10 }, { weight: "n" }),
      rule("other", { concurrency: 1 }, { types: ["heavy"] }),
    );
    await s.add(heavy(1), { ...light(6), queue: "r" });
    const first = await s.claimOne(HEAVY);
    equal(await count(s, { queue: "r", leaseMs: 600_000 }), 1, "how many start");
    await s.settle(retry(first, 200));
    const [, late] = await s.add(heavy(8), { ...light(1), queue: "r" });
    equal(await said(s, HEAVY), blocked(200), "the heavy one");
    equal(await said(s, { queue: "r" }), blocked(null), "behind the heavy one");
    await take(s, "other", { ttlMs: 600_000 });
    await s.clock.advance(200);
    const step = () => s.claim(HEAVY);
    ok(await s.wakes(step, { queue: "r", mayStart: true }), "expected a wake-up when another job is in front");
    equal(await s.claimIds({ queue: "r" }), [late], "what starts then");
  },

  "a job that another limit refuses for a while does not wait for a heavy head of a lower priority": async (s) => {
    await define(
      s,
      rule("k", { concurrency: 10 }, { weight: "n" }),
      rule("other", { everyMs: 1_000 }, { types: ["urgent"] }),
    );
    const urgent = { type: "urgent", priority: 5, weights: { n: 1 } };
    await s.add(light(6), urgent);
    equal(await count(s), 2, "how many start");
    const [id] = await s.add(urgent, heavy(8));
    equal(await said(s), { count: 0, more: false, nextInMs: 1_000, blockedBy: "other" }, "when the next one starts");
    await s.clock.advance(1_000);
    equal(await s.claimIds(), [id], "what starts then");
  },
};
