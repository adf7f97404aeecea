import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { JobRecord } from "../../src/core/job.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import type { Outcome } from "../../src/storage/job-storage.ts";
import { Gates } from "../../src/storages/memory/gates.ts";
import { Heap } from "../../src/storages/memory/heap.ts";
import { Gate } from "../../src/storages/memory/lanes.ts";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { anything, limitRule, newJob } from "./jobs.ts";

async function open(...rules: readonly LimitRule[]) {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  await storage.limits.define(rules);
  return { clock, storage };
}

const completed = ({ id, token }: JobRecord) => ({ id, token, to: "completed" as const, result: null });

const unstarted = ({ id, token }: JobRecord): Outcome => {
  return { id, token, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true };
};

const groupsOf = async (storage: MemoryStorage, name: string) =>
  (await storage.limits.read({ name, group: null }))[0]!.groups;

const BY_GROUP = { byGroup: true } as const;

describe("limits of MemoryStorage: full limits", () => {
  it("does not visit the jobs of a full group, nor the lanes that are blocked", { timeout: 30_000 }, async () => {
    const groups = { large: { max: 1 }, new: { max: 1 } };
    const { storage, clock } = await open(limitRule("tenant", { max: 0, windowMs: 60_000 }, { ...BY_GROUP, groups }));
    await storage.add(Array.from({ length: 10_000 }, () => newJob({ group: "large", priority: 1 })));
    await storage.add(Array.from({ length: 100_000 }, (_, i) => newJob({ group: `g${i}` })));
    let started = 0;
    for (let more = true; more;) {
      const claim = await storage.claim(anything());
      started += claim.jobs.length;
      more = claim.more;
    }
    expect(started).toBe(1);
    await clock.advance(1_000);
    await storage.add([newJob({ id: "free", group: "new" })]);
    const blocks = vi.spyOn(Gates.prototype, "block");
    const unblocks = vi.spyOn(Gate.prototype, "open");
    const moves = vi.spyOn(Heap.prototype, "add");
    const { jobs, nextInMs, blockedBy } = await storage.claim(anything({ max: 2 }));
    expect(jobs.map(({ id }) => id)).toEqual(["free"]);
    expect([nextInMs, blockedBy]).toEqual([59_000, "tenant[large]"]);
    expect([blocks.mock.calls.length, unblocks.mock.calls.length]).toEqual([0, 0]);
    // The group among those that may be forgotten one day.
    expect(moves.mock.calls.length).toBe(1);
    for (const spy of [blocks, unblocks, moves]) spy.mockRestore();
  });

  it("looks, in the same claim, at jobs that waited only for a heavy job that starts", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 10, windowMs: 1_000 }, { weight: "n" }));
    const add = (type: string, n: number) => storage.add([newJob({ id: `${type} ${n}`, type, weights: { n } })]);
    const claim = (types: readonly string[] | null) => storage.claim(anything({ types }));
    await add("first", 6);
    await claim(null);
    await add("heavy", 8);
    await add("light", 1);
    expect((await claim(["heavy"])).nextInMs).toBe(1_000);
    await clock.advance(1_000);
    expect((await claim(["light"])).nextInMs).toBe(100);
    await clock.advance(50);
    const { jobs, more, nextInMs } = await claim(null);
    expect([jobs.map(({ id }) => id), more, nextInMs]).toEqual([["heavy 8", "light 1"], false, null]);
  });

  it("looks at a lane again when something of its group is released, and at no other", async () => {
    const { storage } = await open(limitRule("tenant", { concurrency: 1 }, BY_GROUP));
    const groups = ["a", "b", "c"];
    await storage.add([...groups, ...groups].map((group) => newJob({ group })));
    const { jobs } = await storage.claim(anything());
    expect(jobs.length).toBe(3);
    const opened = vi.spyOn(Gate.prototype, "open");
    const next = await storage.claim(anything({ settle: [completed(jobs[1]!)] }));
    expect(next.jobs.map(({ group }) => group)).toEqual(["b"]);
    expect(opened.mock.contexts.map((gate) => (gate as Gate).key?.group)).toEqual(["b"]);
    opened.mockRestore();
  });

  it("asks as little for many lanes at a key that weighs jobs as for a few, when something is given back", async () => {
    const tenant = { byGroup: true, by: ["tenant"], weight: "n" } as const;
    const counts: number[][] = [];
    for (const lanes of [20, 2_000]) {
      const { storage } = await open(limitRule("tenant", { concurrency: 10 }, tenant));
      const of = (i: number) => ({ keys: { tenant: "t", doc: `${i}` }, weights: { n: 9 } });
      await storage.add(Array.from({ length: lanes }, (_, i) => newJob(of(i))));
      let [running] = (await storage.claim(anything({ max: 10 }))).jobs;
      while ((await storage.claim(anything({ max: 10 }))).more);
      const opened = vi.spyOn(Gate.prototype, "open");
      const blocked = vi.spyOn(Gates.prototype, "block");
      for (let i = 0; i < 5; i++) {
        const { jobs, more } = await storage.claim(anything({ max: 10, settle: [completed(running!)] }));
        expect([jobs.length, more]).toEqual([1, false]);
        [running] = jobs;
      }
      counts.push([opened, blocked].map(({ mock }) => mock.calls.length));
      for (const spy of [opened, blocked]) spy.mockRestore();
    }
    expect(counts[1]).toEqual(counts[0]);
  });

  it("does not make all lanes ready at once that become ready at one instant", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 1, windowMs: 1_000 }, BY_GROUP));
    await storage.add(Array.from({ length: 6_000 }, (_, i) => newJob({ group: `g${i % 3_000}` })));
    const start = async (max: number) => {
      let started = 0;
      for (let more = true; more;) {
        const claim = await storage.claim(anything({ max }));
        started += claim.jobs.length;
        more = claim.more;
      }
      return started;
    };
    expect(await start(10_000)).toBe(3_000);
    await clock.advance(1_000);
    const unblocks = vi.spyOn(Gate.prototype, "open");
    expect((await storage.claim(anything({ max: 10 }))).jobs.length).toBe(10);
    expect(unblocks.mock.calls.length).toBe(1_000);
    unblocks.mockRestore();
    expect(await start(10_000)).toBe(2_990);
  });

  it("looks at a lane again when its first job is another", async () => {
    const { storage } = await open(limitRule("tokens", { max: 10, windowMs: 60_000 }, { ...BY_GROUP, weight: "t" }));
    await storage.add([8, 5, 1].map((t, i) => newJob({ id: `n${i}`, group: "g", weights: { t } })));
    expect((await storage.claim(anything())).jobs.map(({ id }) => id)).toEqual(["n0"]);
    let mayStarts = 0;
    storage.subscribe({ queue: "q", wake: (mayStart) => (mayStarts += mayStart ? 1 : 0) });
    await storage.change({ action: "remove", queue: "q", ids: ["n1"] });
    expect(mayStarts).toBe(1);
    expect((await storage.claim(anything())).jobs.map(({ id }) => id)).toEqual(["n2"]);
  });
});

