import type { NewJob } from "../../storage/job-storage.ts";
import { equal, refused } from "../expect.ts";
import { blocked, change, count, countOf, define, rule, said, usedAndHeld, window } from "./limit-words.ts";
import { back, type Cases, completed, lease, type Scene } from "./scene.ts";

const weighing = (n: number) => ({ weights: { tokens: n } });

const used = async (s: Scene) => (await countOf(s, "k")).used;

export const weights: Cases = {
  "a start is charged the weight of the job, or the estimate of the rule": async (s) => {
    await define(s, rule("k", window(100, 1_000), { weight: "tokens", estimate: 30 }));
    await s.add(weighing(45), { weights: { other: 99 } }, {}, weighing(10));
    equal(
      await said(s),
      { count: 2, more: false, nextInMs: 1_000, blockedBy: "k" },
      "45 and 30; another 30 do not fit",
    );
    equal(await used(s), 75, "used");
    equal((await countOf(s, "k")).free, 25, "free");
  },

  "beside a window, concurrency counts starts": async (s) => {
    await define(s, rule("k", { ...window(100, 1_000), concurrency: 2 }, { weight: "tokens" }));
    await s.add(weighing(10), weighing(20), weighing(30));
    equal(await said(s), { count: 2, more: false, nextInMs: null, blockedBy: "k" }, "two at a time");
    equal(await usedAndHeld(s, "k"), [30, 2], "used and held");
  },

  "without a window, a job takes as many slots as it weighs": async (s) => {
    await define(s, rule("k", { concurrency: 16 }, { weight: "gb", estimate: 4 }));
    const [big] = await s.add({ weights: { gb: 10 } }, {}, { weights: { gb: 3 } });
    const { jobs } = await s.claim();
    equal([jobs.length, await usedAndHeld(s, "k")], [2, [0, 14]], "two start, used and held");
    await s.settle(completed(jobs.find(({ id }) => id === big)!));
    equal([await count(s), await usedAndHeld(s, "k")], [1, [0, 7]], "the third");
  },

  "a heavy head is not passed by light jobs, however many there are": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens" }));
    await s.add(weighing(6), weighing(8), ...Array.from({ length: 20 }, () => weighing(1)));
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k" }, "the first");
    await s.clock.advance(500);
    equal(await said(s), blocked(500), "though a light one would fit");
    await s.clock.advance(500);
    equal(
      await said(s),
      { count: 3, more: false, nextInMs: 1_000, blockedBy: "k" },
      "the heavy one and two light ones",
    );
    equal(await used(s), 10, "used");
  },

  "a heavy head is not passed by jobs of another type or of a lower priority": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", types: ["a", "b"] }));
    await s.add({ ...weighing(6), type: "a", priority: 9 });
    await s.claimOne();
    await s.add(
      { ...weighing(8), type: "a", priority: 5 },
      { ...weighing(1), type: "b" },
      { ...weighing(1), type: "a" },
    );
    const free = await s.addOne({ type: "c" });
    equal(await s.claimIds(), [free], "only who is not under the limit");
  },

  "a heavy head of a group is not passed by light jobs of its lane, and other groups go on": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", byGroup: true }));
    const heavy = weighing(8);
    await s.add({ ...weighing(6), group: "g" }, { ...heavy, group: "g" }, { ...weighing(1), group: "g" });
    await s.add({ ...heavy, group: "h" });
    equal((await s.claim()).jobs.map(({ group }) => group).join(""), "gh", "who starts");
    equal(await said(s), blocked(1_000, "k[g]"), "then");
    await s.clock.advance(1_000);
    equal(await count(s), 2, "the heavy one and the light one");
  },

  "a heavy head is not passed by any job of its group: of another type, of a lower priority, of another queue": async (
    s,
  ) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", byGroup: true }));
    const light = { ...weighing(1), group: "g" };
    await s.add({ ...weighing(6), group: "g", type: "a" });
    await s.claimOne();
    const heavy = await s.addOne({ ...weighing(8), group: "g", type: "a" });
    const [other, lower] = await s.add({ ...light, type: "b" }, { ...light, type: "a", priority: -1 });
    await s.add({ ...light, queue: "r" });
    const elsewhere = await s.addOne({ ...weighing(8), group: "h", type: "b" });
    equal(await s.claimIds(), [elsewhere], "who starts: only another group");
    equal(
      [await count(s, { types: ["b"] }), await count(s, { queue: "r" })],
      [0, 0],
      "who asks for others of its group",
    );
    const higher = await s.addOne({ ...light, type: "a", priority: 9 });
    equal(await s.claimIds(), [higher], "a higher priority goes first");
    await s.clock.advance(1_000);
    equal(await s.claimIds(), [heavy, other, lower], "when the heavy one fits");
    equal(await count(s, { queue: "r" }), 0, "another queue, when nothing is left");
    await s.clock.advance(1_000);
    equal(await count(s, { queue: "r" }), 1, "another queue a window later");
  },

  "a heavy head that is removed lets light jobs start": async (s) => {
    for (const byGroup of [false, true]) {
      const name = byGroup ? "by group" : "for all";
      await define(s, rule(name, window(10, 60_000), { weight: "tokens", types: [name], byGroup }));
      const [, heavy] = await s.add(...[6, 8, 1].map((n) => ({ weights: { tokens: n }, type: name, group: "g" })));
      equal(await count(s), 1, `the first (${name})`);
      equal(await count(s), 0, `while the heavy one is next (${name})`);
      await s.change("cancel", heavy!);
      equal(await count(s), 1, `when it is gone (${name})`);
    }
  },

  "a weight that is settled lower is available at once": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 6 }));
    await s.addMany(3);
    const job = await s.claimOne();
    await s.clock.advance(300);
    equal((await said(s)).nextInMs, 700, "as long as six are used");
    await s.storage.report([{ ...lease(job), weights: { tokens: 2, nobody: 5 } }]);
    equal([await used(s), await count(s)], [2, 1], "what is used, and how many start");
    await s.clock.advance(700);
    equal(await used(s), 6, "the first start leaves the window when it would have");
  },

  "a weight that is settled higher is charged at once, as debt if it does not fit": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 4 }));
    await s.addMany(5);
    const first = await s.claimOne();
    await s.clock.advance(400);
    const second = await s.claimOne();
    await s.storage.report([{ ...lease(first), weights: { tokens: 25 } }]);
    equal([await used(s), (await countOf(s, "k")).free], [29, 0], "used and free");
    equal(await said(s), blocked(600), "until the first has left");
    await s.storage.report([{ ...lease(second), weights: { tokens: 11 } }]);
    equal((await said(s)).nextInMs, 1_000, "until the second has left");
    await s.clock.advance(1_000);
    equal(await count(s), 2, "then");
  },

  "of several settled weights the last one counts": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 4 }));
    await s.addMany(2);
    const job = await s.claimOne();
    for (const tokens of [9, 1, 0, 25, 5]) {
      await s.storage.report([{ ...lease(job), weights: { tokens } }]);
      equal(await used(s), tokens, `used after ${tokens}`);
    }
  },

  "a weight that is settled after its start has left the window charges only what is more, from now on": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 4 }));
    await s.addMany(5);
    const [first, second] = (await s.claim({ max: 2, leaseMs: 60_000 })).jobs;
    await s.clock.advance(1_000);
    await s.storage.report([{ ...lease(first!), weights: { tokens: 1 } }]);
    equal(await used(s), 0, "less");
    await s.storage.report([{ ...lease(second!), weights: { tokens: 9 } }]);
    equal(await used(s), 5, "more");
    await s.clock.advance(999);
    equal(await used(s), 5, "a window later, but for a millisecond");
    await s.clock.advance(1);
    equal(await used(s), 0, "a window later");
  },

  "a weight of a group that was idle meanwhile charges only what is more, from now on": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 4, byGroup: true }));
    await s.add({ group: "g" });
    const job = await s.claimOne({ leaseMs: 600_000 });
    await s.clock.advance(60_000);
    await s.sweep();
    await s.storage.report([{ ...lease(job), weights: { tokens: 9 } }]);
    equal((await countOf(s, "k", "g")).used, 5, "more");
    await s.clock.advance(1_000);
    equal((await countOf(s, "k", "g")).used, 0, "a window later");
  },

  "the slots of a weighed job can be settled as well": async (s) => {
    await define(s, rule("k", { concurrency: 16 }, { weight: "gb", estimate: 10 }));
    await s.addMany(3);
    const job = await s.claimOne();
    equal((await said(s)).blockedBy, "k", "ten and ten do not fit");
    await s.storage.report([{ ...lease(job), weights: { gb: 4 } }]);
    equal([await usedAndHeld(s, "k"), await count(s)], [[0, 4], 1], "four and ten do");
    await s.storage.report([{ ...lease(job), weights: { gb: 40 } }]);
    equal(await usedAndHeld(s, "k"), [0, 50], "more than there is");
    await s.settle(completed(job));
    equal(await usedAndHeld(s, "k"), [0, 10], "given back whole");
  },

  "one settled weight applies to every limit that counts it": async (s) => {
    await define(
      s,
      rule("minute", window(100, 60_000), { weight: "tokens", estimate: 50 }),
      rule("tenant", window(100, 60_000), { weight: "tokens", estimate: 20, byGroup: true }),
      rule("requests", window(100, 60_000)),
    );
    await s.add({ group: "g" });
    const job = await s.claimOne();
    await s.storage.report([{ ...lease(job), weights: { tokens: 7 } }]);
    equal(
      [(await countOf(s, "minute")).used, (await countOf(s, "tenant", "g")).used, (await countOf(s, "requests")).used],
      [7, 7, 1],
      "used",
    );
  },

  "a job that settles nothing, or whose lease expires, keeps the estimate": async (s) => {
    await define(s, rule("k", window(10, 60_000), { weight: "tokens", estimate: 4 }));
    await s.addMany(2);
    const [quiet, crashed] = (await s.claim({ leaseMs: 1_000 })).jobs;
    await s.settle(completed(quiet!));
    await s.clock.advance(1_000);
    await s.sweep();
    equal(await used(s), 8, "used");
    const report = { ...lease(crashed!), weights: { tokens: 1 } };
    equal(await s.storage.report([report]), [crashed!.id], "what a lost lease says");
    equal(await used(s), 8, "changes nothing");
  },

  "a start that the service refused gives its weights back, and counts where starts are counted": async (s) => {
    await define(
      s,
      rule("tokens", window(1_000, 60_000), { weight: "tokens" }),
      rule("estimated", window(100, 60_000), { weight: "chars", estimate: 20 }),
      rule("tenant", window(1_000, 60_000), { weight: "tokens", byGroup: true }),
      rule("requests", { ...window(10, 60_000), concurrency: 5 }),
      rule("memory", { concurrency: 16 }, { weight: "gb", estimate: 4 }),
    );
    await s.add({ ...weighing(600), group: "g" });
    const job = await s.claimOne();
    await s.settle(back(job, { inMs: 200, held: true }));
    equal(
      [await usedAndHeld(s, "tokens"), await usedAndHeld(s, "estimated"), await usedAndHeld(s, "tenant", "g")],
      [
        [0, 0],
        [0, 0],
        [0, 0],
      ],
      "used and held of what weighs",
    );
    equal(await usedAndHeld(s, "requests"), [1, 0], "used and held of what counts starts");
    equal(await usedAndHeld(s, "memory"), [0, 0], "used and held of weighed concurrency");
    await s.clock.advance(200);
    equal([await count(s), (await countOf(s, "tokens")).used], [1, 600], "the next start counts as the first did");
  },

  "a refused start keeps the weights that the job has settled": async (s) => {
    await define(
      s,
      rule("k", window(1_000, 60_000), { weight: "tokens" }),
      rule("other", window(100, 60_000), { weight: "chars", estimate: 20 }),
    );
    await s.add(weighing(600));
    const job = await s.claimOne();
    await s.storage.report([{ ...lease(job), weights: { tokens: 70 } }]);
    await s.settle(back(job, { held: true, settled: ["tokens", "nobody"] }));
    equal([await used(s), (await countOf(s, "other")).used], [70, 0], "used");
  },

  "what a refused start gives back lets other jobs start in the same step": async (s) => {
    await define(s, rule("k", window(10, 60_000), { weight: "tokens" }));
    const [, waits] = await s.add(weighing(6), weighing(6));
    const job = await s.claimOne();
    equal(await count(s), 0, "while six are used");
    equal(await s.claimIds({ settle: [back(job, { inMs: 1_000, held: true })] }), [waits], "who starts");
    equal(await used(s), 6, "used");
  },

  "a refused start gives back nothing of the starts that were claimed with it": async (s) => {
    await define(s, rule("k", window(100, 60_000), { weight: "tokens", estimate: 7 }));
    await s.addMany(3);
    const { jobs } = await s.claim();
    await s.settle(back(jobs[1]!, { inMs: 1_000, held: true }));
    equal(await used(s), 14, "used");
    await s.settle(completed(jobs[0]!), completed(jobs[2]!));
    equal(await used(s), 14, "used when the others have ended");
  },

  "a refused start that has left the window gives nothing back": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens" }));
    await s.add(weighing(6), weighing(5));
    const job = await s.claimOne();
    await s.clock.advance(1_000);
    await s.claimOne();
    await s.settle(back(job, { inMs: 60_000, held: true }));
    equal(await used(s), 5, "used");
  },

  "a job that is given back for another reason, or whose lease was lost, keeps its weights": async (s) => {
    await define(s, rule("k", window(100, 60_000), { weight: "tokens" }));
    await s.add(weighing(6), weighing(5));
    const [stopped, lost] = (await s.claim({ leaseMs: 1_000 })).jobs;
    await s.settle(back(stopped!, { inMs: 60_000 }));
    equal(await used(s), 11, "used when a worker stopped");
    await s.clock.advance(1_000);
    await s.sweep();
    equal(await s.settle(back(lost!, { held: true })), [lost!.id], "whose lease was lost");
    equal(await used(s), 11, "used");
  },

  "a refused start gives back nothing of what was counted since a reset": async (s) => {
    await define(s, rule("k", window(10, 60_000), { weight: "tokens" }));
    await s.add(weighing(6), weighing(5));
    const job = await s.claimOne();
    await change(s, "k", { reset: true, group: null });
    await s.claimOne();
    await s.settle(back(job, { inMs: 60_000, held: true }));
    equal(await used(s), 5, "used");
  },

  "a job that can never fit is refused when it is added, with all that are added with it": async (s) => {
    await define(
      s,
      rule("k", window(10, 1_000), { weight: "tokens", types: ["t"] }),
      rule("g", window(5, 1_000), { weight: "rows", byGroup: true, groups: { big: { max: 50 } } }),
      rule("c", { concurrency: 3 }, { weight: "gb" }),
    );
    const code = (...jobs: readonly Partial<NewJob>[]) => refused(() => s.add(...jobs), "a job that is too heavy");
    equal(await code({}, weighing(11), {}), "SLUICE_OPTIONS", "the code");
    equal(await code({ weights: { rows: 6 }, group: "small" }), "SLUICE_OPTIONS", "the code, of a group");
    equal(await code({ weights: { rows: 6 } }), "SLUICE_OPTIONS", "the code, without a group");
    equal(await code({ weights: { gb: 4 } }), "SLUICE_OPTIONS", "the code, of concurrency");
    equal((await s.list()).jobs, [], "what was added");
    await s.add(weighing(10), { ...weighing(11), type: "other" }, { weights: { rows: 50 }, group: "big" });
    equal((await s.list()).jobs.length, 3, "what fits, or is under another limit");
  },

  "a job that cannot fit any more is dead when it would be claimed, and costs nothing": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens" }), rule("all", window(100, 1_000)));
    const [heavy, light] = await s.add(weighing(8), weighing(2));
    await change(s, "k", { quota: { max: 5 }, group: null });
    equal(await s.claimIds(), [light], "who starts");
    const { state, attempt, error } = await s.get(heavy!);
    equal([state, attempt, error?.code], ["dead", 0, "SLUICE_OPTIONS"], "the heavy one");
    equal([await used(s), (await countOf(s, "all")).used], [2, 1], "what is used");
  },

  "a limit of 0 is a pause, and no job is dead because of it": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens" }));
    const [id] = await s.add(weighing(8));
    await change(s, "k", { quota: { max: 0 }, group: null });
    equal(await said(s), blocked(null), "the claim");
    await change(s, "k", { restore: true });
    equal(await s.claimIds(), [id], "restored");
  },

  "an add answers with the job that is there already, even if it could not be added any more": async (s) => {
    await define(s, rule("k", window(100, 60_000), { weight: "tokens" }));
    const idempotency = { key: "key", fingerprint: "f", onDuplicate: "return", ttlMs: 60_000 } as const;
    const [id] = await s.add({ ...weighing(50), idempotency });
    await change(s, "k", { quota: { max: 10 }, group: null });
    const [again, fresh] = await s.storage.add([s.job({ ...weighing(50), idempotency }), s.job(weighing(10))]);
    equal([again, fresh?.created], [{ id, created: false }, true], "what adding says");
    const twice = () => s.add({ ...weighing(50), idempotency }, { ...weighing(50) });
    equal(await refused(twice, "another that is too heavy"), "SLUICE_OPTIONS", "the code");
    const other = { ...idempotency, key: "other" };
    equal(
      await refused(() => s.add({ ...weighing(50), idempotency: other }), "a new one"),
      "SLUICE_OPTIONS",
      "a new one",
    );
    equal((await s.list()).jobs.length, 2, "how many there are");
    await s.add({ ...weighing(5), idempotency: other });
  },

  "a job whose estimate can never fit is refused, too": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens", estimate: 20 }));
    equal(await refused(() => s.add({}), "a job that says nothing"), "SLUICE_OPTIONS", "the code");
    await s.add(weighing(10));
  },
};
