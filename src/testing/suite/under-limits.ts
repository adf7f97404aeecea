import { equal, ok } from "../expect.ts";
import { blocked, change, count, countOf, define, rule, said, usedAndHeld, window } from "./limit-words.ts";
import { back, type Cases, completed, limit, retry } from "./scene.ts";

export const underLimits: Cases = {
  "a claim just before the instant at which a job fits names an instant that is still to come": async (s) => {
    await define(s, rule("k", window(1, 100.000_05)));
    await s.addMany(2);
    await s.claimOne();
    await s.clock.advance(100);
    const { jobs, nextInMs } = await s.claim();
    ok(jobs.length === 1 || nextInMs! > 0, `expected a job or an instant to come, got ${nextInMs}`);
  },

  "a job starts however many types wait, and whether or not a limit closes them": async (s) => {
    const types = Array.from({ length: 1_001 }, (_, n) => `t${n}`);
    await define(
      s,
      rule("closed", { concurrency: 1 }, { types }),
      rule("k", window(9, 1_000), { types: ["zzz"], weight: "n" }),
    );
    await s.add(...types.map((type) => ({ type })), { id: "z", type: "zzz" });
    const claimed = await s.claim({ types: ["zzz"] });
    equal(
      claimed.jobs.map(({ id }) => id),
      ["z"],
      "by a claim of its type",
    );
    await s.add({ id: "y", type: "yyy" });
    const started: string[] = [];
    // A claim may look at a part of so many types, and says then that there is more.
    for (let more = true; more && !started.includes("y");) {
      const claim = await s.claim({ types: null, max: 2 });
      started.push(...claim.jobs.map(({ id }) => id));
      ({ more } = claim);
    }
    ok(started.includes("y"), `expected "y" to start, got ${started.length} others`);
  },

  "under a window no more start than it allows, and the wake-up time is exact": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", window(3, 1_000)));
    equal(await said(s, { max: 2 }), { count: 2, more: true, nextInMs: 0, blockedBy: null }, "the first two");
    await s.clock.advance(400);
    equal(await said(s), { count: 1, more: false, nextInMs: 600, blockedBy: "k" }, "the third");
    await s.clock.advance(599);
    equal(await said(s), blocked(1), "a millisecond before");
    await s.clock.advance(1);
    equal(await said(s), { count: 2, more: false, nextInMs: 400, blockedBy: "k" }, "at the instant");
    const { used, held, free, nextInMs, reason } = await countOf(s, "k");
    equal(
      { used, held, free, nextInMs, reason },
      { used: 3, held: 0, free: 0, nextInMs: 400, reason: "window" },
      "its state",
    );
  },

  "under spacing one starts at a time, and the wake-up time is exact": async (s) => {
    await s.addMany(4);
    await define(s, rule("k", { everyMs: 250 }));
    equal(await said(s), { count: 1, more: false, nextInMs: 250, blockedBy: "k" }, "the first");
    await s.clock.advance(249);
    equal(await said(s), blocked(1), "a millisecond before");
    equal((await countOf(s, "k")).reason, "spacing", "what is in the way");
    await s.clock.advance(1);
    equal(await count(s), 1, "at the instant");
    await s.clock.advance(1_000);
    equal(await count(s), 1, "time that was not used is not saved up");
  },

  "under concurrency so many run at a time, and only a release frees a slot": async (s) => {
    await s.addMany(4);
    await define(s, rule("k", { concurrency: 2 }));
    const { jobs, ...rest } = await s.claim();
    equal([jobs.length, rest.nextInMs, rest.blockedBy], [2, null, "k"], "the first two");
    await s.clock.advance(29_999);
    equal(await count(s), 0, "while both run");
    equal(await usedAndHeld(s, "k"), [0, 2], "used and held");
    const [free, reason] = await countOf(s, "k").then((state) => [state.free, state.reason]);
    equal([free, reason], [0, "concurrency"], "free, and what is in the way");
    await s.settle(completed(jobs[0]!));
    equal(await said(s), { count: 1, more: false, nextInMs: null, blockedBy: "k" }, "when one has ended");
  },

  "several numbers of one limit are all kept": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", { ...window(3, 1_000), concurrency: 2, everyMs: 100 }));
    const first = await s.claimOne();
    equal(await said(s), blocked(100), "spacing");
    await s.clock.advance(100);
    equal(await said(s), { count: 1, more: false, nextInMs: null, blockedBy: "k" }, "the second, and then concurrency");
    await s.clock.advance(100);
    equal(
      await said(s, { settle: [completed(first)] }),
      { count: 1, more: false, nextInMs: null, blockedBy: "k" },
      "3",
    );
    await s.clock.advance(100);
    const { reason, nextInMs } = await countOf(s, "k");
    equal({ reason, nextInMs }, { reason: "concurrency", nextInMs: null }, "the longest one is named");
    equal(await usedAndHeld(s, "k"), [3, 2], "used and held");
  },

  "a limit of 0 lets nothing start until it is changed": async (s) => {
    await s.add({ type: "a" }, { type: "b" });
    await define(
      s,
      rule("none", window(0, 1_000), { types: ["a"] }),
      rule("nobody", { concurrency: 0 }, { types: ["b"] }),
    );
    equal((await said(s)).count, 0, "how many start");
    equal((await said(s)).nextInMs, null, "no instant is known");
    await change(s, "none", { quota: { max: 1 }, group: null });
    await change(s, "nobody", { quota: { concurrency: 1 }, group: null });
    equal(await count(s), 2, "when that was changed");
  },

  "a limit binds the types it names, and no others": async (s) => {
    await s.add({ type: "a" }, { type: "b" }, { type: "a" }, { type: "c" }, { type: "c" });
    await define(s, rule("k", window(1, 1_000), { types: ["a", "b"] }));
    const { jobs, blockedBy } = await s.claim();
    equal(jobs.map(({ type }) => type).join(""), "acc", "who starts");
    equal(blockedBy, "k", "blockedBy");
  },

  "a limit binds the queues it names, all together, and no others": async (s) => {
    for (const queue of ["q", "r", "other"]) await s.addMany(3, { queue });
    await define(s, rule("k", window(2, 1_000), { queues: ["q", "r"] }));
    equal(await count(s, { max: 1 }), 1, "one queue");
    equal(await said(s, { queue: "r" }), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k" }, "the other");
    equal(await count(s), 0, "the one again");
    equal(await count(s, { queue: "other" }), 3, "a queue that is not named");
  },

  "a claim starts a job that it returns itself, under a limit for some types": async (s) => {
    await define(s, rule("k", window(5, 1_000), { types: ["a", "b"] }));
    await s.add({ type: "a" });
    for (const outcome of [back, retry]) {
      const job = await s.claimOne();
      const { jobs } = await s.claim({ settle: [outcome(job)] });
      equal(
        jobs.map(({ id }) => id),
        [job.id],
        "started",
      );
      await s.settle(back(jobs[0]!));
    }
  },

  "a limit with types and queues binds jobs that match both": async (s) => {
    for (const queue of ["q", "r"]) await s.add({ queue, type: "a" }, { queue, type: "a" }, { queue, type: "b" });
    await define(s, rule("k", window(1, 1_000), { queues: ["q"], types: ["a"] }));
    equal([await count(s), await count(s, { queue: "r" })], [2, 3], "how many start");
  },

  "a limit without types and queues binds every job": async (s) => {
    await s.add({ type: "a" }, { type: "b", queue: "r" });
    await define(s, rule("k", { concurrency: 1 }));
    equal([await count(s), await count(s, { queue: "r" })], [1, 0], "how many start");
  },

  "a refusal by one limit charges nothing to the others": async (s) => {
    await s.addMany(20);
    const wide = rule("a wide", { ...window(10, 1_000), concurrency: 10 });
    await define(s, wide, rule("b narrow", window(2, 5_000)), rule("c spaced", { everyMs: 1 }));
    await s.claimOne();
    await s.clock.advance(1);
    await s.claimOne();
    await s.clock.advance(1);
    for (let i = 0; i < 5; i++) {
      equal(await said(s), blocked(4_998, "b narrow"), "refused");
    }
    equal(await usedAndHeld(s, "a wide"), [2, 2], "what is used and held of the wide one");
    equal((await countOf(s, "b narrow")).used, 2, "what is used of the narrow one");
    equal((await countOf(s, "c spaced")).nextInMs, 0, "when the spaced one is available");
  },

  "a claim for many jobs counts what it has charged itself": async (s) => {
    await s.add(...["a", "b", "a", "b", "a", "b", "c"].map((type) => ({ type })));
    await define(
      s,
      rule("ab", window(4, 1_000), { types: ["a", "b"] }),
      rule("b", { concurrency: 1 }, { types: ["b"] }),
      rule("all", window(5, 1_000)),
    );
    const { jobs, more, blockedBy } = await s.claim({ max: 100 });
    equal(jobs.map(({ type }) => type).join(""), "abaac", "who starts");
    equal(more, false, "more");
    ok(blockedBy !== null, "expected the name of the limit");
    equal(
      [(await countOf(s, "ab")).used, (await countOf(s, "b")).held, (await countOf(s, "all")).used],
      [4, 1, 5],
      "what is counted",
    );
  },

  "a type whose limit is full does not hold up another type": async (s) => {
    await s.addMany(300, { type: "full", priority: 5 });
    const free = await s.addOne({ type: "free" });
    await define(s, rule("k", window(1, 60_000), { types: ["full"] }));
    equal((await s.claimIds({ max: 2 }))[1], free, "the free one in the first claim");
    const another = await s.addOne({ type: "free" });
    equal(await s.claimIds({ max: 1 }), [another], "the free one when the other type is full");
  },

  "a job of a higher priority is first, and keeps its limit from others only while it waits for it": async (s) => {
    await s.add({ type: "a", id: "low" }, { type: "a", id: "high", priority: 9 }, { type: "b", id: "other" });
    await define(s, rule("k", window(1, 1_000), { types: ["a"] }));
    equal(await s.claimIds(), ["high", "other"], "the first claim");
    await s.clock.advance(1_000);
    equal(await s.claimIds(), ["low"], "the second");
  },

  "of several limits that block jobs, the one that becomes available first is named": async (s) => {
    await s.add(...["a", "a", "b", "b", "c", "c"].map((type) => ({ type })));
    await define(
      s,
      rule("long", window(1, 3_000), { types: ["a"] }),
      rule("short", window(1, 1_000), { types: ["b"] }),
      rule("held", { concurrency: 1 }, { types: ["c"] }),
    );
    equal(await said(s), { count: 3, more: false, nextInMs: 1_000, blockedBy: "short" }, "one of each");
    equal(await said(s, { types: ["a", "c"] }), blocked(3_000, "long"), "two");
    equal(await said(s, { types: ["c"] }), blocked(null, "held"), "one");
  },

  "of several limits that block one job, the one that blocks the longest is named": async (s) => {
    await s.addMany(9);
    await define(s, rule("a", window(2, 1_000)), rule("b", window(2, 4_000)), rule("c", { everyMs: 500 }));
    await s.claimOne();
    equal(await said(s), blocked(500, "c"), "after one");
    await s.clock.advance(500);
    equal(await said(s), { count: 1, more: false, nextInMs: 3_500, blockedBy: "b" }, "after two");
  },

  "the wake-up time for a scheduled job is when it is due and its limits are available": async (s) => {
    await s.add({}, { due: { inMs: 300 } });
    await define(s, rule("k", window(1, 1_000)));
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: null }, "a start is available later");
    await s.clock.advance(300);
    equal(await said(s), blocked(700), "it is due");
    await s.clock.advance(700);
    equal(await count(s), 1, "and is available then");
  },

  "a claim with max 0 says whether something could start, and charges nothing": async (s) => {
    await s.addMany(3);
    await define(s, rule("k", { ...window(1, 1_000), concurrency: 1 }));
    equal(await said(s, { max: 0 }), { count: 0, more: true, nextInMs: 0, blockedBy: null }, "available");
    equal(await usedAndHeld(s, "k"), [0, 0], "used and held");
    const job = await s.claimOne();
    equal(await said(s, { max: 0, settle: [completed(job)] }), blocked(1_000), "none");
  },

  "a paused job is not blocked by a limit": async (s) => {
    await s.addMany(3);
    await define(s, rule("k", window(1, 1_000)));
    await s.claimOne();
    await s.storage.setPaused("q", null, true);
    equal(await said(s), { count: 0, more: false, nextInMs: null, blockedBy: null }, "the claim");
  },

  "a job whose deadline has passed charges nothing": async (s) => {
    const [late, fine] = await s.add({ deadline: { inMs: 100 } }, {});
    await define(s, rule("k", { ...window(1, 1_000), concurrency: 1 }));
    await s.clock.advance(100);
    equal(await s.claimIds(), [fine], "who starts");
    equal([await s.state(late!), await usedAndHeld(s, "k")], ["dead", [1, 1]], "the late one, and what is counted");
  },

  "limits that a claim brings along are kept beside the stored ones": async (s) => {
    await s.addMany(9);
    await define(s, rule("kept", window(3, 2_000)));
    const limits = [limit("brought", 2, 1_000)];
    equal(await said(s, { limits }), { count: 2, more: false, nextInMs: 1_000, blockedBy: "brought" }, "first");
    await s.clock.advance(1_000);
    equal(await said(s, { limits }), { count: 1, more: false, nextInMs: 1_000, blockedBy: "kept" }, "then");
    equal((await countOf(s, "kept")).used, 3, "what is used of the one that is kept");
  },

  "a limit that a claim brings along may have the name and window of a stored one with slots": async (s) => {
    await s.add({ group: "a" }, { group: "b" });
    await define(s, rule("k", { ...window(5, 1_000), concurrency: 1 }));
    const limits = [limit("k", 5, 1_000)];
    equal(await said(s, { limits }), { count: 1, more: false, nextInMs: null, blockedBy: "k" }, "the first");
    equal(await said(s, { limits }), blocked(null), "while it runs");
  },

  "a job that runs only under the limit of its claim releases no slot of a stored one of the same name": async (s) => {
    await s.add({ type: "a" }, { type: "b" });
    await define(s, rule("k", { concurrency: 1 }, { types: ["b"] }));
    const { jobs } = await s.claim({ limits: [limit("k", 9, 1_000)] });
    equal(jobs.map(({ type }) => type).join(""), "ab", "which start");
    await s.settle(completed(jobs[0]!));
    await s.addOne({ type: "b" });
    equal(await said(s), blocked(null), "while the other one runs");
  },

  "the wake-up time is never too late, and hardly ever too early": async (s) => {
    await s.add(...Array.from({ length: 60 }, (_, i) => ({ type: `t${i % 3}`, group: `g${i % 2}` })));
    await define(
      s,
      rule("a", window(2, 70), { types: ["t0", "t1"] }),
      rule("b", { ...window(5, 301), everyMs: 13 }, { types: ["t1", "t2"] }),
      rule("c", window(3, 97), { byGroup: true }),
    );
    let left = 60;
    let looks = 0;
    while (left > 0 && looks < 500) {
      const { jobs, nextInMs, blockedBy } = await s.claim({ max: 1 + (looks % 3) });
      looks += 1;
      left -= jobs.length;
      if (left === 0 || nextInMs === 0) continue;
      ok(nextInMs !== null && blockedBy !== null, "expected an instant and a limit while jobs wait");
      if (nextInMs > 1) await s.clock.advance(nextInMs - 1);
      if (nextInMs > 1) equal(await count(s), 0, `a millisecond before, at ${blockedBy}`);
      await s.clock.advance(Math.min(1, nextInMs));
    }
    equal((await s.overview())?.counts.active, 60, "how many have started");
    ok(looks < 130, `expected hardly more looks than starts, got ${looks}`);
  },
};