describe("limits of MemoryStorage: idle groups", () => {
  it("forgets a group as soon as nothing of it counts any more", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 5, windowMs: 1_000, everyMs: 10 }, BY_GROUP));
    await storage.add(["a", "b", "b"].map((group) => newJob({ group })));
    await storage.claim(anything());
    await clock.advance(500);
    await storage.claim(anything());
    await storage.sweep();
    expect(await groupsOf(storage, "k")).toBe(2);
    await clock.advance(500);
    expect((await storage.sweep()).deleted).toBe(1);
    expect(await groupsOf(storage, "k")).toBe(1);
    await clock.advance(499);
    await storage.sweep();
    expect(await groupsOf(storage, "k")).toBe(1);
    await clock.advance(1);
    await storage.sweep();
    expect(await groupsOf(storage, "k")).toBe(0);
  });

  it("keeps the limit state of a group while slots are in use, it is held, an amount remains or failures are counted", async () => {
    const breaker = { failures: 3, openMs: 1_000, probes: 1, kinds: null };
    const { storage, clock } = await open(limitRule("k", { concurrency: 5 }, { ...BY_GROUP, breaker }));
    await storage.add(["a", "b"].map((group) => newJob({ group })));
    const [a, b] = (await storage.claim(anything({ leaseMs: 1_000_000 }))).jobs;
    await storage.limits.change("k", { holdMs: 100_000, group: "c" });
    await storage.limits.change("k", { remaining: 1, resetMs: 200_000, group: "d" });
    const taken = await storage.limits.take({ name: "k", group: "e", weight: null, ttlMs: 150_000 });
    expect(taken.granted).toBe(true);
    const left = async () => {
      await storage.sweep();
      return new Set((await storage.limits.read({ name: "k", group: null }))[0]!.states.map(({ group }) => group));
    };
    await clock.advance(99_999);
    expect(await left()).toEqual(new Set(["a", "b", "c", "d", "e"]));
    await clock.advance(1);
    expect(await left()).toEqual(new Set(["a", "b", "d", "e"]));
    const { id, token } = b!;
    await storage.settle([completed(a!), { id, token, to: "retry", inMs: 0, error: { name: "E", message: "" } }]);
    await clock.advance(50_000);
    expect(await left()).toEqual(new Set(["b", "d"]));
    await clock.advance(50_000);
    expect(await left()).toEqual(new Set(["b"]));
    await storage.settle((await storage.claim(anything())).jobs.map(completed));
    await clock.advance(60_000);
    expect(await left()).toEqual(new Set([]));
  });

  it("charges what a long job used when nothing else of its group counts", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 10, windowMs: 1_000 }, { ...BY_GROUP, weight: "t" }));
    await storage.add([newJob({ group: "g", weights: { t: 2 } })]);
    const [job] = (await storage.claim(anything())).jobs;
    await clock.advance(5_000);
    await storage.sweep();
    await storage.report([{ id: job!.id, token: job!.token, weights: { t: 7 } }]);
    const used = async () => (await storage.limits.read({ name: "k", group: "g" }))[0]!.states[0]!.used;
    expect(await used()).toBe(5);
    await storage.settle([completed(job!)]);
    await clock.advance(1_000);
    await storage.sweep();
    expect([await used(), await groupsOf(storage, "k")]).toEqual([0, 0]);
  });

  it("forgets many groups in small steps, and stores nothing for a group that is only read", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 1, windowMs: 1_000 }, BY_GROUP));
    await storage.add(Array.from({ length: 1_200 }, (_, i) => newJob({ group: `g${i}`, keepFor: 0 })));
    const jobs = (await storage.claim(anything({ max: 2_000 }))).jobs;
    await storage.settle(jobs.map(completed));
    await storage.limits.change("k", { paused: true });
    await storage.limits.take({ name: "k", group: "asked", weight: null, ttlMs: 1_000 });
    await storage.limits.read({ name: "k", group: "read" });
    expect(await groupsOf(storage, "k")).toBe(1_200);
    await clock.advance(1_000);
    const steps = [await storage.sweep(), await storage.sweep(), await storage.sweep()];
    expect(steps.map(({ deleted, more }) => [deleted, more])).toEqual([
      [500, true],
      [500, true],
      [200, false],
    ]);
    expect(await groupsOf(storage, "k")).toBe(0);
  });

  it("keeps a group for which a lane waits", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 0, windowMs: 1_000 }, BY_GROUP));
    await storage.add([newJob({ group: "g" })]);
    expect((await storage.claim(anything())).blockedBy).toBe("k[g]");
    await clock.advance(10_000);
    await storage.sweep();
    await storage.limits.change("k", { quota: { max: 1 }, group: null });
    expect((await storage.claim(anything())).jobs.length).toBe(1);
  });
});

