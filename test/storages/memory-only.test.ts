import { describe, expect, it, vi } from "vitest";
import { RateLimiter } from "../../src/index.ts";
import { Heap } from "../../src/storages/memory/heap.ts";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { Lane } from "../../src/storages/memory/lanes.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { anything, limitRule, newJob } from "./jobs.ts";

function open(clock = new FakeClock()) {
  return { clock, storage: new MemoryStorage({ clock }) };
}

const clockOf = (clock: FakeClock) => ({
  wall: () => clock.wall(),
  after: (ms: number, callback: () => void) => clock.after(ms, callback),
});

const HOUR = 3_600_000;

describe("MemoryStorage alone", () => {
  it("refuses options that do not exist", () => {
    expect(() => new MemoryStorage({ clok: new FakeClock() } as never)).toThrow("did you mean `clock`?");
    expect(() => new MemoryStorage({ clock: {} } as never)).toThrow("expected `clock`");
  });

  it("is closed at the end of its block", async () => {
    let kept: MemoryStorage;
    {
      await using storage = new MemoryStorage();
      await storage.add([newJob()]);
      kept = storage;
    }
    await expect(kept.add([newJob()])).rejects.toThrow("closed");
    expect(() => kept.subscribe({ queue: null })).toThrow("closed");
  });

  it("puts no lane into a heap while groups of two priorities take turns", async () => {
    const { storage } = open();
    const add = vi.spyOn(Heap.prototype, "add");
    await storage.add(Array.from({ length: 400 }, (_, i) => newJob({ group: `g${i % 100}`, priority: i % 2 })));
    const groups: (string | null)[] = [];
    while (groups.length < 400) {
      const { jobs } = await storage.claim(anything({ max: 10 }));
      groups.push(...jobs.map(({ group }) => group));
      await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
    }
    const odd = Array.from({ length: 200 }, (_, i) => `g${(2 * i + 1) % 100}`);
    const even = Array.from({ length: 200 }, (_, i) => `g${(2 * i) % 100}`);
    expect(groups).toEqual([...odd, ...even]);
    expect(add.mock.calls.filter(([item]) => item instanceof Lane)).toEqual([]);
    add.mockRestore();
  });

  it("wakes up no worker once it is closed, whatever its limits do", async () => {
    const { storage } = open();
    await storage.add([newJob(), newJob()]);
    const limits = [{ key: "k", max: 1, windowMs: 1_000 }];
    expect((await storage.claim(anything({ limits }))).blockedBy).toBe("k");
    let woken = 0;
    storage.subscribe({ queue: null, wake: () => (woken += 1) });
    await storage.close();
    await storage.rates.clear("k");
    expect(woken).toBe(0);
  });

  it("goes by the monotonic clock, so that setting the wall clock changes only what is shown", async () => {
    const { storage, clock } = open();
    await storage.add([newJob({ id: "later", due: { inMs: 5_000 } })]);
    clock.stepWall(3_600_000);
    await storage.add([newJob({ id: "now" })]);
    clock.stepWall(-7_200_000);
    const { jobs, nextInMs } = await storage.claim(anything());
    expect(jobs.map(({ id, createdAt, startedAt }) => [id, createdAt, startedAt])).toEqual([
      ["now", clock.wall(), clock.wall()],
    ]);
    expect(nextInMs).toBe(5_000);
  });

  it("keeps its limits to the last digit of startedAt, whatever fractions the clock has", async () => {
    const { storage, clock } = open(new FakeClock(Date.UTC(2030, 0, 1) + 0.377));
    await storage.add(Array.from({ length: 400 }, () => newJob()));
    const limits = [{ key: "k", max: 3, windowMs: 33.3 }];
    const starts: number[] = [];
    for (let i = 0; i < 300; i++) {
      const { jobs, nextInMs } = await storage.claim(anything({ max: 1 + (i % 3), limits }));
      starts.push(...jobs.map(({ startedAt }) => startedAt!));
      await clock.advance(nextInMs! > 0 ? nextInMs! : 0.1 + (i % 7) / 10);
    }
    expect(starts.length).toBeGreaterThan(100);
    for (let i = 3; i < starts.length; i++) expect(starts[i]! - starts[i - 3]!).toBeGreaterThanOrEqual(33.3);
  });

  it("shares its limits with limiters in the same process, both ways", async () => {
    const { storage, clock } = open();
    await storage.add([newJob(), newJob(), newJob()]);
    const limiter = new RateLimiter(storage.rates, "k", { maxExecutions: 1, windowSizeInSeconds: 60, clock });
    const limits = [{ key: "k", max: 1, windowMs: 60_000 }];
    const [job] = (await storage.claim(anything({ max: 1, limits }))).jobs;
    let got = false;
    const permit = limiter.acquire().then((granted) => {
      got = true;
      return granted;
    });
    await clock.advance(1_000);
    expect(got).toBe(false);
    let woken = 0;
    storage.subscribe({ queue: "q", wake: () => (woken += 1) });
    const { id, token } = job!;
    await storage.settle([{ id, token, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true }]);
    await clock.advance(0);
    expect(got).toBe(true);
    expect((await storage.claim(anything({ limits }))).blockedBy).toBe("k");
    woken = 0;
    await (await permit).cancel();
    expect(woken).toBe(1);
    expect((await storage.claim(anything({ limits }))).jobs.length).toBe(1);
  });

  it("wakes up no worker by a release under a full window, though time passes while the step works", async () => {
    const clock = new FakeClock();
    let readings = 0;
    const passing = { ...clockOf(clock), now: () => clock.now() + (readings += 0.25) };
    const storage = new MemoryStorage({ clock: passing });
    await storage.limits.define([limitRule("k", { max: 2, windowMs: 60_000, concurrency: 2 })]);
    await storage.add(Array.from({ length: 3 }, () => newJob()));
    const { jobs } = await storage.claim(anything());
    expect(jobs.length).toBe(2);
    let woken = 0;
    storage.subscribe({ queue: "q", wake: (mayStart) => (woken += mayStart ? 1 : 0) });
    for (const { id, token } of jobs) {
      expect((await storage.claim(anything())).jobs).toEqual([]);
      await storage.settle([{ id, token, to: "completed", result: null }]);
    }
    expect(woken).toBe(1);
  });

  it("lets subscribers that are woken up call the storage at once", async () => {
    const { storage } = open();
    await storage.add(Array.from({ length: 6 }, () => newJob()));
    const limits = [{ key: "k", max: 2, windowMs: 60_000 }];
    const { jobs } = await storage.claim(anything({ limits }));
    expect((await storage.claim(anything({ limits }))).blockedBy).toBe("k");
    const claims: Promise<{ readonly jobs: readonly { readonly id: string }[] }>[] = [];
    storage.subscribe({ queue: "q", wake: () => claims.push(storage.claim(anything({ limits }))) });
    await storage.settle(
      jobs.map(({ id, token }) => ({
        id,
        token,
        to: "back",
        inMs: 0,
        held: false,
        error: null,
        hold: null,
        unstarted: true,
      })),
    );
    const again = (await Promise.all(claims)).flatMap((claim) => claim.jobs.map(({ id }) => id));
    expect(again).toEqual(jobs.map(({ id }) => id));
    expect((await storage.overview("q"))[0]?.counts).toMatchObject({ active: 2, waiting: 4 });
  });

  it("forgets lanes that were not used for an hour, and their turns", async () => {
    const { storage, clock } = open();
    /** Adds a job to each group, lets all of them run, and returns the order in which they started. */
    const order = async (...groups: string[]) => {
      await storage.add(groups.map((group) => newJob({ group, keepFor: 0 })));
      const { jobs } = await storage.claim(anything());
      await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
      return jobs.map(({ group }) => group).join("");
    };
    expect(await order("a", "b")).toBe("ab");
    await clock.advance(HOUR - 1);
    expect((await storage.sweep()).deleted).toBe(0);
    expect(await order("b", "a")).toBe("ab");
    await clock.advance(HOUR);
    expect((await storage.sweep()).deleted).toBe(2);
    expect(await order("b", "a")).toBe("ba");
  });

  it("deletes many jobs in small steps", async () => {
    const { storage, clock } = open();
    await storage.add(Array.from({ length: 1_200 }, () => newJob({ keepFor: 1_000, deadline: { inMs: 0 } })));
    const steps = [];
    for (let i = 0; i < 3; i++) steps.push((await storage.sweep()).more);
    expect(steps).toEqual([true, true, false]);
    await clock.advance(1_000);
    const deleted = [await storage.sweep(), await storage.sweep(), await storage.sweep(), await storage.sweep()];
    expect(deleted.map((step) => [step.deleted, step.more])).toEqual([
      [500, true],
      [500, true],
      [200, false],
      [0, false],
    ]);
    expect(await storage.overview()).toEqual([]);
  });

  it("keeps the order of a lane while many jobs leave from its middle and come back", async () => {
    const { storage, clock } = open();
    const ids = Array.from({ length: 200 }, (_, i) => `n${i}`);
    for (const id of ids) {
      await storage.add([newJob({ id })]);
      if (id.endsWith("0")) await clock.advance(1);
    }
    const { jobs } = await storage.claim(anything({ max: 150 }));
    const shuffled = jobs.toSorted((a, b) => ((a.token * 37) % 151) - ((b.token * 37) % 151));
    for (const { id, token } of shuffled) {
      await storage.settle([
        { id, token, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: false },
      ]);
      if (token % 5 === 0) await storage.change({ action: "remove", queue: "q", ids: [`n${token % 200}`] });
    }
    const left = (await storage.list({ queue: "q", ...ANY })).jobs.map(({ id }) => id).toReversed();
    expect((await storage.claim(anything({ max: 500 }))).jobs.map(({ id }) => id)).toEqual(left);
  });
});

const ANY = { states: null, type: null, group: null, since: null, until: null, limit: 1_000, cursor: null };
