import type { JobRecord } from "../../core/job.ts";
import { equal, ok } from "../expect.ts";
import { BREAKER, BY, change, count, define, refusedFor, rule, take, taken, window } from "./limit-words.ts";
import { back, cancelled, type Cases, completed, dead, lease, limit, retry, type Scene } from "./scene.ts";

type Happens = () => Promise<unknown>;

async function wakesUp(s: Scene, what: string, happens: Happens, queue: string | null = "q"): Promise<void> {
  ok(await s.wakes(happens, { queue, mayStart: true }), `expected a wake-up: ${what}`);
}

async function wakesUpNone(s: Scene, what: string, happens: Happens, queue: string | null = "q"): Promise<void> {
  ok(!(await s.wakes(happens, { queue, mayStart: true })), `expected no wake-up: ${what}`);
}

/** A limit whose only slot a job has, while others wait, here and in another queue. */
async function full(s: Scene, about: Parameters<typeof rule>[1] = { concurrency: 1 }): Promise<JobRecord> {
  await define(s, rule("k", about));
  await s.addMany(9);
  await s.add({ queue: "r" });
  const job = await s.claimOne({ leaseMs: 600_000 });
  equal([await count(s), await count(s, { queue: "r" })], [0, 0], "how many start under a full limit");
  return job;
}

