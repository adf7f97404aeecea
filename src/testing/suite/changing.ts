import type { ChangeAction, ChangeFilter } from "../../storage/job-storage.ts";
import { equal } from "../expect.ts";
import { back, type Cases, completed, dead, ERROR, lease, retry, type Scene } from "./scene.ts";

/** One job in each state that a job can be in without a flow. */
async function oneOfEach(s: Scene) {
  const done = await s.ended("completed");
  const failed = await s.ended("dead");
  const unwanted = await s.ended("cancelled");
  const active = await s.addOne();
  await s.claimOne();
  const [waiting, scheduled] = await s.add({}, { due: { inMs: 60_000 } });
  return { waiting: waiting!, scheduled: scheduled!, active, completed: done, dead: failed, cancelled: unwanted };
}

/** Which of them an action changes, and what their states are afterwards. */
async function effect(s: Scene, action: ChangeAction) {
  const jobs = await oneOfEach(s);
  const changed = await s.change(action, ...Object.values(jobs));
  const found = await s.storage.find(Object.values(jobs));
  const names = Object.entries(jobs);
  return {
    changed: names.filter(([, id]) => changed.includes(id)).map(([name]) => name),
    states: Object.fromEntries(names.map(([name], i) => [name, found[i]?.state])),
    jobs,
  };
}

const filter = (said: Partial<ChangeFilter>): ChangeFilter => ({
  states: ["waiting", "scheduled", "active", "completed", "dead", "cancelled", "awaiting"],
  type: null,
  group: null,
  endedForMs: null,
  ...said,
});

