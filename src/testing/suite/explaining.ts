import { explainJob } from "../../storage/explain.ts";
import type { LimitCondition, StartConditions } from "../../storage/limit-storage.ts";
import { equal, ok } from "../expect.ts";
import { BREAKER, change, count, define, rule, window } from "./limit-words.ts";
import { type Cases, completed, dead, limit, retry, type Scene } from "./scene.ts";

async function explained(s: Scene, id: string): Promise<StartConditions> {
  const found = await s.storage.explain(id);
  ok(found !== undefined, `expected an explanation of ${id}, but there is no such job`);
  return found;
}

/** How a job stands with the limit of this name. */
async function conditions(s: Scene, id: string, name: string): Promise<LimitCondition> {
  const { limits } = await explained(s, id);
  const found = limits.find((one) => one.rule.name === name);
  ok(found !== undefined, `expected ${id} to run under ${name}`);
  return found;
}

const why = async (s: Scene, id: string, name = "k") => {
  const { waitMs, reason } = await conditions(s, id, name);
  return [waitMs, reason];
};

/** Numbers that look random, and are the same in every run. */
function numbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return 1 + (Math.floor(state / 1_024) % most);
  };
}

/** What `earliest` says of every job that waits, and when it really starts, if a worker always asks for these types. */
async function promisedAndReal(
  s: Scene,
  types: readonly string[] | null,
): Promise<(readonly [string, number, number])[]> {
  const began = s.clock.wall();
  const promised = new Map<string, number>();
  for (const { id } of (await s.list({ states: ["waiting"] })).jobs) {
    const { earliest } = explainJob(await explained(s, id));
    ok(earliest !== undefined, `expected an earliest start of ${id}`);
    promised.set(id, earliest.getTime() - began);
  }
  const real = new Map<string, number>();
  for (let i = 0; i < 1_000; i++) {
    const { jobs, more, nextInMs } = await s.claim({ types });
    for (const { id } of jobs) real.set(id, s.clock.wall() - began);
    if (jobs.length > 0) await s.settle(...jobs.map((job) => completed(job)));
    if (more) continue;
    if (nextInMs === null) break;
    await s.clock.advance(nextInMs);
  }
  return [...promised].flatMap(([id, at]) => (real.has(id) ? [[id, at, real.get(id)!] as const] : []));
}

/** Nothing waits, and there are no limits. */
async function clear(s: Scene): Promise<void> {
  await s.change("remove", ...(await s.list({ states: ["waiting"] })).jobs.map(({ id }) => id));
  for (const { rule: one } of await s.storage.limits.read({ name: null, group: null })) {
    await s.storage.limits.remove(one.name);
  }
}

/** The queue is one priority and type, under one window, some of which is in use; groups have had their turn, or not. */
async function saturated(s: Scene, seed: number): Promise<void> {
  const any = numbers(seed);
  await define(s, rule("k", window(any(3), 1_000)));
  for (let i = any(4); i > 0; i--) await s.add({ group: `g${any(5)}` });
  await s.claim({ max: any(3) });
  await s.clock.advance(any(9) * 100);
  await s.claim({ max: any(2) });
  for (let group = any(5); group > 0; group--) await s.addMany(any(5), { group: `g${group}` });
  await s.addMany(any(3));
}

