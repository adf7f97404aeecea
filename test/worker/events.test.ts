import { describe, expect, it } from "vitest";
import { JOB_EVENT_NAMES } from "../../src/core/events.ts";
import type { JobRecord } from "../../src/core/job.ts";
import type { JobEventName } from "../../src/index.ts";
import type { Claim } from "../../src/storage/job-storage.ts";
import { Emitter } from "../../src/worker/emitter.ts";
import { open, work } from "./support.ts";

describe("events", () => {
  it("the events of a job come in order and at once", async () => {
    const house = open();
    const received: string[] = [];
    for (const name of JOB_EVENT_NAMES) house.queue.on(name, () => received.push(name));
    let failed = false;
    const { worker } = work(house, async (_job, context) => {
      await context.updateProgress(50, "half");
      if (failed) return;
      failed = true;
      throw new Error("once");
    });
    await worker.start();
    await house.queue.add("t", null);
    await house.clock.advance(10_000);
    await worker.stop();
    const life = "worker-started added started progress retried started progress completed drained worker-stopped";
    expect(received).toEqual(life.split(" "));
  });

  it("each kind of end has its event", async () => {
    const house = open();
    const received: [string, string][] = [];
    for (const name of ["dead", "cancelled", "stalled"] as const) {
      house.queue.on(name, ({ id }) => received.push([name, id]));
    }
    const { worker } = work(house, async () => {
      throw new Error("no");
    });
    const dead = await house.queue.add("t", null, { maxAttempts: 1 });
    await worker.onIdle();
    await worker.stop();
    const cancelled = await house.queue.add("t", null);
    await cancelled.cancel();
    const stalled = await house.queue.add("t", null);
    await house.storage.claim({
      queue: "q",
      worker: "w",
      max: 1,
      types: null,
      leaseMs: 1_000,
      limits: [],
      settle: [],
    });
    await house.clock.advance(1_000);
    await house.storage.sweep();
    expect(received).toEqual([
      ["dead", dead.id],
      ["cancelled", cancelled.id],
      ["stalled", stalled.id],
    ]);
  });

  it("a listener can be removed, and an unknown event name is refused", async () => {
    const house = open();
    const received: unknown[] = [];
    const off = house.queue.on("added", (event) => received.push(event));
    await house.queue.add("t", null);
    off();
    await house.queue.add("t", null);
    expect(received).toHaveLength(1);
    expect(() => house.queue.on("finished" as JobEventName, () => {})).toThrow(/`event`/);
    expect(() => house.queue.on("added", "no function" as never)).toThrow(/`listener`/);
  });

  it("progress events reach the listeners of their job", async () => {
    const house = open();
    const { worker } = work(house, async (_job, context) => {
      await context.updateProgress(25);
      await context.updateProgress(75, "nearly", { left: 3 });
      await context.log("a line");
      return "done";
    });
    const other = await house.queue.add("t", null);
    await other.result();
    const job = await house.queue.add("t", null);
    const seen: unknown[] = [];
    job.onProgress((progress) => seen.push(progress));
    await job.result();
    expect(seen).toEqual([{ percent: 25 }, { percent: 75, message: "nearly", details: { left: 3 } }]);
    expect((await job.history()).log.map(({ text }) => text)).toEqual(["a line"]);
    await worker.stop();
  });

  it("a blocking limit is reported once, again now and then if jobs start under it, and another limit as soon as possible", () => {
    const { storage } = open();
    let reports = 0;
    storage.publish = async () => void (reports += 1);
    const emitter = new Emitter(storage, "q", "w", () => {});
    const nothing: Claim = { jobs: [], stale: [], more: false, nextInMs: null, blockedBy: null };
    const got: Claim = { ...nothing, jobs: [{} as JobRecord] };
    const blocked = (blockedBy: string): Claim => ({ ...nothing, nextInMs: 100, blockedBy });
    const reported = (claim: Claim, now: number) => {
      const before = reports;
      emitter.answered(claim, now);
      return reports > before;
    };
    expect(reported(blocked("a"), 0)).toBe(true);
    expect(reported(blocked("a"), 5_000)).toBe(false);
    expect(reported(blocked("b"), 5_001)).toBe(true);
    expect(reported(blocked("a"), 5_002)).toBe(false);
    expect(reported({ ...got, blockedBy: "a" }, 5_003)).toBe(true);
    for (let now = 5_004; now < 6_253; now++) expect(reported({ ...got, blockedBy: "a" }, now)).toBe(false);
    expect(reported({ ...got, blockedBy: "a" }, 6_253)).toBe(true);
    expect(reported(nothing, 9_000)).toBe(false);
    expect(reported(blocked("a"), 9_001)).toBe(true);
    expect(reported(blocked("a"), 19_001)).toBe(false);
  });
});
