import { describe, expect, it } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { define, rule, take } from "../../src/testing/suite/limit-words.ts";
import { completed, Scene } from "../../src/testing/suite/scene.ts";

const STORAGES = {
  MemoryStorage: (clock: FakeClock) => new MemoryStorage({ clock }),
  SqliteStorage: (clock: FakeClock) => new SqliteStorage(":memory:", { clock }),
};

describe.for(Object.entries(STORAGES))("heavy heads in %s", ([, open]) => {
  it("a heavy head that does not fit into what is given back is not passed either", async () => {
    const clock = new FakeClock();
    const storage = open(clock);
    await storage.setup();
    const s = new Scene(storage, clock);
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add({ type: "light", weights: { n: 6 } }, { type: "light", weights: { n: 3 } });
    const { jobs } = await s.claim();
    const [heavy, light] = await s.add({ type: "heavy", weights: { n: 8 } }, { type: "light", weights: { n: 1 } });
    const started = async () => [await s.claimIds({ types: ["light"] }), (await take(s, "k", { weight: 1 })).granted];
    expect(await s.claimIds({ types: ["heavy"] })).toEqual([]);
    await s.settle(completed(jobs[1]!));
    await clock.advance(150);
    expect(await started(), "when a part is given back").toEqual([[], false]);
    expect(await s.claimIds({ types: ["heavy"] })).toEqual([]);
    await s.settle(completed(jobs[0]!));
    expect(await started(), "when enough is given back").toEqual([[], false]);
    expect(await s.claimIds({ types: ["heavy"] })).toEqual([heavy]);
    expect(await started(), "beside the heavy one").toEqual([[light], true]);
    await storage.close();
  });

  it("a heavy head that no worker claims when it fits keeps light jobs waiting once, however much is given back", async () => {
    const clock = new FakeClock();
    const storage = open(clock);
    await storage.setup();
    const s = new Scene(storage, clock);
    await define(s, rule("k", { concurrency: 10 }, { weight: "n" }));
    await s.add({ type: "light", weights: { n: 6 } });
    const first = await s.claimOne();
    await s.add({ type: "heavy", weights: { n: 8 } });
    await s.add(...Array.from({ length: 6 }, () => ({ type: "light", weights: { n: 3 } })));
    expect(await s.claimIds({ types: ["heavy"] })).toEqual([]);
    await s.settle(completed(first));
    expect(await s.claimIds({ types: ["light"] }), "while the grace lasts").toEqual([]);
    await clock.advance(100);
    const { jobs } = await s.claim({ types: ["light"] });
    expect(jobs.length, "after the grace").toBe(3);
    for (const job of jobs) {
      await s.settle(completed(job));
      expect(await s.claimIds({ types: ["light"] }), "when one ends").toHaveLength(1);
    }
    await storage.close();
  });
});