export const wakeUps: Cases = {
  "the first job of a lane wakes up workers, and those after it do not": async (s) => {
    await wakesUp(s, "the first of all", () => s.add({}));
    await wakesUpNone(s, "a second one", () => s.add({}));
    await wakesUp(s, "the first of its type", () => s.add({ type: "u" }));
    await wakesUp(s, "the first of its group", () => s.add({ group: "g" }));
    await wakesUp(s, "the first of its priority", () => s.add({ priority: 3 }));
    await wakesUpNone(s, "others of them", () => s.add({ type: "u" }, { group: "g" }, { priority: 3 }));
    await wakesUpNone(s, "one of another queue", () => s.add({ queue: "other" }));
    const job = await s.claimOne({ types: ["u"] });
    const last = await s.claimOne({ types: ["u"] });
    await s.settle(completed(job));
    await wakesUp(s, "one that is given back to an empty lane", () => s.settle(back(last)));
  },

  "a job that is added behind others that a limit blocks wakes up no worker": async (s) => {
    await full(s);
    await wakesUpNone(s, "one more", () => s.add({}));
    await wakesUpNone(s, "one more elsewhere", () => s.add({ queue: "r" }), "r");
    await s.storage.limits.remove("k");
    await define(s, rule("g", window(1, 600_000), { byGroup: true }));
    await s.add({ group: "a", type: "x" }, { group: "a", type: "x" });
    equal([await count(s, { types: ["x"] }), await count(s, { types: ["x"] })], [1, 0], "how many start of a group");
    await wakesUpNone(s, "one more of a full group", () => s.add({ group: "a", type: "x" }));
  },

  "a job of a type that no limit blocks wakes up workers, whatever of a full type comes due before": async (s) => {
    await define(s, rule("k", window(1, 600_000), { types: ["t"] }));
    await s.add({}, {}, { due: { inMs: 500 } });
    equal(await count(s), 1, "how many start");
    await wakesUp(s, "one of another type", () => s.add({ type: "free", due: { inMs: 1_000 } }));
  },

  "a job of a free group wakes up workers, whatever of a full group comes due before": async (s) => {
    await define(s, rule("g", window(1, 600_000), { byGroup: true }));
    await s.add({ group: "full" }, { group: "full" });
    equal([await count(s), await count(s)], [1, 0], "how many start");
    await wakesUp(s, "one of each group", async () => {
      await s.add({ group: "full", due: { inMs: 500 } });
      await s.add({ group: "free", due: { inMs: 1_000 } });
    });
  },

  "a job for a lane that was blocked and is empty now wakes up workers": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    await s.add({ group: "g" });
    const waits = await s.addOne({ group: "g" });
    equal([await count(s), await count(s)], [1, 0], "how many start");
    await s.change("cancel", waits);
    await s.clock.advance(5_000);
    await wakesUp(s, "another one", () => s.add({ group: "g" }));
  },

  "a job for a lane that is blocked and empty wakes up workers": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    for (const group of ["g", null]) {
      const [, waits] = await s.add({ group }, { group });
      equal([await count(s), await count(s)], [1, 0], "how many start");
      await s.change("cancel", waits!);
      equal((await s.claim()).nextInMs, null, "when the next one starts");
      let another = "";
      await wakesUp(s, "another one", async () => (another = await s.addOne({ group })));
      equal((await s.claim()).blockedBy, group === null ? "k" : "k[g]", "what is in its way");
      await s.change("cancel", another);
    }
  },

  "a job that is sent back to a blocked and empty lane wakes up workers": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    const [, waits] = await s.add({ group: "g" }, { group: "g" });
    equal([await count(s), await count(s)], [1, 0], "how many start");
    await s.change("cancel", waits!);
    equal((await s.claim()).nextInMs, null, "when the next one starts");
    await wakesUp(s, "the same", () => s.change("retry", waits!));
  },

  "the slot of a worker that died wakes up workers for other jobs of the group": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.add({ group: "g", maxAttempts: 1 }, { group: "g", queue: "r" });
    await s.claimOne({ leaseMs: 1_000 });
    equal(await count(s, { queue: "r" }), 0, "how many start elsewhere");
    await s.clock.advance(2_000);
    await wakesUp(s, "its lease is over", () => s.storage.sweep(), "r");
    equal(await count(s, { queue: "r" }), 1, "how many start then");
  },

  "a limit that becomes available wakes up the workers of every queue": async (s) => {
    const ends: Readonly<Record<string, (job: JobRecord) => Promise<unknown>>> = {
      completed: (job) => s.settle(completed(job)),
      retried: (job) => s.settle(retry(job, 6_000_000)),
      dead: (job) => s.settle(dead(job)),
      cancelled: (job) => s.settle(cancelled(job)),
      "given back": (job) => s.settle(back(job, { inMs: 6_000_000 })),
      "never started": (job) => s.settle(back(job, { inMs: 6_000_000, unstarted: true })),
      "settled by a claim that takes nothing": (job) => s.claim({ max: 0, settle: [completed(job)] }),
    };
    let job = await full(s);
    for (const [what, end] of Object.entries(ends)) {
      await wakesUp(s, `a job that is ${what}`, () => end(job), "r");
      job = await s.claimOne({ leaseMs: 600_000 });
      equal([await count(s), await count(s, { queue: "r" })], [0, 0], "how many start then");
    }
    await s.clock.advance(600_000);
    await wakesUp(s, "a lease that has run out", () => s.storage.sweep(), "r");
  },

  "more of a limit that was available wakes up no worker": async (s) => {
    await define(s, rule("k", { concurrency: 3 }));
    await s.addMany(3);
    const { jobs } = await s.claim({ max: 2 });
    await wakesUpNone(s, "a job that ends", () => s.settle(completed(jobs[0]!)));
  },

  "a slot that is released and taken in the same step wakes up no worker": async (s) => {
    let job = await full(s);
    await wakesUpNone(
      s,
      "a claim that settles",
      async () => {
        const { jobs } = await s.claim({ settle: [completed(job)], leaseMs: 600_000 });
        job = jobs[0]!;
      },
      "r",
    );
    await wakesUp(s, "the end of what it started", () => s.settle(completed(job)), "r");
  },

  "a start that is given back, and a weight that is settled lower, wake up workers": async (s) => {
    await define(s, rule("k", window(10, 600_000), { weight: "n", estimate: 6 }));
    await s.addMany(5);
    await s.add({ queue: "r" });
    const job = await s.claimOne({ leaseMs: 600_000 });
    equal(await count(s, { queue: "r" }), 0, "how many start");
    await wakesUp(s, "less used", () => s.storage.report([{ ...lease(job), weights: { n: 3 } }]), "r");
    const other = await s.claimOne({ leaseMs: 600_000 });
    equal(await count(s, { queue: "r" }), 0, "how many start then");
    await wakesUpNone(s, "more used", () => s.storage.report([{ ...lease(job), weights: { n: 9 } }]), "r");
    await wakesUp(s, "a start that never was", () => s.settle(back(other, { inMs: 60_000, unstarted: true })), "r");
  },

  "the weights of a start that the service refused wake up workers": async (s) => {
    await define(s, rule("k", window(10, 600_000), { weight: "n", estimate: 6 }));
    await s.add({}, { queue: "r" });
    const job = await s.claimOne({ leaseMs: 600_000 });
    equal(await count(s, { queue: "r" }), 0, "how many start elsewhere");
    await wakesUp(s, "a start that was refused", () => s.settle(back(job, { inMs: 60_000, held: true })), "r");
    equal(await count(s, { queue: "r" }), 1, "how many start then");
  },

  "changes of a limit by hand that let jobs start wake up workers": async (s) => {
    await full(s, { concurrency: 1, ...window(1, 6_000_000) });
    await wakesUp(s, "more at a time", () => change(s, "k", { quota: { concurrency: 2, max: 2 }, group: null }), "r");
    equal(await count(s), 1, "how many start");
    await change(s, "k", { quota: { concurrency: null }, group: null });
    await wakesUp(s, "a reset", () => change(s, "k", { reset: true, group: null }), "r");
    await change(s, "k", { paused: true });
    await wakesUp(s, "a limit that is resumed", () => change(s, "k", { paused: false }), "r");
    await change(s, "k", { quota: { max: 0 }, group: null });
    await wakesUp(s, "a limit that is restored", () => change(s, "k", { restore: true }), "r");
    await change(s, "k", { quota: { max: 0 }, group: null });
    await wakesUp(
      s,
      "a limit that is declared anew",
      () => s.storage.limits.define([rule("k", window(1, 1_000), { types: ["other"] })]),
      "r",
    );
    await define(s, rule("stop", { concurrency: 0 }));
    await wakesUp(s, "a limit that is removed", () => s.storage.limits.remove("stop"), "r");
  },

  "a queue or a type that is resumed wakes up workers": async (s) => {
    await s.addMany(2);
    await s.storage.setPaused("q", null, true);
    await wakesUp(s, "a queue", () => s.storage.setPaused("q", null, false));
    await s.storage.setPaused("q", "t", true);
    await wakesUp(s, "a type", () => s.storage.setPaused("q", "t", false));
  },

  "a breaker that closes wakes up workers": async (s) => {
    await define(s, rule("k", window(100, 6_000_000), { breaker: { ...BREAKER, failures: 1 } }));
    await s.addMany(5);
    await s.add({ queue: "r" });
    await s.settle(dead(await s.claimOne()));
    await s.clock.advance(1_000);
    const probe = await s.claimOne({ leaseMs: 600_000 });
    equal(await count(s, { queue: "r" }), 0, "how many start beside the probe");
    await wakesUp(s, "a probe that succeeded", () => s.settle(completed(probe)), "r");
  },

  "a permit that is released or cancelled wakes up workers": async (s) => {
    await define(s, rule("k", { concurrency: 1 }), rule("w", window(1, 600_000), { types: ["w"] }));
    await s.add({}, { type: "w" });
    const [held, counted] = [await taken(s, "k", { ttlMs: 600_000 }), await taken(s, "w")];
    equal(await count(s), 0, "how many start");
    await wakesUp(s, "released", () => s.storage.limits.give(held, "released"));
    await wakesUp(s, "never started", () => s.storage.limits.give(counted, "cancelled"));
  },

  "a limit that becomes available for a group wakes up workers": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.add({ group: "a" }, { group: "a" }, { group: "b" });
    const { jobs } = await s.claim({ leaseMs: 600_000 });
    equal([jobs.length, await count(s)], [2, 0], "how many start");
    await wakesUp(s, "of a full one", () => s.settle(completed(jobs.find(({ group }) => group === "a")!)));
  },

  "slots of a limit for all wake up subscribers only after a refusal": async (s) => {
    const beside: Readonly<Record<string, readonly ReturnType<typeof rule>[]>> = {
      "no other limit": [],
      "a limit by group": [rule("g", { concurrency: 9 }, { byGroup: true })],
      "a limit of another type": [rule("u", { concurrency: 1 }, { types: ["u"] })],
    };
    for (const [what, others] of Object.entries(beside)) {
      for (const weight of [null, "n"]) {
        const about = `beside ${what}, ${weight === null ? "counted" : "weighed"}`;
        await define(s, rule("k", { concurrency: 1 }, { weight }), ...others);
        const start = async (): Promise<JobRecord> => {
          await s.add({});
          return s.claimOne({ leaseMs: 600_000 });
        };
        const end = (job: JobRecord) => () => s.settle(completed(job));
        await wakesUpNone(s, `the end of a job alone, ${about}`, end(await start()), null);
        let job = await start();
        equal([await count(s), await count(s, { queue: "r" })], [0, 0], "how many start of none");
        equal((await take(s, "k", { dry: true })).granted, false, "the answer to a question");
        await wakesUpNone(s, `a slot that no job waits for, ${about}`, end(job), null);
        job = await start();
        const [waits] = await s.add({ queue: "r" });
        equal([await count(s, { queue: "r" }), await count(s, { queue: "r" })], [0, 0], "how many start elsewhere");
        await wakesUp(s, `a slot that a job waits for, ${about}`, end(job), "r");
        await wakesUpNone(s, `the slot that was taken then, ${about}`, end(await start()), null);
        await s.storage.change({ action: "cancel", queue: "r", ids: [waits!] });
        job = await start();
        equal(await take(s, "k"), refusedFor(null), "a permit");
        await wakesUp(s, `a slot that a permit waits for, ${about}`, end(job), null);
        const permit = await taken(s, "k", { ttlMs: 600_000 });
        await wakesUpNone(s, `a permit alone, ${about}`, () => s.storage.limits.give(permit, "released"), null);
        job = await start();
        await s.add({ queue: "r", due: { inMs: 500 } });
        equal(await count(s, { queue: "r" }), 0, "how many start before they are due");
        await wakesUp(s, `a slot that a job will wait for, ${about}`, end(job), "r");
        await s.clock.advance(1_000);
        await s.settle(completed(await s.claimOne({ queue: "r" })));
        for (const { name } of [{ name: "k" }, ...others]) await s.storage.limits.remove(name);
      }
    }
  },

  "a claim that leaves a job behind is woken up by the slots that it took": async (s) => {
    for (const others of [[], [rule("g", { concurrency: 9 }, { byGroup: true })]]) {
      await define(s, rule("k", { concurrency: 2 }), ...others);
      await s.addMany(4);
      const { jobs } = await s.claim({ leaseMs: 600_000 });
      equal(jobs.length, 2, "how many start");
      await wakesUp(s, "the end of the first", () => s.settle(completed(jobs[0]!)));
      const third = await s.claimOne({ leaseMs: 600_000 });
      await wakesUp(s, "the end of the second", () => s.settle(completed(jobs[1]!)));
      const last = await s.claimOne({ leaseMs: 600_000 });
      await wakesUpNone(s, "the end of the third", () => s.settle(completed(third)));
      await wakesUpNone(s, "the end of the last", () => s.settle(completed(last)));
      for (const { name } of [{ name: "k" }, ...others]) await s.storage.limits.remove(name);
    }
  },

  "a claim that takes less than it gives back wakes up what waits for it, once": async (s) => {
    for (const others of [[], [rule("g", { concurrency: 9 }, { byGroup: true })]]) {
      await define(s, rule("k", { concurrency: 2 }), ...others);
      await s.addMany(2);
      let { jobs } = await s.claim({ leaseMs: 600_000 });
      const [waits] = await s.add({ queue: "r" });
      equal(await count(s, { queue: "r" }), 0, "how many start elsewhere");
      const giveBack = async (): Promise<void> => {
        await s.add({});
        ({ jobs } = await s.claim({ leaseMs: 600_000, settle: jobs.map((job) => completed(job)) }));
        equal(jobs.length, 1, "how many start instead");
      };
      await wakesUp(s, "one of two that is given back", giveBack, "r");
      await s.storage.change({ action: "cancel", queue: "r", ids: [waits!] });
      await s.add({});
      jobs = [...jobs, await s.claimOne({ leaseMs: 600_000 })];
      await wakesUpNone(s, "one of two that nothing waits for", giveBack, "r");
      await s.settle(completed(jobs[0]!));
      for (const { name } of [{ name: "k" }, ...others]) await s.storage.limits.remove(name);
    }
  },

  "a claim that takes less than it gives back, and waits for the rest, is woken up by that": async (s) => {
    for (const [heavy, light] of [
      [2, 3],
      [4, 1],
    ] as const) {
      await define(s, rule("k", { concurrency: 4 }, { weight: "n" }));
      await s.add({ weights: { n: 3 } }, { weights: { n: heavy } }, { weights: { n: light } });
      const first = await s.claimOne({ leaseMs: 600_000 });
      await s.storage.report([{ ...lease(first), weights: { n: 5 } }]);
      equal(await count(s), 0, "how many start beside the first");
      const { jobs } = await s.claim({ leaseMs: 600_000, settle: [completed(first)] });
      equal(jobs.length, 1, "how many start when it ends");
      const end = () => s.settle(completed(jobs[0]!));
      ok(await s.wakes(end, { mayStart: true, quietFirst: true }), "expected a wake-up: the end of the second");
      await s.settle(completed(await s.claimOne()));
      await s.storage.limits.remove("k");
    }
  },

  "a slot of a group that was refused to a permit wakes up subscribers when it is released": async (s) => {
    for (const by of [{ byGroup: true }, BY("tenant")]) {
      await define(s, rule("k", { concurrency: 1 }, by));
      const job = async (name: string): Promise<JobRecord> => {
        await s.add({ group: name, keys: { tenant: name } });
        return s.claimOne({ leaseMs: 600_000 });
      };
      const end = (one: JobRecord) => () => s.settle(completed(one));
      const [a, b, c] = [await job("a"), await job("b"), await job("c")];
      equal(await take(s, "k", { group: "a" }), refusedFor(null), "a permit of a full group");
      equal(await take(s, "k", { group: "a" }), refusedFor(null), "another one");
      equal((await take(s, "k", { group: "c", dry: true })).granted, false, "the answer to a question");
      await wakesUpNone(s, "a group that nothing waits for", end(c), null);
      await wakesUp(s, "the end of the job", end(a), null);
      await wakesUpNone(s, "the end of a job after that", end(await job("a")), null);
      const permit = await taken(s, "k", { group: "a", ttlMs: 600_000 });
      ok(!(await take(s, "k", { group: "a" })).granted, "expected a permit beside another one to be refused");
      await wakesUp(s, "the end of a permit", () => s.storage.limits.give(permit, "released"), null);
      await take(s, "k", { group: "b" });
      await wakesUp(s, "a job that fails", () => s.settle(dead(b)), null);
      await s.storage.limits.remove("k");
    }
  },

  "slots of a group that were refused to a heavy permit wake up subscribers when they are released": async (s) => {
    await define(s, rule("k", { concurrency: 5 }, { byGroup: true, weight: "n" }));
    await s.add({ group: "a", weights: { n: 2 } }, { group: "a", weights: { n: 3 } });
    const { jobs } = await s.claim({ leaseMs: 600_000 });
    for (const job of jobs) {
      equal(await take(s, "k", { group: "a", weight: 4 }), refusedFor(null), "a heavy permit");
      await wakesUp(s, "slots that are released", () => s.settle(completed(job)), null);
    }
    ok((await take(s, "k", { group: "a", weight: 4 })).granted, "expected the heavy permit to be granted");
  },

  "a start of a group that never was, and a weight that is settled lower, wake up permits": async (s) => {
    await define(s, rule("k", window(4, 600_000), { byGroup: true, weight: "n" }));
    await s.add({ group: "a", weights: { n: 2 } }, { group: "a", weights: { n: 2 } });
    const [first, second] = (await s.claim({ leaseMs: 600_000 })).jobs;
    equal((await take(s, "k", { group: "a" })).granted, false, "a permit of a full group");
    await wakesUp(s, "less used", () => s.storage.report([{ ...lease(first!), weights: { n: 1 } }]), null);
    await taken(s, "k", { group: "a" });
    equal((await take(s, "k", { group: "a" })).granted, false, "one more");
    const never = back(second!, { inMs: 60_000, unstarted: true });
    await wakesUp(s, "a start that never was", () => s.settle(never), null);
  },

  "a limit that a claim brings along wakes up workers when it becomes available": async (s) => {
    await s.addMany(3);
    const limits = [limit("queue:q", 1, 600_000)];
    const job = await s.claimOne({ limits, leaseMs: 600_000 });
    equal(await count(s, { limits }), 0, "how many start");
    await wakesUp(s, "a start that never was", () => s.settle(back(job, { inMs: 60_000, unstarted: true })));
  },

  "a limit that a claim brings along wakes up workers, though a stored one of its name would have let more start":
    async (s) => {
      await define(s, rule("k", window(7, 1_000)));
      const permit = await taken(s, "k", { ttlMs: 60_000 });
      await s.addMany(1);
      const limits = [limit("k", 1, 600_000)];
      equal(await count(s, { limits }), 0, "how many start");
      await s.clock.advance(2_000);
      await wakesUp(s, "a permit that is cancelled", () => s.storage.limits.give(permit, "cancelled"));
      equal(await count(s, { limits }), 1, "how many start then");
    },

  "a wake-up time that becomes earlier wakes up workers, though nothing can start yet": async (s) => {
    const parts: Readonly<Record<string, Parameters<typeof rule>[1]>> = {
      "a window": { concurrency: 1, ...window(1, 6_000_000) },
      spacing: { concurrency: 1, everyMs: 6_000_000 },
    };
    for (const [what, quota] of Object.entries(parts)) {
      const job = await full(s, quota);
      await wakesUp(s, `a slot that comes back under ${what}`, () => s.settle(completed(job)), "r");
      await s.storage.limits.remove("k");
    }
    const job = await full(s);
    const hold = { names: ["k"], scope: false, forMs: 6_000_000 };
    await wakesUp(s, "a slot that comes back while the limit is held", () => s.settle(back(job, { hold })), "r");
    equal(await count(s), 0, "how many start then");
  },

  "a wake-up time that becomes earlier for a group wakes up workers": async (s) => {
    await define(s, rule("k", { concurrency: 1, everyMs: 6_000_000 }, { byGroup: true }));
    await s.add({ group: "a" }, { group: "a" }, { group: "a", queue: "r" });
    const job = await s.claimOne({ leaseMs: 600_000 });
    equal([await count(s), await count(s, { queue: "r" })], [0, 0], "how many start");
    await wakesUp(s, "a slot that comes back", () => s.settle(completed(job)), "r");
    equal((await s.claim({ queue: "r" })).blockedBy, "k[a]", "what a claim says then");
    ok((await s.claim({ queue: "r" })).nextInMs !== null, "expected the claim to name an instant");
  },

  "a probe that fails wakes up workers, for now there is a wake-up time": async (s) => {
    for (const byGroup of [false, true]) {
      await define(s, rule("k", window(100, 600_000), { breaker: { ...BREAKER, failures: 1 }, byGroup }));
      await s.addMany(5);
      await s.add({ queue: "r" });
      await s.settle(dead(await s.claimOne()));
      await s.clock.advance(1_000);
      const probe = await s.claimOne({ leaseMs: 600_000 });
      equal((await s.claim({ queue: "r" })).nextInMs, null, "what a claim says beside the probe");
      await wakesUp(s, "a probe that failed", () => s.settle(dead(probe)), "r");
      await s.storage.limits.remove("k");
    }
  },

  "a weight that is settled lower wakes up workers if a heavy job can start sooner": async (s) => {
    await define(s, rule("k", window(10, 600_000), { weight: "n" }));
    await s.add({ weights: { n: 5 } }, { weights: { n: 5 } });
    const first = await s.claimOne({ leaseMs: 6_000_000 });
    await s.clock.advance(60_000);
    const second = await s.claimOne({ leaseMs: 6_000_000 });
    await s.storage.report([{ ...lease(first), weights: { n: 10 } }]);
    await s.add({ queue: "r", weights: { n: 7 } });
    equal((await s.claim({ queue: "r" })).nextInMs, 600_000, "when the heavy one fits");
    await wakesUp(s, "less used", () => s.storage.report([{ ...lease(second), weights: { n: 1 } }]), "r");
    ok((await s.claim({ queue: "r" })).nextInMs! <= 540_000, "expected the heavy one to fit sooner");
  },

  "a light job that backs off, and comes due before a heavy one of its lane fits, wakes up workers": async (s) => {
    await define(s, rule("k", window(10, 600_000), { weight: "n" }));
    await s.add({ weights: { n: 6 } }, { id: "light", weights: { n: 1 } }, { weights: { n: 5 } });
    const [, light] = (await s.claim({ max: 2, leaseMs: 6_000_000 })).jobs;
    equal((await s.claim()).nextInMs, 600_000, "when the heavy one fits");
    await wakesUp(s, "the light one fails", () => s.settle(retry(light!, 1_000)));
    equal((await s.claim()).nextInMs, 1_000, "the wake-up time then");
    await s.clock.advance(1_000);
    equal(await s.claimIds(), ["light"], "what starts then");
  },

  "a change that makes the wake-up time later wakes up no worker": async (s) => {
    await full(s, window(1, 6_000_000));
    await wakesUpNone(s, "a hold", () => change(s, "k", { holdMs: 60_000_000, group: null }), "r");
    await wakesUpNone(s, "no more is left", () => change(s, "k", { remaining: 0, resetMs: 600, group: null }), "r");
    await wakesUpNone(s, "stopped by hand", () => change(s, "k", { paused: true }), "r");
    await define(s, rule("g", window(9, 1_000), { byGroup: true }));
    await wakesUpNone(s, "a hold of all groups", () => change(s, "g", { holdMs: 6_000_000, group: null }), "r");
    await wakesUp(s, "all groups that go on", () => change(s, "g", { paused: false }), "r");
    await change(s, "g", { holdMs: 6_000_000, group: null });
    await wakesUp(s, "a reset of all groups", () => change(s, "g", { reset: true, group: null }), "r");
  },
};
