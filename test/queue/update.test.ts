import { describe, expect, it } from "vitest";
import {
  defineLimits,
  JobNotFoundError,
  MemoryStorage,
  OptionsError,
  Queue,
  type StandardSchema,
  Worker,
} from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { open, work } from "../worker/support.ts";

class SqliteInMemory extends SqliteStorage {
  constructor(options: { readonly clock: FakeClock }) {
    super(":memory:", options);
  }
}

describe("updating a job", () => {
  it("update() changes the given options, and answers with the state of the job", async () => {
    const { queue } = open();
    const job = await queue.add("t", { n: 1 }, { group: "g", timeout: "5s" });
    expect(
      await job.update({ data: { n: 2 }, priority: 4, group: null, timeout: null, weights: { tokens: 3 } }),
    ).toEqual({
      updated: true,
      state: "waiting",
    });
    expect(await job.info()).toMatchObject({ data: { n: 2 }, priority: 4, group: undefined, state: "waiting" });
    expect(await queue.update(job.id, { delay: "1m", keepFor: "1h", backoff: { kind: "fixed", delay: 5 } })).toEqual({
      updated: true,
      state: "scheduled",
    });
    expect(await queue.update(job.id, { data: null, runAt: new Date(0) })).toEqual({ updated: true, state: "waiting" });
    expect((await job.info())?.data).toBe(null);
    expect(job.data).toEqual({ n: 1 });
  });

  it("an update reaches the handler, and wakes up a worker that sleeps", async () => {
    const house = open();
    const seen: unknown[] = [];
    const { worker } = work(house, ({ data }) => void seen.push(data));
    const job = await house.queue.add("t", "before", { delay: "1h" });
    await house.clock.advance(1_000);
    await job.update({ data: "after", delay: 0 });
    await house.clock.advance(0);
    await job.result();
    expect(seen).toEqual(["after"]);
    await worker.stop();
  });

  it.each([MemoryStorage, SqliteInMemory])(
    "a retry that has come due behind a thousand others keeps its place (%o)",
    async (Storage) => {
      const clock = new FakeClock();
      const storage = new Storage({ clock });
      const queue = new Queue("q", { storage, clock });
      const claim = { queue: "q", worker: "w", max: 2, types: ["t"], leaseMs: 60_000, limits: [], settle: [] };
      const job = await queue.add("t", "first");
      const { token } = (await storage.claim(claim)).jobs[0]!;
      await clock.advance(10);
      await queue.add("t", "second");
      await queue.addBulk(Array.from({ length: 2_000 }, () => ({ type: "u", data: null, options: { delay: 500 } })));
      const error = { name: "Error", message: "no" };
      await storage.settle([{ id: job.id, token, to: "retry", inMs: 1_000, error }]);
      await clock.advance(1_000);
      expect(await job.update({ data: "updated" })).toEqual({ updated: true, state: "waiting" });
      expect((await storage.claim(claim)).jobs.map(({ data }) => JSON.parse(data))).toEqual(["updated", "second"]);
      await storage.close();
    },
  );

  it("a change of keepFor is respected by callers that wait for the result", async () => {
    const house = open();
    const [kept, gone] = await house.queue.addBulk([
      { type: "t", data: 1, options: { keepFor: 0, delay: 10 } },
      { type: "t", data: 2, options: { delay: 10 } },
    ]);
    await kept!.update({ keepFor: null });
    await gone!.update({ keepFor: 0 });
    const { worker } = work(house, () => "done");
    await house.clock.advance(10);
    expect(await kept!.result()).toBe("done");
    await expect(gone!.result()).rejects.toThrow(OptionsError);
    await worker.stop();
  });

  it("a job that runs or has ended is not updated, and the answer says so", async () => {
    const { queue, storage } = open();
    const job = await queue.add("t", 1);
    const claim = { queue: "q", worker: "w", max: 1, types: null, leaseMs: 60_000, limits: [], settle: [] };
    const { jobs } = await storage.claim(claim);
    expect(await job.update({ data: 2 })).toEqual({ updated: false, state: "active" });
    await storage.settle([{ id: job.id, token: jobs[0]!.token, to: "completed", result: null }]);
    expect(await job.update({ data: 2 })).toEqual({ updated: false, state: "completed" });
    expect((await job.info())?.data).toBe(1);
    await job.remove();
    await expect(job.update({ priority: 1 })).rejects.toThrow(JobNotFoundError);
    await expect(queue.update("missing", { data: 1 })).rejects.toThrow(JobNotFoundError);
    const other = await new Queue("other", { storage }).add("t", null);
    await expect(queue.update(other.id, { priority: 1 })).rejects.toThrow(JobNotFoundError);
  });

  it("update() checks its options as add() does", async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    const limits = defineLimits({ tokens: { max: 10, per: "1m", weight: "tokens", all: true } });
    const queue = new Queue("q", { storage, clock, limits, maxDataBytes: 100 });
    const job = await queue.add("t", 1, { weights: { tokens: 2 } });
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [{}, /at least one of delay/],
      [undefined, /`options`/],
      [{ priorty: 1 }, /did you mean `priority`/],
      [{ priority: 1.5 }, /`priority`/],
      [{ priority: null }, /`priority`/],
      [{ delay: 1, runAt: new Date() }, /`runAt`/],
      [{ runAt: new Date(Number.NaN) }, /`runAt`/],
      [{ weights: { tokens: 0 } }, /`weights`/],
      [{ weights: { tokens: 11 } }, /tokens/],
      [{ data: new Map() }, /`data`/],
      [{ data: "x".repeat(100) }, /`data`/],
      [{ group: "" }, /`group`.*or null/s],
      [{ idempotencyKey: "k" }, /no such option/],
    ];
    for (const [options, message] of wrong) {
      const refused = job.update(options as never);
      await expect(refused).rejects.toThrow(message);
      await expect(refused).rejects.toThrow(OptionsError);
    }
    expect(await job.info()).toMatchObject({ data: 1, priority: 0, state: "waiting" });
    expect(await job.update({ weights: { tokens: 10 } })).toMatchObject({ updated: true });
  });

  it("update() checks data by the schema of the type, whether or not the caller knows the type", async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    const schema: StandardSchema = {
      "~standard": {
        validate: (value) =>
          typeof value === "number" ? { value: value * 2 } : { issues: [{ message: "no number" }] },
      },
    };
    const queue = new Queue("q", { storage, clock, schemas: { t: schema } });
    const job = await queue.add("t", 1);
    await expect(job.update({ data: "text" })).rejects.toThrow(/no number/);
    await expect(queue.update(job.id, { data: "text" })).rejects.toThrow(/no number/);
    await queue.update(job.id, { data: 21 });
    expect((await job.info())?.data).toBe(42);
  });

  it("a job whose priority is raised overtakes others", async () => {
    const house = open();
    const jobs = await house.queue.addBulk([1, 2, 3].map((data) => ({ type: "t", data })));
    await jobs[2]!.update({ priority: 1 });
    const seen: unknown[] = [];
    const worker = new Worker("q", ({ data }) => void seen.push(data), { storage: house.storage, clock: house.clock });
    await worker.onIdle();
    expect(seen).toEqual([3, 1, 2]);
    await worker.stop();
  });
});