export const explaining: Cases = {
  "the explanation of a runnable job has no blocker": async (s) => {
    const id = await s.addOne();
    await s.clock.advance(50);
    const { job, now, queuePaused, typePaused, ahead, limits } = await explained(s, id);
    equal(
      { job, now, queuePaused, typePaused, ahead, limits },
      {
        job: await s.get(id),
        now: s.clock.wall(),
        queuePaused: false,
        typePaused: false,
        ahead: { higher: 0, group: 0, lane: 0, turns: 0 },
        limits: [],
      },
      "the explanation",
    );
    equal(await s.storage.explain("nobody"), undefined, "a job that does not exist");
  },

  "an explanation names the pauses of the queue and of the type": async (s) => {
    const [a, b] = await s.add({ type: "a" }, { type: "b" });
    await s.storage.setPaused("q", "a", true);
    equal([(await explained(s, a!)).typePaused, (await explained(s, b!)).typePaused], [true, false], "the type");
    await s.storage.setPaused("q", null, true);
    equal([(await explained(s, a!)).queuePaused, (await explained(s, b!)).queuePaused], [true, true], "the queue");
  },

  "an explanation counts the jobs before it, of a higher priority and of its own priority and group": async (s) => {
    await s.add({ priority: 9 }, { priority: 7, group: "x" }, { priority: 5, group: "g" }, { priority: 5, group: "h" });
    await s.add({ priority: 5, group: "g", type: "u" }, { priority: 5, group: "g", due: { inMs: 99 } });
    const id = await s.addOne({ priority: 5, group: "g" });
    await s.add({ priority: 5, group: "g" }, { priority: 4 }, { priority: 9, queue: "other" });
    equal((await explained(s, id)).ahead, { higher: 2, group: 2, lane: 1, turns: 1 }, "ahead");
  },

  "a job that backs off counts at its old place, before it is due again and after": async (s) => {
    const [a, b, c] = await s.add({ group: "g" }, { group: "g" }, { group: "g" });
    const group = async (id: string | undefined) => (await explained(s, id!)).ahead.group;
    await s.settle(retry(await s.claimOne(), 500));
    equal([await group(a), await group(b), await group(c)], [0, 0, 1], "while it backs off");
    await s.clock.advance(500);
    equal([await group(a), await group(b), await group(c)], [0, 1, 2], "when it is due again");
  },

  "an explanation shows every limit that applies to the job, and no other": async (s) => {
    await define(
      s,
      rule("a", window(5, 1_000), { types: ["t"] }),
      rule("b", window(5, 1_000), { types: ["u"] }),
      rule("c", { concurrency: 3 }, { queues: ["q"], byGroup: true }),
      rule("d", window(9, 1_000), { queues: ["r"] }),
      rule("e", window(50, 1_000), { weight: "n", estimate: 7 }),
    );
    const [id, alone] = await s.add({ group: "g" }, { weights: { n: 9 } });
    const shown = async (of: string) =>
      (await explained(s, of)).limits.map(({ rule: one, group, weight }) => [one.name, group, weight]);
    equal(
      await shown(id!),
      [
        ["a", null, 1],
        ["c", "g", 1],
        ["e", null, 7],
      ],
      "one with a group",
    );
    equal(
      await shown(alone!),
      [
        ["a", null, 1],
        ["c", null, 1],
        ["e", null, 9],
      ],
      "one without",
    );
  },

  "an explanation of a full window says what is used, and when the job fits": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(2);
    await s.claim();
    const id = await s.addOne();
    await s.clock.advance(300);
    const { used, held, waitMs, reason, most } = await conditions(s, id, "k");
    equal(
      { used, held, waitMs, reason, most },
      { used: 2, held: 0, waitMs: 700, reason: "window", most: null },
      "full",
    );
    await s.clock.advance(700);
    equal(await why(s, id), [0, null], "when it fits");
    equal(await s.claimIds(), [id], "what a claim does then");
  },

  "the earliest start of a job behind others of its lane is after theirs, each as soon as it can": async (s) => {
    await define(s, rule("k", window(2, 1_000)), rule("spaced", { everyMs: 100 }, { types: ["u"] }));
    await s.addMany(2);
    await s.claim();
    await s.clock.advance(300);
    const ids = await s.addMany(5);
    const waits: unknown[] = [];
    for (const id of ids) waits.push((await why(s, id))[0]);
    equal(waits, [700, 700, 1_700, 1_700, 2_700], "how long each waits");
    let last = 0;
    for (const [i, wait] of [700, 700, 1_700, 1_700, 2_700].entries()) {
      await s.clock.advance(wait - last);
      last = wait;
      equal(await s.claimIds({ max: 1 }), [ids[i]], `who starts after ${wait}`);
    }
    const spaced = await s.addMany(3, { type: "u" });
    await s.clock.advance(5_000);
    equal(
      [await why(s, spaced[0]!, "spaced"), await why(s, spaced[2]!, "spaced")],
      [
        [0, null],
        [200, "spacing"],
      ],
      "spacing",
    );
  },

  "an explanation says when a heavy job fits, by its weight": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add({ weights: { n: 4 } });
    await s.claim();
    await s.clock.advance(400);
    await s.add({ weights: { n: 5 } });
    await s.claim();
    const [light, heavy, heavier] = await s.add({ weights: { n: 1 } }, { weights: { n: 5 } }, { weights: { n: 6 } });
    equal(
      [await why(s, light!), await why(s, heavy!), await why(s, heavier!)],
      [
        [0, null],
        [600, "window"],
        [1_000, "window"],
      ],
      "waits",
    );
  },

  "an explanation names spacing and concurrency, with the slots in use": async (s) => {
    await define(s, rule("spaced", { everyMs: 500 }), rule("slots", { concurrency: 1 }));
    const [, id] = await s.add({}, {});
    const job = await s.claimOne();
    await s.clock.advance(200);
    equal(
      [await why(s, id!, "spaced"), await why(s, id!, "slots")],
      [
        [300, "spacing"],
        [null, "concurrency"],
      ],
      "waits",
    );
    equal((await conditions(s, id!, "slots")).held, 1, "what is held");
    await s.settle(completed(job));
    equal(await why(s, id!, "slots"), [0, null], "when it was given back");
    await s.storage.limits.take({ name: "slots", group: null, weight: null, ttlMs: 900 });
    equal(await why(s, id!, "slots"), [900, "concurrency"], "held outside the queue");
  },

  "an explanation names a paused limit, a hold, a service that has nothing left, and an open breaker": async (s) => {
    await define(
      s,
      rule("paused", window(9, 1_000)),
      rule("held", window(9, 1_000)),
      rule("reported", window(9, 1_000)),
      rule("broken", window(9, 1_000), { breaker: { ...BREAKER, failures: 1 } }),
    );
    const [, id] = await s.add({}, {});
    await s.settle(dead(await s.claimOne()));
    await change(s, "paused", { paused: true });
    await change(s, "held", { holdMs: 400, group: null });
    await change(s, "reported", { remaining: 0, resetMs: 600, group: null });
    await s.clock.advance(100);
    const { limits } = await explained(s, id!);
    equal(
      limits.map(({ rule: one, waitMs, reason }) => [one.name, waitMs, reason]),
      [
        ["broken", 900, "breaker"],
        ["held", 300, "held"],
        ["paused", null, "paused"],
        ["reported", 500, "remaining"],
      ],
      "the limits",
    );
  },

  "an explanation goes by the group of the job, not by another": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    const [, , b] = await s.add({ group: "a" }, { group: "a" }, { group: "b" });
    await s.claim({ max: 1 });
    const [left] = (await s.list({ group: "a", states: ["waiting"] })).jobs;
    equal(
      [await why(s, left!.id), await why(s, b!)],
      [
        [1_000, "window"],
        [0, null],
      ],
      "waits",
    );
  },

  "an explanation says that a weight can never fit": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    const id = await s.addOne({ weights: { n: 8 } });
    await change(s, "k", { quota: { max: 5 }, group: null });
    equal((await conditions(s, id, "k")).most, 5, "the most that fits");
  },

  "an explanation names the limit that the latest claim of the queue brought along": async (s) => {
    const ids = await s.addMany(3);
    await s.claim({ max: 1, limits: [limit("queue:q", 1, 1_000)] });
    await s.clock.advance(100);
    const { used, waitMs, reason } = await conditions(s, ids[1]!, "queue:q");
    equal({ used, waitMs, reason }, { used: 1, waitMs: 900, reason: "window" }, "the limit");
    ok(
      (await s.storage.backlog("q")).limits.some((one) => one.rule.name === "queue:q"),
      "expected it in the backlog",
    );
  },

  "an explanation charges nothing": async (s) => {
    await define(s, rule("k", { ...window(1, 1_000), concurrency: 1, everyMs: 5 }));
    const id = await s.addOne();
    for (let i = 0; i < 3; i++) {
      await s.storage.explain(id);
      await s.storage.backlog("q");
    }
    equal(await count(s), 1, "how many start");
  },

  "an explanation counts jobs of other groups that have their turn before": async (s) => {
    await s.addMany(5, { group: "a" });
    await s.add({ group: "b" });
    const own = await s.addMany(4, { group: "c" });
    await s.add({ group: "d", priority: -1 }, { group: "e", queue: "other" });
    const turns = async (id: string) => (await explained(s, id)).ahead.turns;
    equal([await turns(own[0]!), await turns(own[2]!), await turns(own[3]!)], [2, 4, 5], "of other groups");
    const order = await s.claimIds({ max: 9 });
    equal([order.indexOf(own[0]!), order.indexOf(own[2]!)], [2, 6], "what a claim does");
    await s.addMany(3, { queue: "mixed", group: "a" });
    const [, last] = await s.add({ queue: "mixed", group: "c", type: "u" }, { queue: "mixed", group: "c" });
    equal(await turns(last!), 2, "behind one of another type");
    equal((await s.claimIds({ queue: "mixed" })).indexOf(last!), 3, "what a claim does then");
  },

  "earliest counts other groups that have their turn before": async (s) => {
    await define(s, rule("k", window(1, 1_000)));
    await s.addMany(1);
    await s.claim();
    await s.clock.advance(1);
    const ids = await s.add({ group: "a" }, { group: "b" }, { group: "c" }, { group: "d" });
    equal(
      await Promise.all(ids.map(async (id) => (await why(s, id))[0])),
      [999, 1_999, 2_999, 3_999],
      "how long each waits",
    );
  },

  "earliest is when a job starts, where one window and turns decide and workers ask for all": async (s) => {
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      await saturated(s, seed);
      for (const [id, promised, real] of await promisedAndReal(s, null)) {
        // Dates have whole milliseconds.
        ok(
          Math.abs(real - promised) <= 1,
          `seed ${seed}, job ${id}: promised after ${promised} ms, started after ${real}`,
        );
      }
      await clear(s);
    }
  },

  "earliest is never later than the start, whatever priorities, types, weights and limits by group there are": async (
    s,
  ) => {
    for (const seed of [1, 2, 3, 4, 5, 6, 30]) {
      const any = numbers(seed);
      await define(
        s,
        rule("all", window(any(3), 1_000), { queues: ["q"] }),
        rule("some", { everyMs: 100 * any(4) }, { types: ["a"] }),
        ...(seed % 2 === 0 ? [rule("own", window(any(2), 5_000), { byGroup: true, types: ["b"] })] : []),
        ...(seed % 3 === 0 ? [rule("weighed", window(10, 2_000), { weight: "n" })] : []),
      );
      for (let i = 0; i < 24; i++) {
        const said = { type: any(2) === 1 ? "a" : "b", priority: any(2), weights: { n: any(8) } };
        await s.add(any(3) === 1 ? said : { ...said, group: `g${any(3)}` });
        if (i === 4) await s.claim({ max: 2 });
      }
      await s.clock.advance(any(9) * 50);
      const types = [["a"], ["b"], null][seed % 3]!;
      for (const [id, promised, real] of await promisedAndReal(s, types)) {
        ok(promised <= real + 1, `seed ${seed}, job ${id}: promised after ${promised} ms, started after ${real}`);
      }
      await clear(s);
    }
  },

  "jobs whose group is full do not count as having their turn before": async (s) => {
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    await s.addMany(3, { group: "a" });
    equal([await count(s), await count(s)], [1, 0], "who starts");
    const id = await s.addOne({ group: "b" });
    equal((await explained(s, id)).ahead.turns, 0, "ahead of another group");
  },

  "jobs of paused types do not count as having their turn before": async (s) => {
    await s.add({ group: "a", type: "u" }, { group: "b", type: "u" });
    const id = await s.addOne({ group: "c" });
    equal((await explained(s, id)).ahead.turns, 2, "before the pause");
    await s.storage.setPaused("q", "u", true);
    equal((await explained(s, id)).ahead.turns, 0, "while the type is paused");
  },

  "a group is not certain to start jobs of a type first while jobs of other types wait in it for a limit": async (
    s,
  ) => {
    await define(
      s,
      rule("k", window(1, 1_000), { types: ["t"] }),
      rule("slots", { concurrency: 1 }, { byGroup: true, types: ["u"] }),
    );
    await s.add({});
    await s.claim();
    const [running, waiting] = await s.add({ type: "u", group: "b" }, { type: "u", group: "b" });
    const [lease] = (await s.claim()).jobs;
    equal(lease?.id, running, "the job that runs");
    await s.add({ type: "u", group: "a" });
    equal(await count(s), 1, "the other group has had its turn since");
    await s.add({ group: "b" });
    const own = await s.addOne({ group: "a" });
    equal(await why(s, own), [1_000, "window"], "its earliest start");
    await s.clock.advance(1_000);
    await s.settle(completed(lease!));
    equal(await s.claimIds(), [waiting, own], "when the window opens");
  },

  "the earliest start of a light job is after that of a heavy job before it": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "n" }));
    await s.add({ weights: { n: 5 } });
    await s.claim();
    await s.clock.advance(100);
    const [heavy, behind] = await s.add({ weights: { n: 8 } }, { weights: { n: 1 } });
    equal(await why(s, behind!), [900, "window"], "in its lane, before any claim");
    await s.claim();
    const other = await s.addOne({ weights: { n: 1 }, type: "u" });
    const higher = await s.addOne({ weights: { n: 1 }, type: "u", priority: 1 });
    equal(
      [await why(s, heavy!), await why(s, behind!), await why(s, other), await why(s, higher)],
      [
        [900, "window"],
        [900, "window"],
        [900, "window"],
        [0, null],
      ],
      "when a claim has looked",
    );
  },
};