describe("limits of MemoryStorage: beside `rates`", () => {
  it("has one hold for a limit, whichever call sets it", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 5, windowMs: 1_000 }));
    await storage.add([newJob()]);
    await storage.limits.change("k", { holdMs: 700, group: null });
    expect(await storage.rates.getNextAvailableTime("k")).toBe(new Date(clock.wall() + 700).toISOString());
    await storage.rates.setNextAvailableTime("k", new Date(clock.wall() + 900).toISOString());
    expect((await storage.claim(anything())).nextInMs).toBe(900);
    await storage.limits.change("k", { paused: false });
    expect(await storage.rates.getNextAvailableTime("k")).toBeUndefined();
    expect((await storage.claim(anything())).jobs.length).toBe(1);
  });

  it("counts a start once where a claim brings along a limit of the same name", async () => {
    const { storage } = await open(limitRule("k", { max: 3, windowMs: 1_000 }));
    await storage.add([newJob(), newJob(), newJob(), newJob()]);
    const { jobs } = await storage.claim(anything({ limits: [{ key: "k", max: 2, windowMs: 1_000 }] }));
    expect(jobs.length).toBe(2);
    expect((await storage.limits.read({ name: "k", group: null }))[0]!.states[0]!.used).toBe(2);
  });

  it("is a limiter for code outside of the queue, by its own clock", async () => {
    const { storage, clock } = await open(limitRule("gpu", { concurrency: 1 }));
    await storage.add([newJob()]);
    const limiter = storage.limiter("gpu");
    const permit = await limiter.acquire();
    expect((await storage.claim(anything())).blockedBy).toBe("gpu");
    await permit.release();
    const { jobs } = await storage.claim(anything());
    expect(jobs.length).toBe(1);
    let got = false;
    const second = limiter.acquire().then((granted) => {
      got = true;
      return granted;
    });
    await clock.advance(100);
    expect(got).toBe(false);
    await storage.settle(jobs.map(completed));
    await clock.advance(100);
    expect(got).toBe(true);
    await (await second).release();
  });
});

