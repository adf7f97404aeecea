import type { JobEvent } from "../../core/events.ts";
import { equal, ok, refused } from "../expect.ts";
import { back, type Cases, completed, dead, ERROR, lease, limit, retry, type Scene } from "./scene.ts";

/** Does the storage wake up a subscriber of the queue when this happens? */
async function wakes(s: Scene, what: string, happens: () => Promise<unknown>): Promise<void> {
  ok(await s.wakes(happens), `expected to be woken by ${what} within a second`);
}

/** The names of the events of one queue, with what is said about them. */
function record(s: Scene, queue: string | null = "q"): { events: JobEvent[]; leave: () => void } {
  const events: JobEvent[] = [];
  const leave = s.storage.subscribe({
    queue,
    event: (event) => {
      events.push(event);
    },
  });
  return { events, leave };
}

/** The event, with only the code of an error: messages may differ. */
function withCodeOnly(event: JobEvent): unknown {
  return event.event === "dead" ? { ...event, error: event.error.code } : event;
}

export const notifying: Cases = {
  "everything that may let a job start wakes up subscribers": async (s) => {
    await wakes(s, "a job that is added", () => s.add({}));
    await wakes(s, "a job that is scheduled", () => s.add({ due: { inMs: 60_000 } }));
    const job = await s.claimOne();
    await wakes(s, "a job to be tried again", () => s.settle(retry(job)));
    const again = await s.claimOne();
    await wakes(s, "a job that is given back", () => s.settle(back(again, { inMs: 60_000 })));
    await wakes(s, "a job that is promoted", () => s.change("promote", again.id));
    await s.storage.setPaused("q", null, true);
    await wakes(s, "a queue that is resumed", () => s.storage.setPaused("q", null, false));
    await s.storage.setPaused("q", "t", true);
    await wakes(s, "a type that is resumed", () => s.storage.setPaused("q", "t", false));
    const third = await s.claimOne();
    await s.settle(dead(third));
    await wakes(s, "a job that is to run once more", () => s.change("retry", third.id));
    await s.claimOne({ leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await wakes(s, "a job whose lease ran out", () => s.storage.sweep());
  },

  "a limit that becomes available wakes up subscribers that it blocked": async (s) => {
    await s.add({}, {}, {});
    const rule = { maxExecutions: 1, windowMs: 600_000 };
    const limits = [limit("k", 1, 600_000)];
    const { token } = await s.storage.rates.tryRecordExecution("k", rule);
    equal((await s.claim({ limits })).blockedBy, "k", "blockedBy");
    await wakes(s, "a start that is cancelled", () => s.storage.rates.cancelExecution("k", token!));
    const job = await s.claimOne({ limits });
    equal((await s.claim({ limits })).blockedBy, "k", "blockedBy");
    await wakes(s, "a start that is taken back", () => s.settle(back(job, { unstarted: true })));
    await s.claimOne({ limits });
    equal((await s.claim({ limits })).blockedBy, "k", "blockedBy");
    await wakes(s, "a limit that is cleared", () => s.storage.rates.clear("k"));
    equal((await s.claim({ limits })).jobs.length, 1, "the claim after that");
  },

  "a wake-up goes to subscribers of its queue and of all queues, not to those of another queue": async (s) => {
    const woken: string[] = [];
    s.storage.subscribe({ queue: "other", wake: () => woken.push("other") });
    s.storage.subscribe({ queue: null, wake: () => woken.push("any") });
    await s.add({});
    ok(await s.notified(() => woken.includes("any")), "expected the subscriber of all queues to be woken up");
    ok(!woken.includes("other"), "expected the subscriber of another queue not to be woken up");
  },

  "a subscriber that has left is not notified": async (s) => {
    let calls = 0;
    const count = () => {
      calls += 1;
    };
    const unsubscribe = s.storage.subscribe({ queue: "q", wake: count, event: count, cancelled: count });
    unsubscribe();
    unsubscribe();
    await s.add({});
    const job = await s.claimOne();
    await s.change("cancel", job.id);
    await s.notified(() => calls > 0);
    equal(calls, 0, "how often it was called");
  },

  "subscribers are notified that an active job is to be cancelled": async (s) => {
    await s.add({}, {}, {});
    const jobs = (await s.claim({ max: 2, leaseMs: 60_000 })).jobs;
    const stopped = new Set<string>();
    const elsewhere = new Set<string>();
    s.storage.subscribe({ queue: "q", cancelled: (ids) => ids.forEach((id) => stopped.add(id)) });
    s.storage.subscribe({ queue: "other", cancelled: (ids) => ids.forEach((id) => elsewhere.add(id)) });
    const waiting = (await s.list({ states: ["waiting"] })).jobs[0]!.id;
    await s.change("cancel", jobs[0]!.id, waiting);
    ok(await s.notified(() => stopped.has(jobs[0]!.id)), "expected a request to stop within a second");
    equal([...stopped], [jobs[0]!.id], "the jobs to stop: only the active one that was asked");
    equal([...elsewhere], [], "what a subscriber of another queue receives");
  },

  "the events of jobs come to subscribers in order": async (s) => {
    const { events } = record(s);
    const of = { queue: "q", type: "t" };
    await s.add({ id: "a" }, { id: "b" });
    const [a, b] = (await s.claim({ worker: "me" })).jobs;
    await s.storage.report([{ ...lease(a!), progress: { percent: 5 }, log: ["text"] }]);
    await s.settle(completed(a!), retry(b!, 700));
    await s.clock.advance(700);
    const again = await s.claimOne({ worker: "me" });
    await s.settle(dead(again));
    const expected: JobEvent[] = [
      { event: "added", ...of, id: "a" },
      { event: "added", ...of, id: "b" },
      { event: "started", ...of, id: "a", attempt: 1, worker: "me" },
      { event: "started", ...of, id: "b", attempt: 1, worker: "me" },
      { event: "progress", ...of, id: "a", progress: { percent: 5 } },
      { event: "completed", ...of, id: "a", attempt: 1 },
      { event: "retried", ...of, id: "b", attempt: 1, inMs: 700, error: ERROR },
      { event: "started", ...of, id: "b", attempt: 2, worker: "me" },
      { event: "dead", ...of, id: "b", attempt: 2, error: ERROR },
    ];
    await s.notified(() => events.length >= expected.length);
    equal(events, expected, "the events");
  },

  "subscribers that wait for jobs are notified when they end, whatever their queue": async (s) => {
    const ended = new Set<string>();
    s.storage.subscribe({ queue: null, ended: (ids) => ids.forEach((id) => ended.add(id)) });
    await s.add({ id: "good" }, { id: "bad" }, { id: "again" });
    const [good, bad, again] = (await s.claim()).jobs;
    await s.add({ id: "other", queue: "other" }, { id: "unwanted" });
    await s.settle(completed(good!));
    await s.settle(dead(bad!), retry(again!, 60_000));
    await s.claim({ queue: "other" }).then(({ jobs }) => s.settle(completed(jobs[0]!)));
    await s.change("cancel", "unwanted");
    const all = ["good", "bad", "other", "unwanted"];
    ok(await s.notified(() => all.every((id) => ended.has(id))), "expected a notification of each end");
    ok(
      [...ended].every((id) => [...all, "again"].includes(id)),
      "expected no other notifications",
    );
  },

  "a warning about a running job is an event, and one about a job whose lease was lost is not": async (s) => {
    const { events } = record(s);
    const [id] = await s.add({});
    const old = await s.claimOne({ worker: "me" });
    await s.settle(retry(old));
    const job = await s.claimOne({ worker: "me" });
    const said = (message: string) => [{ about: "result" as const, message }];
    equal(await s.storage.report([{ ...lease(old), warnings: said("too late") }]), [id], "lost");
    await s.storage.report([{ ...lease(job), log: ["a line"], warnings: [...said("one"), ...said("two")] }]);
    await s.settle(completed(job));
    await s.notified(() => events.some(({ event }) => event === "completed"));
    const of = { event: "warning", queue: "q", type: "t", id, attempt: 2, about: "result" };
    equal(
      events.filter(({ event }) => event === "warning"),
      [
        { ...of, message: "one" },
        { ...of, message: "two" },
      ],
      "the warnings",
    );
    equal(
      (await s.storage.history(id!)).log.map(({ text }) => text),
      ["a line"],
      "the log",
    );
  },

  "cancelled jobs, stalled jobs and jobs past their deadline have events": async (s) => {
    const of = { queue: "q", type: "t" };
    await s.add({ id: "late", deadline: { inMs: 1_000 }, due: { inMs: 1_000 } });
    await s.add({ id: "twice", maxAttempts: 2 }, { id: "unwanted", priority: -1 });
    const { events } = record(s);
    await s.claimOne({ worker: "one", leaseMs: 1_000 });
    await s.change("cancel", "unwanted");
    await s.clock.advance(1_000);
    await s.sweep();
    await s.claimOne({ worker: "two", leaseMs: 1_000 });
    await s.clock.advance(1_000);
    await s.sweep();
    await s.notified(() => events.length >= 8);
    const ofOne = (id: string) => events.filter((event) => "id" in event && event.id === id).map(withCodeOnly);
    equal(ofOne("unwanted"), [{ event: "cancelled", ...of, id: "unwanted" }], "the cancelled job");
    equal(ofOne("late"), [{ event: "dead", ...of, id: "late", attempt: 0, error: "SLUICE_TIMEOUT" }], "the late job");
    equal(
      ofOne("twice"),
      [
        { event: "started", ...of, id: "twice", attempt: 1, worker: "one" },
        { event: "stalled", ...of, id: "twice", attempt: 1, worker: "one" },
        { event: "started", ...of, id: "twice", attempt: 2, worker: "two" },
        { event: "stalled", ...of, id: "twice", attempt: 2, worker: "two" },
        { event: "dead", ...of, id: "twice", attempt: 2, error: "SLUICE_STALLED" },
      ],
      "the job that stalled twice",
    );
  },

  "a job that was there already makes no second event": async (s) => {
    const job = s.job();
    await s.storage.add([job]);
    const { events } = record(s);
    await s.storage.add([job]);
    await s.settle(completed({ id: job.id, token: 99 }));
    await s.add({ id: "last" });
    await s.notified(() => events.length > 0);
    equal(events, [{ event: "added", queue: "q", type: "t", id: "last" }], "the events");
  },

  "a published event goes to subscribers of its queue and of all queues": async (s) => {
    const mine = record(s);
    const other = record(s, "other");
    const all = record(s, null);
    const event: JobEvent = { event: "drained", queue: "q", worker: "me" };
    await s.storage.publish(event);
    ok(await s.notified(() => mine.events.length > 0 && all.events.length > 0), "expected an event within a second");
    equal([mine.events, other.events, all.events], [[event], [], [event]], "the events of each subscriber");
  },

  "a subscriber that throws disturbs no other": async (s) => {
    const fail = () => {
      throw new Error("I never listen");
    };
    s.storage.subscribe({ queue: null, wake: fail, event: fail, cancelled: fail });
    let woken = 0;
    const { events } = record(s);
    s.storage.subscribe({
      queue: "q",
      wake: () => {
        woken += 1;
      },
    });
    const [id] = await s.add({});
    ok(await s.notified(() => woken > 0 && events.length > 0), "expected the other subscriber to be notified");
    equal(await s.state(id!), "waiting", "the job");
  },

  "a subscriber that is notified finds the change done, and may call the storage": async (s) => {
    const found: (string | undefined)[] = [];
    s.storage.subscribe({
      queue: "q",
      event: (event) => {
        if (event.event === "completed") void s.state(event.id).then((state) => found.push(state));
      },
    });
    await s.add({});
    await s.settle(completed(await s.claimOne()));
    await s.notified(() => found.length > 0);
    equal(found, ["completed"], "what was found");
  },

  "a closed storage refuses every call": async (s) => {
    const [id] = await s.add({});
    let wakeUps = 0;
    s.storage.subscribe({
      queue: null,
      wake: () => {
        wakeUps += 1;
      },
    });
    await s.notified(() => false);
    wakeUps = 0;
    await s.storage.close();
    await s.storage.close();
    const { storage } = s;
    const calls: Readonly<Record<string, () => unknown>> = {
      setup: () => storage.setup(),
      add: () => s.add({}),
      claim: () => s.claim(),
      settle: () => s.settle(),
      endings: () => storage.endings([]),
      heartbeat: () => storage.heartbeat([], 1_000),
      report: () => storage.report([]),
      sweep: () => storage.sweep(),
      find: () => storage.find([id!]),
      findByKey: () => storage.findByKey("q", "k"),
      history: () => storage.history(id!),
      list: () => s.list(),
      overview: () => storage.overview(),
      explain: () => storage.explain(id!),
      backlog: () => storage.backlog("q"),
      change: () => s.change("cancel", id!),
      update: () => storage.update({ queue: "q", id: id!, set: { priority: 1 } }),
      setPaused: () => storage.setPaused("q", null, true),
      subscribe: () => storage.subscribe({ queue: null }),
      publish: () => storage.publish({ event: "drained", queue: "q", worker: "w" }),
      "limits.define": () => storage.limits.define([]),
      "limits.remove": () => storage.limits.remove("k"),
      "limits.change": () => storage.limits.change("k", { paused: true }),
      "limits.history": () => storage.limits.history({ name: null, limit: 1 }),
      "limits.read": () => storage.limits.read({ name: null, group: null }),
      "limits.take": () => storage.limits.take({ name: "k", group: null, weight: 1, ttlMs: 1_000 }),
      "limits.give": () => storage.limits.give("token", "released"),
      "limits.renew": () => storage.limits.renew([], 1_000),
    };
    for (const [name, call] of Object.entries(calls)) {
      equal(await refused(call, `${name} after close`), "SLUICE_STORAGE", `the code of ${name} after close`);
    }
    equal(wakeUps, 0, "how often a subscriber was called");
  },
};
