import { equal, ok } from "../expect.ts";
import { type Cases, completed, lease, retry } from "./scene.ts";

const NOTHING = { jobs: [], stale: [], more: false, nextInMs: null, blockedBy: null };

export const claiming: Cases = {
  "a claimed job is active, leased, and has begun an attempt": async (s) => {
    const id = await s.addOne();
    await s.clock.advance(50);
    const now = s.clock.wall();
    const job = await s.claimOne({ worker: "me", leaseMs: 7_000 });
    ok(job.token > 0, `expected a token above 0, got ${job.token}`);
    const { state, attempt, startedAt, leaseUntil, worker } = job;
    equal(
      { id: job.id, state, attempt, startedAt, leaseUntil, worker },
      { id, state: "active", attempt: 1, startedAt: now, leaseUntil: now + 7_000, worker: "me" },
      "the job",
    );
    equal(await s.get(id), job, "the job as it is found");
  },

  "a job is claimed by one worker only": async (s) => {
    const ids = await s.addMany(30);
    const claims = await Promise.all(Array.from({ length: 10 }, (_, i) => s.claim({ worker: `w${i}`, max: 4 })));
    const got = claims.flatMap(({ jobs }) => jobs.map(({ id }) => id));
    equal(got.toSorted(), ids.toSorted(), "all that were claimed, together");
  },

  "a claim of an empty queue gets nothing and has no wake-up time": async (s) => {
    equal(await s.claim(), NOTHING, "the claim");
    await s.add({ queue: "other" });
    equal(await s.claim(), NOTHING, "the claim while another queue has a job");
  },

  "`more` says whether another job could be claimed at once": async (s) => {
    await s.add({}, {}, {}, { due: { inMs: 1_000 } });
    equal((await s.claim({ max: 2 })).more, true, "one more waits");
    equal((await s.claim({ max: 1 })).more, false, "only a scheduled one is left");
    await s.add({ type: "other" });
    equal((await s.claim({ types: ["t"] })).more, false, "only one of another type is left");
  },

  "a claim that answers `more` has no wake-up time": async (s) => {
    await s.add({}, {});
    const { more, nextInMs, blockedBy } = await s.claim({ max: 1 });
    equal({ more, nextInMs, blockedBy }, { more: true, nextInMs: 0, blockedBy: null }, "the claim");
  },

  "a claim with max 0 starts nothing and says whether jobs wait": async (s) => {
    equal(await s.claim({ max: 0 }), NOTHING, "an empty queue");
    const [id] = await s.add({});
    equal(await s.claim({ max: 0 }), { ...NOTHING, more: true, nextInMs: 0 }, "a queue with a job");
    equal(await s.state(id!), "waiting", "the job");
    equal((await s.get(id!)).attempt, 0, "its attempts");
  },

  "a claim with max 0 settles what it is handed": async (s) => {
    await s.add({});
    const job = await s.claimOne();
    equal(await s.claim({ max: 0, settle: [completed(job, "1")] }), NOTHING, "the claim");
    equal((await s.get(job.id)).result, "1", "the result");
  },

  "prefetched jobs come behind the others, in order, and only those that may be tried again are prefetched": async (
    s,
  ) => {
    const ids = await s.add({}, {}, { maxAttempts: 1 }, {}, {}, {});
    const { jobs, more } = await s.claim({ max: 1, prefetch: 3 });
    const possible = ids.filter((id) => id !== ids[2]);
    ok(jobs.length >= 1 && jobs.length <= 4, `expected from 1 to 4 jobs, got ${jobs.length}`);
    equal(
      jobs.map(({ id }) => id),
      possible.slice(0, jobs.length),
      "what was claimed",
    );
    ok(more, "expected that more is left");
    equal(await s.state(ids[2]!), "waiting", "the one that has a single attempt");
    equal((await s.claim({ max: 1 })).jobs[0]?.id, jobs.length === 1 ? ids[1] : ids[2], "the next that starts at once");
  },

  "no job under a limit is prefetched": async (s) => {
    await s.add({}, {}, {});
    const limits = [{ key: "k", max: 10, windowMs: 1_000 }];
    equal((await s.claim({ max: 1, prefetch: 2, limits })).jobs.length, 1, "how many were claimed");
    equal((await s.claim({ max: 0, prefetch: 2, limits })).jobs.length, 0, "how many were claimed without a free hand");
  },

  "a claim settles first, and answers with the outcomes that were stale": async (s) => {
    await s.add({}, {});
    const [a, b] = (await s.claim({ max: 2 })).jobs;
    await s.settle(completed(b!));
    const claim = await s.claim({ settle: [retry(a!), completed(b!), completed({ id: "nobody", token: 1 })] });
    equal(claim.stale, [b!.id, "nobody"], "stale");
    equal(
      claim.jobs.map(({ id, attempt }) => ({ id, attempt })),
      [{ id: a!.id, attempt: 2 }],
      "what was settled can be claimed in the same step",
    );
  },

  "a scheduled job starts when it is due, not before": async (s) => {
    const id = await s.addOne({ due: { inMs: 1_000 } });
    const claim = await s.claim();
    equal(claim, { ...NOTHING, nextInMs: 1_000 }, "the claim before");
    await s.clock.advance(999);
    equal(await s.claim(), { ...NOTHING, nextInMs: 1 }, "the claim a millisecond before");
    await s.clock.advance(1);
    equal(await s.claimIds(), [id], "the claim when it is due");
  },

  "the wake-up time of a claim is that of the first job to come due among the types asked for": async (s) => {
    await s.add(
      { due: { inMs: 300 } },
      { due: { inMs: 200 } },
      { type: "other", due: { inMs: 50 } },
      { queue: "other", due: { inMs: 10 } },
    );
    equal((await s.claim({ types: ["t"] })).nextInMs, 200, "one type");
    equal((await s.claim()).nextInMs, 50, "any type");
    equal((await s.claim({ types: ["nobody"] })).nextInMs, null, "a type without jobs");
    const now = await s.add({});
    const claim = await s.claim({ types: ["t"] });
    equal(
      claim.jobs.map(({ id }) => id),
      now,
      "the job that is due",
    );
    equal(claim.nextInMs, 200, "when all that was due is taken");
  },

  "a job that is tried again later is scheduled": async (s) => {
    await s.add({});
    const job = await s.claimOne();
    const { nextInMs } = await s.claim({ settle: [retry(job, 700)] });
    equal(nextInMs, 700, "nextInMs");
    const { state, dueAt } = await s.get(job.id);
    equal({ state, dueAt }, { state: "scheduled", dueAt: s.clock.wall() + 700 }, "the job");
    await s.clock.advance(700);
    equal((await s.claimOne()).attempt, 2, "the attempt");
  },

  "no job of a paused queue starts, and running jobs go on": async (s) => {
    const [a] = await s.add({}, {}, { due: { inMs: 100 } });
    const job = await s.claimOne();
    await s.storage.setPaused("q", null, true);
    await s.storage.setPaused("q", null, true);
    equal(await s.claim(), NOTHING, "a claim while paused");
    equal((await s.storage.heartbeat([lease(job)], 1_000)).lost, [], "a heartbeat while paused");
    equal(await s.settle(completed(job)), [], "settling while paused");
    equal(await s.state(a!), "completed", "the job that ran");
    const added = await s.addOne();
    equal(await s.claim(), NOTHING, "a claim after another was added");
    await s.add({ queue: "other" });
    equal((await s.claim({ queue: "other" })).jobs.length, 1, "another queue");
    await s.clock.advance(100);
    await s.storage.setPaused("q", null, false);
    const ids = await s.claimIds();
    ok(ids.length === 3 && ids.includes(added), `expected three jobs after resuming, got ${ids.length}`);
  },

  "no job of a paused type starts, and jobs of other types do": async (s) => {
    const [a, b] = await s.add({ type: "a" }, { type: "b" });
    await s.storage.setPaused("q", "a", true);
    equal(await s.claimIds(), [b], "a claim of any type");
    equal(await s.claim({ types: ["a"] }), NOTHING, "a claim of the paused type");
    await s.storage.setPaused("q", null, true);
    await s.storage.setPaused("q", "a", false);
    equal(await s.claimIds(), [], "the queue is paused still");
    await s.storage.setPaused("q", null, false);
    equal(await s.claimIds(), [a], "after both were resumed");
  },

  "resuming the queue does not resume a type": async (s) => {
    await s.add({ type: "a" });
    await s.storage.setPaused("q", "a", true);
    await s.storage.setPaused("q", null, true);
    await s.storage.setPaused("q", null, false);
    equal(await s.claim(), NOTHING, "the claim");
  },

  "a queue and a type can be paused before they have jobs": async (s) => {
    await s.storage.setPaused("q", "t", true);
    await s.add({});
    equal(await s.claim(), NOTHING, "the claim");
    await s.storage.setPaused("empty", null, true);
    await s.add({ queue: "empty" });
    equal(await s.claim({ queue: "empty" }), NOTHING, "the claim of the paused queue");
  },

  "a job whose deadline has passed is dead at the claim and costs nothing": async (s) => {
    const [late, fine] = await s.add({ deadline: { inMs: 100 } }, { deadline: { inMs: 10_000 } }, {});
    await s.clock.advance(100);
    const claim = await s.claim({ max: 1, limits: [{ key: "k", max: 2, windowMs: 1_000 }] });
    equal(
      claim.jobs.map(({ id }) => id),
      [fine],
      "what is claimed instead",
    );
    equal(claim.more, true, "more: the late one does not count");
    const job = await s.get(late!);
    equal(
      { state: job.state, attempt: job.attempt, name: job.error?.name, code: job.error?.code, at: job.finishedAt },
      { state: "dead", attempt: 0, name: "JobTimeoutError", code: "SLUICE_TIMEOUT", at: s.clock.wall() },
      "the late job",
    );
  },

  "a deadline that is given as an instant is kept": async (s) => {
    const at = s.clock.wall() + 50;
    const [id] = await s.add({ deadline: { at } });
    equal((await s.get(id!)).deadline, at, "the deadline");
    await s.clock.advance(49);
    equal((await s.claim({ max: 0 })).more, true, "just before");
    await s.clock.advance(1);
    equal(await s.claim({ max: 0 }), NOTHING, "at the deadline, to one who only looks");
    equal(await s.state(id!), "dead", "the job");
  },
};