const QUOTAS: readonly LimitRule["quota"][] = [
  { max: 2, windowMs: 70, concurrency: null, everyMs: null },
  { max: 3, windowMs: 101, concurrency: 4, everyMs: null },
  { max: null, windowMs: null, concurrency: 2, everyMs: null },
  { max: null, windowMs: null, concurrency: null, everyMs: 13 },
];

const arbitraryRule = fc.record({
  quota: fc.constantFrom(...QUOTAS),
  types: fc.option(fc.subarray(["a", "b", "c"], { minLength: 1 })),
  byGroup: fc.boolean(),
});

const act = fc.oneof(
  fc.record({
    do: fc.constant("add" as const),
    jobs: fc.array(fc.tuple(fc.nat(2), fc.nat(2), fc.nat(1)), { maxLength: 8 }),
  }),
  fc.record({ do: fc.constant("claim" as const), max: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ do: fc.constant("settle" as const), count: fc.nat(4), back: fc.boolean() }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(0, 1, 12, 13, 40, 70, 101) }),
  fc.record({ do: fc.constant("change" as const), limit: fc.nat(2), max: fc.integer({ min: 1, max: 4 }) }),
);

describe("limits of MemoryStorage: no waste", () => {
  it("starts every job that could start, and names the instant at which the next one can", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(arbitraryRule, { minLength: 1, maxLength: 3 }),
        fc.array(act, { minLength: 1, maxLength: 40, size: "max" }),
        async (rules, acts) => {
          const { storage, clock } = await open(
            ...rules.map(({ quota, ...said }, i) => limitRule(`k${i}`, quota, said)),
          );
          const active: JobRecord[] = [];
          for (const one of acts) {
            if (one.do === "add") {
              const jobs = one.jobs.map(([type, group, priority]) =>
                newJob({ type: "abc"[type]!, group: [null, "g", "h"][group]!, priority }),
              );
              await storage.add(jobs);
            } else if (one.do === "wait") {
              await clock.advance(one.ms);
            } else if (one.do === "settle") {
              const ended = active.splice(0, one.count);
              await storage.settle(ended.map(one.back ? unstarted : completed));
            } else if (one.do === "change") {
              const name = `k${one.limit % rules.length}`;
              const { max, concurrency } = rules[one.limit % rules.length]!.quota;
              const quota = max !== null ? { max: one.max } : concurrency !== null ? { concurrency: one.max } : {};
              await storage.limits.change(name, { quota, group: null });
            } else {
              const claim = await storage.claim(anything({ max: one.max }));
              active.push(...claim.jobs);
              const next = await nextIn(storage);
              const answered = claim.nextInMs ?? Number.POSITIVE_INFINITY;
              expect(claim.more).toBe(next === 0);
              // Of the two waits of a lane of one group, the one that was known may turn out later in the claim to be the shorter one.
              if (rules.filter(({ byGroup }) => byGroup).length < 2) expect(answered).toBe(next);
              else expect(answered).toBeLessThanOrEqual(next);
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

/** When is the first of the waiting jobs able to start? Found by asking for each of them. */
async function nextIn(storage: MemoryStorage): Promise<number> {
  const all = { type: null, group: null, since: null, until: null, limit: 1_000, cursor: null };
  const { jobs } = await storage.list({ queue: "q", states: ["waiting"], ...all });
  let next = Number.POSITIVE_INFINITY;
  for (const { id } of jobs) {
    const { limits } = (await storage.explain(id))!;
    next = Math.min(next, Math.max(0, ...limits.map(({ waitMs }) => waitMs ?? Number.POSITIVE_INFINITY)));
  }
  return next;
}

describe("limits of MemoryStorage: gates", () => {
  it(
    "opens one gate for a key, however many lanes wait for it, and moves none of them",
    { timeout: 30_000 },
    async () => {
      const { storage } = await open(limitRule("model", { concurrency: 1 }, { ...BY_GROUP, by: ["model"] }));
      const keys = { model: "large" };
      await storage.add(Array.from({ length: 10_000 }, (_, i) => newJob({ group: `g${i}`, keys })));
      const [running] = (await storage.claim(anything())).jobs;
      // Each lane is looked at once, and stands at the gate from then on.
      while ((await storage.claim(anything())).more);
      const opened = vi.spyOn(Gate.prototype, "open");
      const entered = vi.spyOn(Gate.prototype, "enter");
      const next = await storage.claim(anything({ settle: [completed(running!)] }));
      expect([next.jobs.length, next.more]).toEqual([1, false]);
      expect([opened.mock.calls.length, entered.mock.calls.length]).toEqual([1, 0]);
      for (const spy of [opened, entered]) spy.mockRestore();
    },
  );

  it("lets a heavy job start first when it fits, though other groups of its priority had their turn longer ago", async () => {
    const { storage, clock } = await open(limitRule("k", { max: 10, windowMs: 1_000 }, { weight: "n" }));
    const add = (id: string, group: string, n: number) => storage.add([newJob({ id, group, weights: { n } })]);
    const ids = async () => (await storage.claim(anything())).jobs.map(({ id }) => id).join(" ");
    await add("h1", "h", 1);
    expect(await ids()).toBe("h1");
    await add("g1", "g", 5);
    expect(await ids()).toBe("g1");
    await add("heavy", "g", 9);
    expect(await ids()).toBe("");
    for (let i = 0; i < 5; i++) await add(`light${i}`, "h", 2);
    await clock.advance(1_000);
    expect(await ids()).toBe("heavy");
  });
});
