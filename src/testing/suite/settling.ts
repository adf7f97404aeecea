import { equal } from "../expect.ts";
import { back, cancelled, type Cases, completed, dead, ERROR, lease, retry } from "./scene.ts";

const DAY = 86_400_000;

export const settling: Cases = {
  "a completed job keeps its result": async (s) => {
    const [a, b] = await s.add({}, {});
    const [first, second] = (await s.claim()).jobs;
    await s.clock.advance(20);
    await s.settle(completed(first!, '{"__proto__":1}'), completed(second!));
    const { state, result, finishedAt, leaseUntil, attempt } = await s.get(a!);
    equal(
      { state, result, finishedAt, leaseUntil, attempt },
      { state: "completed", result: '{"__proto__":1}', finishedAt: s.clock.wall(), leaseUntil: null, attempt: 1 },
      "the job",
    );
    equal((await s.get(b!)).result, null, "a job without a result");
  },

  "a dead job keeps its error and its attempt": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ worker: "me" });
    await s.clock.advance(30);
    await s.settle(dead(job));
    const { state, error, finishedAt } = await s.get(id!);
    equal({ state, error, finishedAt }, { state: "dead", error: ERROR, finishedAt: s.clock.wall() }, "the job");
    equal(
      (await s.storage.history(id!)).attempts,
      [{ attempt: 1, startedAt: job.startedAt, endedAt: s.clock.wall(), worker: "me", error: ERROR }],
      "its attempts",
    );
  },

  "a job is cancelled with an error or without": async (s) => {
    const [a, b] = await s.add({}, {});
    const [first, second] = (await s.claim()).jobs;
    await s.settle(cancelled(first!), cancelled(second!, ERROR));
    equal([await s.state(a!), await s.state(b!)], ["cancelled", "cancelled"], "the jobs");
    equal((await s.storage.history(a!)).attempts.length, 0, "attempts of the one without an error");
    equal((await s.storage.history(b!)).attempts.length, 1, "attempts of the one with an error");
    equal((await s.get(a!)).finishedAt, s.clock.wall(), "finishedAt");
  },

  "a retry spends an attempt and keeps the error": async (s) => {
    const [id] = await s.add({});
    for (const attempt of [1, 2, 3, 4]) {
      const job = await s.claimOne();
      equal(job.attempt, attempt, "the attempt");
      await s.settle(retry(job));
      const found = await s.get(id!);
      equal([found.state, found.attempt, found.error], ["waiting", attempt, ERROR], "the job");
    }
    equal(
      (await s.storage.history(id!)).attempts.map(({ attempt }) => attempt),
      [1, 2, 3, 4],
      "the attempts, oldest first",
    );
  },

  "a job that is given back spends no attempt": async (s) => {
    const [id] = await s.add({});
    for (let i = 0; i < 3; i++) {
      const job = await s.claimOne();
      equal(job.attempt, 1, "the attempt");
      await s.settle(back(job));
    }
    const { state, attempt, holds } = await s.get(id!);
    equal({ state, attempt, holds }, { state: "waiting", attempt: 0, holds: 0 }, "the job");
    equal((await s.storage.history(id!)).attempts, [], "its attempts");
  },

  "a job that is given back for later is scheduled": async (s) => {
    const [id] = await s.add({});
    await s.settle(back(await s.claimOne(), { inMs: 500 }));
    const { state, dueAt } = await s.get(id!);
    equal({ state, dueAt }, { state: "scheduled", dueAt: s.clock.wall() + 500 }, "the job");
    equal((await s.claim()).nextInMs, 500, "nextInMs");
  },

  "a job that is given back as held counts its holds": async (s) => {
    const [id] = await s.add({});
    await s.settle(retry(await s.claimOne()));
    for (const holds of [1, 2]) {
      const job = await s.claimOne();
      equal([job.attempt, job.holds], [2, holds - 1], "the attempt and the holds before");
      await s.settle(back(job, { held: true, error: ERROR }));
      equal((await s.get(id!)).holds, holds, "the holds");
    }
    equal((await s.get(id!)).attempt, 1, "the attempts that count");
    equal((await s.get(id!)).error, ERROR, "what went wrong last");
  },

  "a job that was asked to stop is not tried again": async (s) => {
    await s.add({}, {}, {}, {});
    const jobs = (await s.claim()).jobs;
    await s.change("cancel", ...jobs.map(({ id }) => id));
    await s.settle(retry(jobs[0]!), back(jobs[1]!), retry(jobs[2]!, 1_000), back(jobs[3]!, { inMs: 1_000 }));
    const found = await s.storage.find(jobs.map(({ id }) => id));
    equal(
      found.map((job) => [job?.state, job?.finishedAt]),
      jobs.map(() => ["cancelled", s.clock.wall()]),
      "the jobs",
    );
    equal((await s.storage.history(jobs[0]!.id)).attempts.length, 1, "the attempts of the one that failed");
  },

  "a job that was asked to stop and is done all the same has ended as it says": async (s) => {
    await s.add({}, {});
    const [a, b] = (await s.claim()).jobs;
    await s.change("cancel", a!.id, b!.id);
    await s.settle(completed(a!), dead(b!));
    equal([await s.state(a!.id), await s.state(b!.id)], ["completed", "dead"], "the jobs");
  },

  "a completed job with keepFor 0 is gone at once": async (s) => {
    const id = await s.ended("completed", { keepFor: 0 });
    equal(await s.state(id), undefined, "the job");
    equal(await s.storage.overview(), [], "the overview");
    equal(await s.storage.history(id), { attempts: [], log: [] }, "the history");
  },

  "jobs that ended are kept for as long as they say, then deleted by a sweep": async (s) => {
    const ids = [
      await s.ended("completed", { keepFor: 1_000 }),
      await s.ended("dead", { keepFor: 1_000 }),
      await s.ended("cancelled", { keepFor: 1_000 }),
    ];
    await s.clock.advance(999);
    await s.sweep();
    equal((await s.storage.find(ids)).filter((job) => job !== undefined).length, 3, "how many are kept before");
    await s.clock.advance(1);
    const { deleted } = await s.sweep();
    equal(deleted >= 3, true, "at least three rows are deleted");
    equal(await s.storage.find(ids), [undefined, undefined, undefined], "the jobs");
    equal((await s.list()).jobs, [], "the list");
    equal(await s.storage.overview(), [], "the overview");
  },

  "jobs without keepFor are kept for a day, and dead ones for 30 days": async (s) => {
    const done = await s.ended("completed");
    const unwanted = await s.ended("cancelled");
    const failed = await s.ended("dead");
    await s.clock.advance(DAY - 1);
    await s.sweep();
    equal([await s.state(done), await s.state(unwanted)], ["completed", "cancelled"], "before a day is over");
    await s.clock.advance(1);
    await s.sweep();
    equal(
      [await s.state(done), await s.state(unwanted), await s.state(failed)],
      [undefined, undefined, "dead"],
      "after a day",
    );
    await s.clock.advance(29 * DAY - 1);
    await s.sweep();
    equal(await s.state(failed), "dead", "the dead one before 30 days are over");
    await s.clock.advance(1);
    await s.sweep();
    equal(await s.state(failed), undefined, "the dead one after 30 days");
  },

  "a job that has not ended is never deleted": async (s) => {
    const [waiting, scheduled] = await s.add({ keepFor: 1 }, { keepFor: 1, due: { inMs: 90 * DAY } });
    const active = await s.addOne({ keepFor: 1, priority: 9 });
    await s.claimOne({ leaseMs: 100 * DAY });
    await s.clock.advance(40 * DAY);
    await s.sweep();
    equal(
      [await s.state(waiting!), await s.state(scheduled!), await s.state(active)],
      ["waiting", "scheduled", "active"],
      "the jobs",
    );
  },

  "the latest hundred attempts are kept": async (s) => {
    const [id] = await s.add({ maxAttempts: 1_000 });
    for (let i = 0; i < 105; i++) await s.settle(retry(await s.claimOne()));
    const { attempts } = await s.storage.history(id!);
    equal([attempts.length, attempts[0]?.attempt, attempts.at(-1)?.attempt], [100, 6, 105], "how many, first and last");
  },

  "progress and log lines of a running job are kept": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne();
    const progress = { percent: 12.5, message: "half of a quarter", details: { rows: [1, 2], none: null } };
    equal(await s.storage.report([{ ...lease(job), progress, log: ["one", "two"] }]), [], "lost");
    const first = s.clock.wall();
    await s.clock.advance(5);
    await s.storage.report([{ ...lease(job), log: ["three"] }]);
    equal((await s.get(id!)).progress, progress, "the progress");
    await s.settle(retry(job));
    const again = await s.claimOne();
    await s.storage.report([
      { ...lease(again), progress: { percent: 0 } },
      { ...lease(again), log: ["four"] },
    ]);
    equal((await s.get(id!)).progress, { percent: 0 }, "the progress of the next attempt");
    equal(
      (await s.storage.history(id!)).log,
      [
        { at: first, attempt: 1, text: "one" },
        { at: first, attempt: 1, text: "two" },
        { at: first + 5, attempt: 1, text: "three" },
        { at: first + 5, attempt: 2, text: "four" },
      ],
      "the log, oldest first",
    );
  },

  "the latest thousand log lines are kept": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne();
    const lines = Array.from({ length: 600 }, (_, i) => `${i}`);
    await s.storage.report([{ ...lease(job), log: lines }]);
    await s.storage.report([{ ...lease(job), log: lines.map((text) => `again ${text}`) }]);
    const { log } = await s.storage.history(id!);
    equal([log.length, log[0]?.text, log.at(-1)?.text], [1_000, "200", "again 599"], "how many, first and last");
  },

  "a job that does not exist has no history": async (s) => {
    equal(await s.storage.history("nobody"), { attempts: [], log: [] }, "the history");
  },
};
