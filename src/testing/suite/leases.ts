import { equal } from "../expect.ts";
import { back, cancelled, type Cases, completed, dead, ERROR, lease, retry } from "./scene.ts";

export const leases: Cases = {
  "a stale token changes nothing": async (s) => {
    const [id] = await s.add({});
    const old = await s.claimOne();
    await s.settle(back(old));
    const now = await s.claimOne({ worker: "other" });
    const before = await s.get(id!);
    const outcomes = [completed(old, "1"), dead(old), cancelled(old, ERROR), retry(old), back(old)];
    for (const outcome of outcomes) {
      equal(await s.settle(outcome), [id], `settling with a stale token (${outcome.to})`);
      equal((await s.claim({ max: 0, settle: [outcome] })).stale, [id], `the same in a claim (${outcome.to})`);
    }
    equal(await s.storage.heartbeat([lease(old)], 99_000), { lost: [id], cancelled: [] }, "a heartbeat");
    equal(await s.storage.report([{ ...lease(old), progress: { percent: 9 }, log: ["x"] }]), [id], "a report");
    equal(await s.get(id!), before, "the job");
    equal(await s.storage.history(id!), { attempts: [], log: [] }, "the history");
    equal(await s.settle(completed(now)), [], "settling with the right token");
  },

  "a token of the future changes nothing": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne();
    const later = { id: job.id, token: job.token + 1 };
    equal(await s.settle(completed(later)), [id], "settle");
    equal((await s.storage.heartbeat([later], 1_000)).lost, [id], "heartbeat");
    equal(await s.state(id!), "active", "the job");
  },

  "a stale give-back holds no limit and takes back no start": async (s) => {
    const limits = [{ key: "k", max: 2, windowMs: 1_000 }];
    await s.add({}, {}, {}, {});
    const job = await s.claimOne({ limits });
    await s.settle(completed(job));
    const late = back(job, { hold: { names: ["k"], scope: false, forMs: 60_000 }, unstarted: true });
    equal(await s.settle(late), [job.id], "settle");
    equal((await s.claim({ limits })).jobs.length, 1, "how many the limit lets through");
  },

  "a lease is settled once, and the second outcome is stale": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne();
    equal(await s.settle(completed(job, "1"), completed(job, "2")), [id], "twice in one step");
    equal(await s.settle(dead(job)), [id], "a third time");
    const { state, result } = await s.get(id!);
    equal({ state, result }, { state: "completed", result: "1" }, "the job");
  },

  "a stale outcome does not prevent the others from being settled": async (s) => {
    await s.add({}, {});
    const [a, b] = (await s.claim()).jobs;
    equal(await s.settle(completed({ id: "nobody", token: 5 }), completed(a!), completed(b!)), ["nobody"], "stale");
    equal((await s.overview())?.counts.completed, 2, "how many are completed");
  },

  "an expired lease that no sweep has ended can still be settled and reported on": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(5_000);
    equal(await s.storage.report([{ ...lease(job), progress: { percent: 50 } }]), [], "report");
    equal(await s.settle(completed(job)), [], "settle");
    equal(await s.state(id!), "completed", "the job");
  },

  "of two outcomes for a lease that ran out one may say that the job was never started": async (s) => {
    const id = await s.addOne({ maxAttempts: 1 });
    const job = await s.claimOne({ leaseMs: 1 });
    await s.clock.advance(1);
    await s.storage.sweep();
    equal(await s.state(id), "dead", "the state when the lease has run out");
    equal(await s.settle(completed(job), back(job, { unstarted: true })), [id, id], "what is lost");
    const { state, attempt } = await s.get(id);
    equal({ state, attempt }, { state: "waiting", attempt: 0 }, "the job afterwards");
  },

  "a claim that gives back a job as never started, after its lease ran out and its deadline passed, ends the job":
    async (s) => {
      for (const group of [null, "g"]) {
        const id = await s.addOne({ maxAttempts: 1, deadline: { inMs: 10 }, group });
        const job = await s.claimOne({ leaseMs: 1 });
        await s.clock.advance(100);
        await s.sweep();
        equal(await s.state(id), "dead", "the state when the lease has run out");
        const { jobs, stale, more, nextInMs } = await s.claim({ settle: [back(job, { unstarted: true })] });
        equal({ jobs, stale, more, nextInMs }, { jobs: [], stale: [id], more: false, nextInMs: null }, "the claim");
        const { state, attempt, error } = await s.get(id);
        equal(
          [state, attempt, error?.message],
          ["dead", 0, "the deadline passed before the job could start"],
          "the job",
        );
      }
    },

  "a job that is given back as never started after a sweep took its lease gets its attempt back, once": async (s) => {
    await s.add({ id: "a", maxAttempts: 1, group: "g" }, { id: "b", maxAttempts: 3 });
    const earlier = await s.claimOne({ leaseMs: 1_000 });
    const { id: other } = await s.claimOne({ leaseMs: 100_000 });
    equal([earlier.id, other].toSorted(), ["a", "b"], "the jobs");
    await s.clock.advance(1_000);
    equal((await s.sweep()).stalled, 1, "how many stalled");
    const unstarted = back(earlier, { unstarted: true });
    for (let i = 0; i < 2; i++) equal(await s.settle(unstarted), [earlier.id], "the lease is lost all the same");
    const { state, attempt, error } = await s.get(earlier.id);
    equal({ state, attempt, error }, { state: "waiting", attempt: 0, error: null }, "the job");
    equal((await s.storage.history(earlier.id)).attempts, [], "its history");
    equal((await s.claimOne()).id, earlier.id, "what is claimed next");
  },

  "a job whose lease ran out twice gets back only the attempt that was never started": async (s) => {
    const [id] = await s.add({ maxAttempts: 2 });
    await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await s.sweep();
    const second = await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await s.sweep();
    equal(await s.state(id!), "dead", "after both");
    for (let i = 0; i < 2; i++) await s.settle(back(second, { unstarted: true }));
    const { state, attempt, error } = await s.get(id!);
    equal([state, attempt, error?.code], ["waiting", 1, "SLUICE_STALLED"], "the job");
    equal((await s.storage.history(id!)).attempts.length, 1, "how many attempts are kept");
    equal((await s.claimOne()).attempt, 2, "the attempt of the next claim");
  },

  "a stalled job that was claimed, cancelled or retried since keeps its attempt": async (s) => {
    await s.add({ id: "a", maxAttempts: 2 }, { id: "b", maxAttempts: 2 }, { id: "c", maxAttempts: 1 });
    const { jobs } = await s.claim({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    equal((await s.sweep()).stalled, 3, "how many stalled");
    equal((await s.claimOne()).id, "a", "what is claimed again");
    await s.change("cancel", "b");
    await s.change("retry", "c");
    for (const job of jobs) await s.settle(back(job, { unstarted: true }));
    const found = await s.storage.find(["a", "b", "c"]);
    equal(
      found.map((job) => [job?.state, job?.attempt]),
      [
        ["active", 2],
        ["cancelled", 1],
        ["waiting", 0],
      ],
      "the jobs",
    );
    equal((await s.storage.history("c")).attempts.length, 1, "the history of the one that was retried");
  },

  "a heartbeat never revives an expired lease": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    equal(await s.storage.heartbeat([lease(job)], 60_000), { lost: [id], cancelled: [] }, "the heartbeat");
    equal((await s.sweep()).stalled, 1, "how many stalled");
    equal(await s.state(id!), "waiting", "the job");
  },

  "a heartbeat keeps the lease for so long from now": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ leaseMs: 1_000 });
    for (let i = 0; i < 5; i++) {
      await s.clock.advance(999);
      equal((await s.storage.heartbeat([lease(job)], 1_000)).lost, [], "lost");
      equal((await s.get(id!)).leaseUntil, s.clock.wall() + 1_000, "leaseUntil");
      equal((await s.sweep()).stalled, 0, "how many stalled");
    }
    await s.clock.advance(1_000);
    equal((await s.sweep()).stalled, 1, "how many stalled in the end");
  },

  "a lease that is kept does not hide others that have run out": async (s) => {
    await s.add({}, {}, {}, {});
    const jobs = (await s.claim({ leaseMs: 1_000 })).jobs;
    await s.storage.heartbeat([lease(jobs[0]!), lease(jobs[2]!)], 60_000);
    await s.storage.heartbeat([lease(jobs[3]!)], 500);
    await s.clock.advance(500);
    equal((await s.sweep()).stalled, 1, "how many stalled: the one that was shortened");
    await s.clock.advance(500);
    equal((await s.sweep()).stalled, 1, "how many stalled: the one that was not kept");
    const found = await s.storage.find(jobs.map(({ id }) => id));
    equal(
      found.map((job) => job?.state),
      ["active", "waiting", "active", "waiting"],
      "the jobs",
    );
  },

  "a heartbeat answers for each lease on its own": async (s) => {
    await s.add({}, {}, {});
    const [a, b, c] = (await s.claim()).jobs;
    await s.settle(completed(b!));
    await s.change("cancel", c!.id);
    const answer = await s.storage.heartbeat([lease(a!), lease(b!), lease(c!), { id: "nobody", token: 1 }], 1_000);
    equal(answer, { lost: [b!.id, "nobody"], cancelled: [c!.id] }, "the answer");
  },

  "an expired lease gives the job back at once, and counts as a failed attempt": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ worker: "the-worker", leaseMs: 1_000 });
    await s.clock.advance(999);
    equal((await s.storage.sweep()).stalled, 0, "how many stalled before");
    await s.clock.advance(1);
    equal((await s.storage.sweep()).stalled, 1, "how many stalled then");
    const { state, attempt, leaseUntil, worker, error } = await s.get(id!);
    equal(
      { state, attempt, leaseUntil, worker },
      { state: "waiting", attempt: 1, leaseUntil: null, worker: null },
      "the job",
    );
    equal(error?.code, "SLUICE_STALLED", "the code of its error");
    const { attempts } = await s.storage.history(id!);
    equal(attempts.length, 1, "how many attempts are recorded");
    const { error: why, ...rest } = attempts[0]!;
    equal(rest, { attempt: 1, startedAt: job.startedAt, endedAt: s.clock.wall(), worker: "the-worker" }, "the attempt");
    equal([why.name, why.code], ["StalledJobError", "SLUICE_STALLED"], "its error");
    equal(why.message.includes("the-worker"), true, "the message names the worker");
    const again = await s.claimOne();
    equal([again.attempt, again.id], [2, id], "the next attempt");
    equal(await s.settle(completed(job, '"late"')), [id], "the first worker is refused");
    equal(await s.settle(completed(again)), [], "the second is not");
  },

  "after recovery the old worker is refused even before the job is claimed again": async (s) => {
    const [id] = await s.add({});
    const job = await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await s.sweep();
    equal(await s.settle(completed(job)), [id], "settle");
    equal(await s.storage.report([{ ...lease(job), log: ["late"] }]), [id], "report");
    equal((await s.storage.heartbeat([lease(job)], 1_000)).lost, [id], "heartbeat");
    equal(await s.state(id!), "waiting", "the job");
  },

  "only expired leases are recovered": async (s) => {
    await s.add({}, {}, {});
    const short = await s.claimOne({ leaseMs: 1_000 });
    const long = await s.claimOne({ leaseMs: 9_000 });
    const middle = await s.claimOne({ leaseMs: 5_000 });
    await s.clock.advance(5_000);
    equal((await s.sweep()).stalled, 2, "how many stalled");
    equal(await s.state(long.id), "active", "the one with a long lease");
    equal([await s.state(short.id), await s.state(middle.id)], ["waiting", "waiting"], "the others");
  },

  "a job that ends every worker that runs it is dead after its last attempt": async (s) => {
    const [id] = await s.add({ maxAttempts: 2 });
    for (const state of ["waiting", "dead"]) {
      await s.claimOne({ leaseMs: 1_000 });
      await s.clock.advance(1_000);
      equal((await s.sweep()).stalled, 1, "how many stalled");
      equal(await s.state(id!), state, "the job");
    }
    const { attempt, finishedAt, error } = await s.get(id!);
    equal([attempt, finishedAt, error?.code], [2, s.clock.wall(), "SLUICE_STALLED"], "the dead job");
    equal((await s.claim()).jobs, [], "a further claim");
  },

  "a job that is to be cancelled is cancelled when its lease expires": async (s) => {
    const [id] = await s.add({});
    await s.claimOne({ leaseMs: 1_000 });
    await s.change("cancel", id!);
    await s.clock.advance(1_000);
    await s.sweep();
    equal(await s.state(id!), "cancelled", "the job");
  },

  "many expired leases are recovered in small steps": async (s) => {
    const jobs = 1_200;
    await s.addMany(jobs);
    await s.claim({ max: jobs, leaseMs: 1_000 });
    await s.clock.advance(1_000);
    let stalled = 0;
    let more = true;
    for (let step = 0; more; step++) {
      const sweep = await s.storage.sweep();
      stalled += sweep.stalled;
      more = sweep.more;
      equal(step < 100, true, "the steps come to an end");
    }
    equal(stalled, jobs, "how many stalled");
    equal((await s.claim({ max: jobs })).jobs.length, jobs, "how many can be claimed again");
  },

  "waiting and scheduled jobs whose deadline has passed are dead after a sweep": async (s) => {
    const [waiting, scheduled, fine] = await s.add(
      { deadline: { inMs: 100 } },
      { due: { inMs: 60_000 }, deadline: { inMs: 100 } },
      { deadline: { inMs: 101 } },
    );
    await s.clock.advance(100);
    await s.sweep();
    equal(
      [await s.state(waiting!), await s.state(scheduled!), await s.state(fine!)],
      ["dead", "dead", "waiting"],
      "the three jobs",
    );
    const { error, finishedAt } = await s.get(scheduled!);
    equal([error?.code, finishedAt], ["SLUICE_TIMEOUT", s.clock.wall()], "the scheduled one");
  },

  "an active job whose deadline has passed is left to its worker": async (s) => {
    const [id] = await s.add({ deadline: { inMs: 100 } });
    const job = await s.claimOne();
    await s.clock.advance(200);
    await s.sweep();
    equal(await s.state(id!), "active", "the job");
    await s.settle(retry(job, 0));
    await s.sweep();
    equal(await s.state(id!), "dead", "the job, when it would be tried again");
  },
};
