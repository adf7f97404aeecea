import { equal, ok, refused } from "../expect.ts";
import { define, rule, window } from "./limit-words.ts";
import { type Cases, retry, type Scene } from "./scene.ts";

const WAITS = { updated: true, state: "waiting" };
const SCHEDULED = { updated: true, state: "scheduled" };

/** Does this step wake up workers? */
const wakes = (s: Scene, step: () => Promise<unknown>) => s.wakes(step, { quietFirst: true });

export const updating: Cases = {
  "an update changes what it names, and nothing else": async (s) => {
    const [a, b] = await s.add({ weights: { n: 1 }, timeout: 5 }, {});
    const before = await s.get(a!);
    await s.clock.advance(10);
    const set = { data: '{"n":2}', maxAttempts: 9, backoff: { kind: "fixed", delay: 7 }, keepFor: 50 } as const;
    equal(await s.update(a, set), WAITS, "the answer");
    equal(await s.get(a!), { ...before, ...set }, "the job");
    const cleared = { weights: null, timeout: null, keepFor: null };
    equal(await s.update(a, cleared), WAITS, "the answer for what is cleared");
    equal(await s.get(a!), { ...before, ...set, ...cleared }, "the job");
    equal(await s.claimIds(), [a, b], "the order");
  },

  "a job that gets another priority takes its place by due time and age": async (s) => {
    const [a, b, c, d] = await s.add({}, { priority: 5 }, {}, { priority: 5 });
    await s.clock.advance(10);
    equal(await s.update(c, { priority: 5 }), WAITS, "the answer");
    equal(await s.claimIds(), [b, c, d, a], "the order");
  },

  "a job that gets another group takes turns with that group, and its place by due time and age": async (s) => {
    const [a, b, c, d] = await s.add({ group: "g" }, { group: "h" }, { group: "g" }, { group: "h" });
    equal(await s.update(c, { group: "h" }), WAITS, "the answer");
    equal(await s.claimIds({ max: 2 }), [a, b], "the first turns");
    equal(await s.claimIds(), [c, d], "the others");
    const [e, f] = await s.add({ group: "g" }, {});
    await s.update(e, { group: null });
    equal((await s.get(e!)).group, null, "the group");
    equal(await s.claimIds(), [e, f], "without a group");
  },

  "jobs of groups that get several priorities each take their place": async (s) => {
    const ids = await s.add(...Array.from({ length: 6 }, (_, i) => ({ group: i % 2 === 0 ? "g" : "h" })));
    await s.update(ids[5], { priority: 1 });
    await s.update(ids[4], { priority: 1 });
    equal((await s.claimIds({ max: 2 })).toSorted(), [ids[4], ids[5]], "the higher priority");
    equal(await s.claimIds({ max: 2 }), [ids[0], ids[1]], "then the others");
  },

  "a job that waits can be put off, and one that is scheduled be due now": async (s) => {
    const [a, b, c] = await s.add({}, { due: { inMs: 5_000 } }, {});
    equal(await s.update(a, { due: { inMs: 1_000 } }), SCHEDULED, "the one that waited");
    equal((await s.get(a!)).dueAt, s.clock.wall() + 1_000, "dueAt");
    await s.clock.advance(10);
    equal(await s.update(b, { due: { inMs: 0 } }), WAITS, "the one that was scheduled");
    equal((await s.get(b!)).dueAt, s.clock.wall(), "dueAt");
    equal(await s.claimIds(), [c, b], "the order: it is as if it had been added now");
    await s.clock.advance(990);
    equal(await s.claimIds(), [a], "when it is due");
  },

  "an update to an instant keeps it, and one that has passed means now": async (s) => {
    const [a, b] = await s.add({}, { due: { inMs: 5_000 } });
    const at = s.clock.wall() + 3_000;
    equal(await s.update(a, { due: { at } }), SCHEDULED, "to come");
    equal((await s.get(a!)).dueAt, at, "dueAt");
    equal(await s.update(b, { due: { at: s.clock.wall() - 1 } }), WAITS, "passed");
    equal(await s.claimIds(), [b], "who is due");
  },

  "an update of a job that backs off leaves its back-off, unless it names another due time": async (s) => {
    const [a, b, c] = await s.add({}, {}, {});
    const { jobs } = await s.claim({ max: 2 });
    await s.settle(...jobs.map((job) => retry(job, 1_000)));
    equal(await s.update(a, { priority: 1 }), SCHEDULED, "of another priority");
    equal(await s.update(b, { due: { inMs: 500 } }), SCHEDULED, "due at another time");
    await s.clock.advance(500);
    equal(await s.claimIds(), [c, b], "the one with another time, at the end");
    await s.clock.advance(500);
    equal((await s.get(a!)).dueAt, jobs[0]!.dueAt, "the old place of the other");
    equal(await s.claimIds(), [a], "the other");
  },

  "a deadline can be set and taken away": async (s) => {
    const [a, b] = await s.add({}, { deadline: { inMs: 100 } });
    await s.update(a, { deadline: { inMs: 50 } });
    await s.update(b, { deadline: null });
    equal((await s.get(a!)).deadline, s.clock.wall() + 50, "the deadline");
    await s.clock.advance(200);
    equal(await s.claimIds(), [b], "who starts");
    equal(await s.state(a!), "dead", "the other");
  },

  "a job that has come due counts as one that waits, whether or not a claim has looked": async (s) => {
    const [a, b] = await s.add({ due: { inMs: 100 } }, { due: { inMs: 100 }, group: "g" });
    await s.clock.advance(100);
    equal(await s.update(a, { priority: 2 }), WAITS, "without a group");
    equal(await s.update(b, { priority: 3, group: "h" }), WAITS, "of a group");
    equal(await s.claimIds(), [b, a], "the order");
  },

  "an update leaves a job that is active or has ended as it is, and the answer says why": async (s) => {
    const ended = [await s.ended("completed"), await s.ended("dead"), await s.ended("cancelled")];
    const active = await s.addOne();
    await s.claimOne();
    for (const [id, state] of [
      [active, "active"],
      [ended[0], "completed"],
      [ended[1], "dead"],
      [ended[2], "cancelled"],
    ] as const) {
      const before = await s.get(id!);
      equal(await s.update(id, { priority: 7, data: "1", due: { inMs: 0 } }), { updated: false, state }, state);
      equal(await s.get(id!), before, `the ${state} one`);
    }
    const missing = { updated: false, state: null };
    equal(await s.update("nobody", { priority: 7 }), missing, "one that does not exist");
    const id = await s.addOne();
    equal(await s.storage.update({ queue: "other", id, set: { priority: 7 } }), missing, "one of another queue");
  },

  "an update to what could never start is refused, and nothing is changed": async (s) => {
    await define(
      s,
      rule("k", window(10, 1_000), { weight: "n" }),
      rule("by group", window(10, 1_000), { weight: "n", byGroup: true, groups: { small: { max: 2 } } }),
    );
    const id = await s.addOne({ weights: { n: 5 } });
    const before = await s.get(id);
    for (const set of [{ weights: { n: 11 }, priority: 3 }, { group: "small" }]) {
      equal(await refused(() => s.update(id, set), JSON.stringify(set)), "SLUICE_OPTIONS", "the code");
      equal(await s.get(id), before, "the job");
    }
    equal(await s.update(id, { group: "small", weights: { n: 2 } }), WAITS, "both together");
    equal(await s.claimIds(), [id], "it starts");
  },

  "a job that is made lighter starts if it fits now, and wakes up workers": async (s) => {
    for (const group of [null, "g"]) {
      const name = `k ${group}`;
      await define(s, rule(name, window(10, 1_000), { weight: "n", types: [name] }));
      const same = { type: name, group };
      await s.add({ ...same, weights: { n: 6 } });
      await s.claimOne({ types: [name] });
      const id = await s.addOne({ ...same, weights: { n: 8 } });
      equal(await s.claimIds({ types: [name] }), [], "too heavy");
      ok(await wakes(s, () => s.update(id, { weights: { n: 4 } })), "expected workers to be woken");
      equal(await s.claimIds({ types: [name] }), [id], "lighter");
    }
  },

  "light jobs do not wait for a heavy job that was put off": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add({ weights: { n: 6 } });
    await s.claimOne();
    const [heavy, light] = await s.add({ weights: { n: 8 } }, { weights: { n: 1 } });
    equal(await s.claimIds(), [], "behind the heavy one");
    await s.update(heavy, { due: { inMs: 60_000 } });
    equal(await s.claimIds(), [light], "when it was put off");
  },

  "an update wakes up workers if the job may start now, or is due sooner": async (s) => {
    const [a, b] = await s.add({ due: { inMs: 60_000 } }, { due: { inMs: 50_000 } });
    ok(await wakes(s, () => s.update(a, { due: { inMs: 10_000 } })), "expected a job due sooner to wake workers");
    ok(await wakes(s, () => s.update(b, { due: { inMs: 0 } })), "expected a job that is due to wake workers");
    equal((await s.claim()).nextInMs! <= 10_000, true, "when to look again");
  },

  "a job that was scheduled for an instant, cancelled and retried is due now": async (s) => {
    const id = await s.addOne({ due: { at: s.clock.wall() + 60_000 } });
    await s.change("cancel", id);
    await s.change("retry", id);
    equal((await s.get(id)).dueAt, s.clock.wall(), "dueAt");
    equal(await s.claimIds(), [id], "it starts");
  },
};
