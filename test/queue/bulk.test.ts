import { describe, expect, it } from "vitest";
import { MemoryStorage, OptionsError, Queue } from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { many } from "../worker/support.ts";

const STORAGES = {
  memory: (clock: FakeClock) => new MemoryStorage({ clock }),
  sqlite: (clock: FakeClock) => new SqliteStorage(":memory:", { clock }),
};

/** Ten jobs of each of two types in two groups; one is active, and one has a key. */
async function filled(name: keyof typeof STORAGES) {
  const clock = new FakeClock();
  const storage = STORAGES[name](clock);
  const queue = new Queue("q", { storage, clock });
  const active = await queue.add("a", null, { group: "g", priority: 1 });
  await storage.claim({ queue: "q", worker: "w", max: 1, types: null, leaseMs: 60_000, limits: [], settle: [] });
  await queue.addBulk([...many(5, "a", { group: "g" }), ...many(5, "a", { group: "h", delay: "1h" }), ...many(9, "b")]);
  const keyed = await queue.add("b", null, { idempotencyKey: "k", group: "g" });
  return { queue, storage, active, keyed };
}

describe.each(Object.keys(STORAGES) as (keyof typeof STORAGES)[])("changes of many jobs, in %s", (name) => {
  it("cancelAll() cancels by type, by group and by key, and returns how many", async () => {
    const { queue, active, keyed } = await filled(name);
    expect(await queue.cancelAll({ type: "a", group: "h" })).toBe(5);
    expect(await queue.cancelAll({ idempotencyKey: "k", type: "a" })).toBe(0);
    expect(await queue.cancelAll({ idempotencyKey: "unknown" })).toBe(0);
    expect(await queue.cancelAll({ idempotencyKey: "k" })).toBe(1);
    expect((await keyed.info())?.state).toBe("cancelled");
    expect(await queue.cancelAll({ idempotencyKey: "k" })).toBe(0);
    expect(await queue.cancelAll({ type: "a", state: ["waiting", "scheduled"] })).toBe(5);
    expect(await queue.cancelAll({ all: true })).toBe(10);
    expect(await queue.cancelAll({ all: true })).toBe(0);
    expect((await active.info())?.state).toBe("active");
    expect(await queue.counts()).toMatchObject({ waiting: 0, scheduled: 0, active: 1, cancelled: 20 });
  });

  it("removeAll() removes by type, by group and by key, but not running jobs", async () => {
    const { queue } = await filled(name);
    await queue.cancelAll({ type: "b", state: "waiting" });
    expect(await queue.removeAll({ idempotencyKey: "k" })).toBe(1);
    expect(await queue.removeAll({ group: "g" })).toBe(5);
    expect(await queue.removeAll({ type: "b", state: "cancelled" })).toBe(9);
    expect(await queue.removeAll({ all: true })).toBe(5);
    expect(await queue.counts()).toMatchObject({ waiting: 0, scheduled: 0, active: 1, cancelled: 0 });
  });

  it("drain() removes by type, by group and by key, but not jobs that have started or ended", async () => {
    const { queue } = await filled(name);
    await queue.cancelAll({ type: "a", group: "h" });
    expect(await queue.drain({ idempotencyKey: "k", group: "h" })).toBe(0);
    expect(await queue.drain({ idempotencyKey: "k" })).toBe(1);
    expect(await queue.drain({ type: "a" })).toBe(5);
    expect(await queue.drain()).toBe(9);
    expect(await queue.counts()).toMatchObject({ waiting: 0, scheduled: 0, active: 1, cancelled: 5 });
  });

  it("a change of many jobs reports its progress, and can be aborted between two steps", async () => {
    const { queue } = await filled(name);
    await queue.addBulk(many(1_500, "c"));
    const stop = new AbortController();
    const seen: number[] = [];
    const stopped = queue.cancelAll({
      type: "c",
      signal: stop.signal,
      onProgress: (changed) => {
        seen.push(changed);
        if (seen.length === 2) stop.abort(new Error("enough"));
      },
    });
    await expect(stopped).rejects.toThrow("enough");
    expect(seen).toEqual([500, 1_000]);
    expect(await queue.removeAll({ type: "c", onProgress: (changed) => seen.push(changed) })).toBe(1_500);
    expect(seen.slice(2)).toEqual([500, 1_000, 1_500]);
    expect(await queue.purge({ all: true, onProgress: (changed) => seen.push(changed) })).toBe(0);
    expect(seen).toHaveLength(5);
  });

  it("drain() ends though a producer adds as many jobs as it removes", async () => {
    const { queue } = await filled(name);
    await queue.addBulk(many(600, "c"));
    let adding = Promise.resolve<unknown>(undefined);
    const onProgress = () => {
      adding = queue.addBulk(many(600, "c"));
    };
    expect(await queue.drain({ type: "c", onProgress })).toBeLessThanOrEqual(620);
    await adding;
  });
});

it("a wrong filter is refused with the name of its option, and an empty one does not match all jobs", async () => {
  const queue = new Queue("q", { storage: new MemoryStorage() });
  await queue.add("t", null);
  await expect(queue.cancelAll({})).rejects.toThrow(/^cancelAll: .*`all`/s);
  await expect(queue.removeAll({ type: undefined })).rejects.toThrow(/^removeAll: .*`all`/s);
  await expect(queue.removeAll({ state: "active" })).rejects.toThrow(/^removeAll: .*`state`/s);
  await expect(queue.cancelAll({ state: ["waiting", "dead"] })).rejects.toThrow(/^cancelAll: .*`state`/s);
  await expect(queue.cancelAll({ typ: "t" } as never)).rejects.toThrow(/did you mean `type`/);
  await expect(queue.drain({ state: "waiting" } as never)).rejects.toThrow(OptionsError);
  await expect(queue.drain({ onProgress: 1 } as never)).rejects.toThrow(/`onProgress`/);
  const aborted = AbortSignal.abort(new Error("before"));
  await expect(queue.drain({ signal: aborted })).rejects.toThrow("before");
  expect(await queue.counts()).toMatchObject({ waiting: 1 });
});
