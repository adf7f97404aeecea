import { expect, test } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { anything, limitRule, newJob } from "./jobs.ts";

const STORAGES = {
  MemoryStorage: (clock: FakeClock) => new MemoryStorage({ clock }),
  SqliteStorage: (clock: FakeClock) => new SqliteStorage(":memory:", { clock }),
};

test.for(Object.entries(STORAGES))(
  "%s: a job that comes due in front of a heavy head wakes up workers that wait behind the head",
  async ([, open]) => {
    const clock = new FakeClock();
    await using storage = open(clock);
    const other = limitRule("other", { concurrency: 1 }, { types: ["heavy"] });
    await storage.limits.define([limitRule("k", { concurrency: 10 }, { weight: "n" }), other]);
    const add = (id: string, type: string, n: number, queue = "q") =>
      storage.add([newJob({ id, type, queue, weights: { n } })]);
    const heavy = anything({ types: ["heavy"], leaseMs: 600_000 });
    const light = anything({ queue: "r", leaseMs: 600_000 });
    await add("before", "heavy", 1);
    await add("running", "light", 6, "r");
    const [job] = (await storage.claim(heavy)).jobs;
    expect((await storage.claim(light)).jobs.length).toBe(1);
    const error = { name: "Error", message: "it broke" };
    await storage.settle([{ id: job!.id, token: job!.token, to: "retry", inMs: 200, error }]);
    await add("heavy", "heavy", 8);
    await add("late", "light", 1, "r");
    expect((await storage.claim(heavy)).nextInMs).toBe(200);
    expect(await storage.claim(light)).toMatchObject({ jobs: [], nextInMs: null, blockedBy: "k" });
    await storage.limits.take({ name: "other", group: null, weight: null, ttlMs: 600_000 });
    await clock.advance(200);
    let woken = false;
    storage.subscribe({ queue: "r", wake: (mayStart) => (woken ||= mayStart) });
    expect((await storage.claim(heavy)).blockedBy).toBe("other");
    await clock.advance(1_000);
    expect(woken).toBe(true);
    expect((await storage.claim(light)).jobs.map(({ id }) => id)).toEqual(["late"]);
  },
);
