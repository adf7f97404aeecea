import { describe, expect, it } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { FakeClock, type FaultPlan, faultyStorage, storageSuite } from "../../src/testing/index.ts";
import { anything, limitRule, newJob } from "../storages/jobs.ts";

function open(plan: FaultPlan, seed?: number) {
  const clock = new FakeClock();
  const inner = new MemoryStorage({ clock });
  return { clock, inner, storage: faultyStorage(inner, plan, { clock, ...(seed !== undefined && { seed }) }) };
}

const count = async (storage: MemoryStorage) => (await storage.overview("q"))[0]?.counts.waiting ?? 0;

describe("a faulty storage without faults", () => {
  const cases = storageSuite(async () => open(() => undefined));
  for (const { name, run } of cases) it(name, run);
});

describe("a faulty storage", () => {
  it('a call with "fail-before" has no effect', async () => {
    const { storage, inner } = open(({ member }) => (member === "add" ? { kind: "fail-before" } : undefined));
    await expect(storage.add([newJob()])).rejects.toMatchObject({ code: "SLUICE_STORAGE" });
    expect(await count(inner)).toBe(0);
  });

  it('a call with "fail-after" takes effect, and its answer is lost', async () => {
    const error = new Error("connection reset");
    const { storage, inner } = open(({ nth }) => (nth === 2 ? { kind: "fail-after", error } : undefined));
    await storage.add([newJob()]);
    await expect(storage.add([newJob()])).rejects.toBe(error);
    expect(await count(inner)).toBe(2);
  });

  it("a faulty storage delays a call, or only its answer", async () => {
    const { storage, inner, clock } = open(({ nth }) => ({ kind: nth === 1 ? "delay" : "delay-answer", ms: 500 }));
    let answers = 0;
    const counted = () => {
      answers += 1;
    };
    void storage.add([newJob()]).then(counted);
    void storage.add([newJob()]).then(counted);
    await clock.advance(499);
    expect([await count(inner), answers]).toEqual([1, 0]);
    await clock.advance(1);
    await clock.advance(0);
    expect([await count(inner), answers]).toEqual([2, 2]);
  });

  it("a faulty storage can leave a call without an answer", async () => {
    const { storage, inner, clock } = open(() => ({ kind: "never" }));
    let answered = false;
    void storage.add([newJob()]).finally(() => {
      answered = true;
    });
    await clock.advance(1e9);
    expect([answered, await count(inner)]).toEqual([false, 0]);
  });

  it("a plan sees the member, the number of the call, and its arguments", async () => {
    const seen: string[] = [];
    const { storage } = open(({ member, nth, call, args }) => {
      seen.push(`${member} ${nth} ${call} ${args.length}`);
    });
    await storage.setup();
    await storage.add([]);
    await storage.claim(anything());
    await storage.add([]);
    await storage.heartbeat([], 5);
    await storage.setPaused("q", null, true);
    expect(seen).toEqual([
      "setup 1 1 0",
      "add 1 2 1",
      "claim 1 3 1",
      "add 2 4 1",
      "heartbeat 1 5 2",
      "setPaused 1 6 3",
    ]);
    expect(storage.calls.map(({ member }) => member)).toEqual([
      "setup",
      "add",
      "claim",
      "add",
      "heartbeat",
      "setPaused",
    ]);
  });

  it("a plan applies to calls of limits as well", async () => {
    const { storage, inner } = open(({ member, nth }) =>
      member === "limits.take" && nth === 1 ? { kind: "fail-after" } : undefined,
    );
    await storage.limits.define([limitRule("gpu", { concurrency: 1 })]);
    const take = { name: "gpu", group: null, weight: null, ttlMs: 1_000 };
    await expect(storage.limits.take(take)).rejects.toThrow("answer of limits.take was lost");
    expect((await inner.limits.read({ name: "gpu", group: null }))[0]?.states[0]?.held).toBe(1);
    expect(await storage.limits.take(take)).toMatchObject({ granted: false });
    expect(storage.calls.map(({ member }) => member)).toEqual(["limits.define", "limits.take", "limits.take"]);
  });

  it("random faults are the same with the same seed", async () => {
    const run = async (seed: number) => {
      const { storage } = open(({ random }) => (random() < 0.3 ? { kind: "fail-before" } : undefined), seed);
      for (let i = 0; i < 200; i++) await storage.find([]).catch(() => {});
      return storage.calls.map(({ fault }) => fault?.kind === "fail-before");
    };
    const first = await run(1);
    expect(await run(1)).toEqual(first);
    expect(await run(2)).not.toEqual(first);
    const failed = first.filter(Boolean).length;
    expect(failed).toBeGreaterThan(35);
    expect(failed).toBeLessThan(85);
  });

  it("a faulty storage can be healed, and given another plan", async () => {
    const { storage } = open(() => ({ kind: "fail-before" }));
    await expect(storage.find([])).rejects.toThrow("find failed");
    storage.heal();
    expect(await storage.find([])).toEqual([]);
    storage.plan(() => ({ kind: "fail-after" }));
    await expect(storage.find([])).rejects.toThrow("answer of find was lost");
    await storage.close();
  });
});