export const changing: Cases = {
  "cancel ends jobs that have not started at once, and asks active ones to stop": async (s) => {
    const { changed, states, jobs } = await effect(s, "cancel");
    equal(changed, ["waiting", "scheduled", "active"], "what was changed");
    equal(
      states,
      {
        waiting: "cancelled",
        scheduled: "cancelled",
        active: "active",
        completed: "completed",
        dead: "dead",
        cancelled: "cancelled",
      },
      "the states",
    );
    equal((await s.get(jobs.waiting)).finishedAt, s.clock.wall(), "finishedAt");
    equal((await s.get(jobs.active)).cancelRequested, true, "cancelRequested");
    equal((await s.claim()).jobs, [], "a claim");
    equal((await s.claim()).nextInMs, null, "nextInMs");
  },

  "cancel by filter does not count jobs that were asked to stop before": async (s) => {
    await s.add({}, {});
    const jobs = [await s.claimOne(), await s.claimOne()];
    const change = { action: "cancel", queue: "q", where: filter({ states: ["active"] }), limit: 1 } as const;
    const asked = [...(await s.storage.change(change)), ...(await s.storage.change(change))];
    equal(asked.toSorted(), jobs.map(({ id }) => id).toSorted(), "who was asked");
    equal(await s.storage.change(change), [], "who was asked the third time");
  },

  "a change by id applies only to jobs in the states that are named": async (s) => {
    const jobs = await oneOfEach(s);
    const ids = Object.values(jobs);
    const changed = await s.storage.change({ action: "retry", queue: "q", ids, states: ["dead", "active"] });
    equal(changed, [jobs.dead], "what was changed");
  },

  "every heartbeat of an active job says that it is to be cancelled": async (s) => {
    await s.add({});
    const job = await s.claimOne();
    await s.change("cancel", job.id);
    for (let i = 0; i < 2; i++) {
      equal(await s.storage.heartbeat([lease(job)], 1_000), { lost: [], cancelled: [job.id] }, "the heartbeat");
    }
  },

  "retry makes a job that ended due now, from its first attempt on": async (s) => {
    const { changed, states, jobs } = await effect(s, "retry");
    equal(changed, ["completed", "dead", "cancelled"], "what was changed");
    equal(
      states,
      {
        waiting: "waiting",
        scheduled: "scheduled",
        active: "active",
        completed: "waiting",
        dead: "waiting",
        cancelled: "waiting",
      },
      "the states",
    );
    equal((await s.storage.history(jobs.dead)).attempts.length, 1, "the history is kept");
  },

  "retry starts all counts of a job from zero": async (s) => {
    const [id] = await s.add({ maxAttempts: 2 });
    await s.settle(retry(await s.claimOne()));
    await s.settle(back(await s.claimOne(), { held: true }));
    const job = await s.claimOne();
    await s.change("cancel", id!);
    await s.settle(completed(job, "1"));
    await s.clock.advance(100);
    await s.change("retry", id!);
    const { state, attempt, holds, cancelRequested, result, finishedAt, dueAt } = await s.get(id!);
    equal(
      { state, attempt, holds, cancelRequested, result, finishedAt, dueAt },
      {
        state: "waiting",
        attempt: 0,
        holds: 0,
        cancelRequested: false,
        result: null,
        finishedAt: null,
        dueAt: s.clock.wall(),
      },
      "the job",
    );
    const again = await s.claimOne();
    equal([again.id, again.attempt], [id, 1], "the next attempt");
    equal(again.token > job.token, true, "the token has grown");
    equal(await s.settle(dead(job)), [id], "the lease before it is stale");
  },

  "a retried job is kept from its new end on, not from its first": async (s) => {
    const id = await s.ended("dead", { keepFor: 1_000 });
    await s.change("retry", id);
    await s.clock.advance(5_000);
    await s.sweep();
    equal(await s.state(id), "waiting", "the job");
    await s.settle(dead(await s.claimOne()));
    await s.clock.advance(999);
    await s.sweep();
    equal(await s.state(id), "dead", "the job, kept anew");
    await s.clock.advance(1);
    await s.sweep();
    equal(await s.state(id), undefined, "the job, kept long enough");
  },

  "retry removes a deadline that has passed and keeps one to come": async (s) => {
    const [late, fine] = await s.add({ deadline: { inMs: 100 } }, { deadline: { inMs: 60_000 } });
    await s.change("cancel", fine!);
    await s.clock.advance(100);
    await s.sweep();
    equal(await s.state(late!), "dead", "the late one");
    equal(await s.change("retry", late!, fine!), [late, fine], "what was changed");
    equal([(await s.get(late!)).deadline, (await s.get(fine!)).deadline], [null, s.clock.wall() + 59_900], "deadlines");
    equal(await s.claimIds(), [late, fine], "what is claimed");
  },

  "promote makes scheduled jobs due now": async (s) => {
    const { changed, states, jobs } = await effect(s, "promote");
    equal(changed, ["scheduled"], "what was changed");
    equal(states["scheduled"], "waiting", "its state");
    equal((await s.get(jobs.scheduled)).dueAt, s.clock.wall(), "dueAt");
    equal(await s.claimIds(), [jobs.waiting, jobs.scheduled], "the claim");
  },

  "remove deletes jobs that are not active": async (s) => {
    const { changed, states, jobs } = await effect(s, "remove");
    equal(changed, ["waiting", "scheduled", "completed", "dead", "cancelled"], "what was changed");
    equal(
      states,
      {
        waiting: undefined,
        scheduled: undefined,
        active: "active",
        completed: undefined,
        dead: undefined,
        cancelled: undefined,
      },
      "the states",
    );
    equal(await s.storage.history(jobs.dead), { attempts: [], log: [] }, "the history of the dead one");
    equal((await s.claim()).jobs, [], "a claim");
    equal((await s.list()).jobs.length, 1, "how many are listed");
  },

  "a change leaves out jobs that do not exist or are of another queue": async (s) => {
    const [other] = await s.add({ queue: "other" });
    const [mine] = await s.add({});
    for (const action of ["cancel", "retry", "promote", "remove"] as const) {
      equal(await s.change(action, "nobody", other!), [], `what was changed (${action})`);
    }
    equal(await s.change("cancel", mine!, mine!), [mine], "the same id twice");
    equal(await s.state(other!), "waiting", "the job of the other queue");
    equal(await s.storage.change({ action: "cancel", queue: "none", ids: [mine!] }), [], "a queue that does not exist");
  },

  "a change by filter goes by state, type and group, oldest first, as many as its limit says": async (s) => {
    const ids = await s.add(
      { type: "a", group: "x" },
      { type: "a", group: "y" },
      { type: "b", group: "x" },
      { type: "a", group: "x" },
      { type: "a", group: "x", due: { inMs: 9_000 } },
      { type: "a" },
    );
    const cancel = (where: Partial<ChangeFilter>, limit = 100) =>
      s.storage.change({ action: "cancel", queue: "q", where: filter(where), limit });
    equal(await cancel({ type: "a", group: "x" }, 1), [ids[0]], "the oldest");
    equal(await cancel({ type: "a", group: "x", states: ["waiting"] }), [ids[3]], "of one state");
    equal(await cancel({ group: "x", states: ["scheduled", "waiting"] }), [ids[2], ids[4]], "of one group");
    equal(await cancel({}), [ids[1], ids[5]], "all that is left");
    equal(await cancel({}), [], "again");
  },

  "jobs that a change by filter does not apply to do not count against its limit": async (s) => {
    await s.add({}, {});
    await s.claim();
    const ids = await s.add({}, {});
    equal(
      await s.storage.change({ action: "remove", queue: "q", where: filter({}), limit: 2 }),
      ids,
      "what was removed",
    );
  },

  "a change by filter can be for jobs that ended long enough ago": async (s) => {
    const old = await s.ended("completed");
    const failed = await s.ended("dead");
    await s.clock.advance(10_000);
    const fresh = await s.ended("completed");
    const [waiting] = await s.add({});
    await s.clock.advance(1_000);
    const where = filter({ endedForMs: 5_000, states: ["completed", "waiting"] });
    equal(await s.storage.change({ action: "remove", queue: "q", where, limit: 100 }), [old], "what was removed");
    equal(
      [await s.state(failed), await s.state(fresh), await s.state(waiting!)],
      ["dead", "completed", "waiting"],
      "the others",
    );
  },

  "a whole dead-letter queue is tried again in steps": async (s) => {
    await s.addMany(250);
    const { jobs } = await s.claim({ max: 250 });
    await s.storage.settle(jobs.map((job) => ({ ...lease(job), to: "dead", error: ERROR })));
    const sizes: number[] = [];
    for (let size = -1; size !== 0;) {
      const where = filter({ states: ["dead"] });
      size = (await s.storage.change({ action: "retry", queue: "q", where, limit: 100 })).length;
      sizes.push(size);
    }
    equal(sizes, [100, 100, 50, 0], "the sizes of the steps");
    equal(
      await s.claimIds({ max: 1_000 }),
      jobs.map(({ id }) => id),
      "all are claimed again, in order",
    );
  },
};
