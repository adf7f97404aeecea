import { describe, expect, it } from "vitest";
import { ConcurrencyLimiter, defineLimits, Worker } from "../../src/index.ts";
import { sharedLimiter } from "../../src/limiter/shared/shared-limiter.ts";
import { type House, HOUSES, many, work } from "./support.ts";

const JOB_MS = 10;
const FOR_MS = 10_000;

/** How often jobs of each type were started, and calls outside of jobs. */
type Counts = Record<string, number>;

/** Workers, one for each type, that together have more jobs than fit in the time; and calls outside of jobs, one after the other. */
async function contend(
  house: House,
  slots: number,
  types: readonly string[],
  calls: boolean,
  [jobMs, forMs]: readonly [jobMs: number, forMs: number] = [JOB_MS, FOR_MS],
): Promise<Counts> {
  const { clock, storage, queue } = house;
  const counts: Counts = {};
  const pass = (who: string) => {
    counts[who] = (counts[who] ?? 0) + 1;
    return new Promise<void>((done) => clock.after(jobMs, done));
  };
  const limits = defineLimits({ gpu: { concurrency: slots, all: true } });
  for (const type of types) await queue.addBulk(many((slots * forMs) / jobMs + 200, type));
  const workers = [];
  for (const type of types) {
    workers.push(work(house, { [type]: () => pass(type) }, { limits, concurrency: 10 }));
    // The first has all slots when the others come.
    await clock.advance(100);
  }
  const end = new AbortController();
  const caller = async () => {
    const limiter = sharedLimiter(storage, "gpu", {}, clock);
    while (!end.signal.aborted) {
      const permit = await limiter.acquire({ signal: end.signal });
      await pass("calls");
      await permit.release();
    }
  };
  const calling = calls ? caller().catch(() => {}) : undefined;
  await clock.advance(forMs);
  end.abort();
  const stopped = Promise.all(workers.map(({ worker }) => worker.stop()));
  await clock.advance(jobMs + 1_000);
  await Promise.all([stopped, calling]);
  expect(workers.flatMap(({ errors }) => errors)).toEqual([]);
  return counts;
}

/** A worker for `a` and `c`, of which only `a` is under the limit; another one for `b`, which is, comes half a second later. */
async function contendMixed(house: House, ms: Record<string, number>, concurrency: number, forMs: number) {
  const { clock, queue } = house;
  const counts: Counts = { a: 0, b: 0, c: 0 };
  const pass = (type: string) => () => {
    counts[type]! += 1;
    return new Promise<void>((done) => clock.after(ms[type]!, done));
  };
  const limits = defineLimits({ gpu: { concurrency: 1, types: ["a", "b"] } });
  for (const type of ["a", "b", "c"]) await queue.addBulk(many(5_000, type));
  const first = work(house, { a: pass("a"), c: pass("c") }, { limits, concurrency });
  await clock.advance(500);
  const alone = { ...counts };
  const second = work(house, { b: pass("b") }, { limits, concurrency: 5 });
  await clock.advance(forMs);
  const after = { ...counts };
  const stopped = Promise.all([first.worker.stop(), second.worker.stop()]);
  await clock.advance(ms["a"]! + 1_000);
  await stopped;
  expect([...first.errors, ...second.errors]).toEqual([]);
  return { alone, after };
}

describe.each(HOUSES)("$name", ({ open }) => {
  it("a worker leaves its slot to others although its jobs without limits end just before it is released", async () => {
    const { after } = await contendMixed(open(), { a: 10, b: 10, c: 9 }, 2, 3_000);
    expect(after["b"]).toBeGreaterThan(30);
  });

  it("a worker whose slot is in use for long goes on with its jobs without limits while others wait", async () => {
    const { alone, after } = await contendMixed(open(), { a: 20_000, b: 10, c: 10 }, 5, 3_000);
    expect(after["a"]).toBe(1);
    expect(after["c"]! - alone["c"]!).toBeGreaterThan(0.85 * 6 * alone["c"]!);
  });

  it("a worker whose jobs of several groups end one after the other leaves others the slot of the group that they wait for", async () => {
    const house = open();
    const { clock, queue } = house;
    const counts: Counts = { a: 0, b: 0 };
    const pass = (type: string) => () => {
      counts[type]! += 1;
      return new Promise<void>((done) => clock.after(100, done));
    };
    const limits = defineLimits({ gpu: { concurrency: 1, by: "group" } });
    const groups = ["g", "h", "i", "j"];
    await queue.addBulk(
      Array.from({ length: 400 }, (_, i) => ({ type: "a", data: i, options: { group: groups[i % 4] } })),
    );
    await queue.addBulk(many(100, "b", { group: "h" }));
    const first = work(house, { a: pass("a") }, { limits, concurrency: 10 });
    await clock.advance(100);
    const second = work(house, { b: pass("b") }, { limits });
    await clock.advance(5_000);
    expect(counts["b"]).toBeGreaterThan(10);
    const stopped = Promise.all([first.worker.stop(), second.worker.stop()]);
    await clock.advance(1_000);
    await stopped;
    expect([...first.errors, ...second.errors]).toEqual([]);
  });

  it("a worker that waits for its batches to fill gets slots that another one would take again for ever", async () => {
    const house = open();
    const { clock, queue } = house;
    const counts: Counts = { a: 0, b: 0 };
    const pass = (type: string) => () => {
      counts[type]! += 1;
      return new Promise<void>((done) => clock.after(JOB_MS, done));
    };
    const limits = defineLimits({ gpu: { concurrency: 1, all: true } });
    for (const type of ["a", "b"]) await queue.addBulk(many(400, type));
    const first = work(house, { a: pass("a") }, { limits });
    await clock.advance(100);
    const batch = { size: 2, linger: 50 };
    const second = new Worker("q", { b: pass("b") }, { storage: house.storage, clock, limits, batch });
    await clock.advance(3_000);
    expect([counts["a"]! > 100, counts["b"]! > 3]).toEqual([true, true]);
    const stopped = Promise.all([first.worker.stop(), second.stop()]);
    await clock.advance(1_000);
    await stopped;
    expect(first.errors).toEqual([]);
  });

  it.each([
    ["the first", [true, false], undefined],
    ["the second", [false, true], undefined],
    ["the second, which has batches,", [false, true], { size: 2, linger: 50 }],
    ["each", [true, true], undefined],
  ])(
    "two workers share a slot equally where %s has a limiter of its own, in a claim for each start",
    async (_, own, batch) => {
      const house = open();
      const { clock, storage, queue } = house;
      const counts: Counts = { a: 0, b: 0 };
      const pass = (type: string) => () => {
        counts[type]! += 1;
        return new Promise<void>((done) => clock.after(JOB_MS, done));
      };
      let claims = 0;
      const claim = storage.claim.bind(storage);
      storage.claim = (request) => {
        claims += 1;
        return claim(request);
      };
      const limits = defineLimits({ gpu: { concurrency: 1, all: true } });
      for (const type of ["a", "b"]) await queue.addBulk(many(400, type));
      const [a, b] = own.map((has) => ({
        storage,
        clock,
        limits,
        limiter: has ? new ConcurrencyLimiter(5, { clock }) : undefined,
      }));
      const first = new Worker("q", { a: pass("a") }, a!);
      await clock.advance(100);
      const handlers = { b: pass("b") };
      const second = batch === undefined ? new Worker("q", handlers, b!) : new Worker("q", handlers, { ...b!, batch });
      await clock.advance(3_000);
      expect([counts["a"]! > 100, counts["b"]! > 100]).toEqual([true, true]);
      expect(claims).toBeLessThan(1.3 * (counts["a"]! + counts["b"]!));
      const stopped = Promise.all([first.stop(), second.stop()]);
      await clock.advance(1_000);
      await stopped;
    },
  );

  it.each([1, 2, 4])(
    "workers for three types share %i slots of one limit, and leave none of them unused",
    async (slots) => {
      const counts = await contend(open(), slots, ["a", "b", "c"], false);
      const all = (slots * FOR_MS) / JOB_MS;
      for (const type of ["a", "b", "c"]) expect([type, counts[type]! > all / 8]).toEqual([type, true]);
      expect(counts["a"]! + counts["b"]! + counts["c"]!).toBeGreaterThan(0.99 * all);
    },
  );

  it.each([
    ["10 ms", 10, 10_000],
    ["a second", 1_000, 100_000],
  ])("each of eight workers has its turns at one slot, with jobs of %s", async (_, jobMs, forMs) => {
    const types = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const counts = await contend(open(), 1, types, false, [jobMs, forMs]);
    const share = forMs / jobMs / types.length;
    for (const type of types) expect([type, (counts[type] ?? 0) > share / 2]).toEqual([type, true]);
  });

  it("workers that share a slot and a window start what the window lets start, and none claims without end", async () => {
    const house = open();
    const { clock, queue } = house;
    let starts = 0;
    const pass = () => {
      starts += 1;
      return new Promise<void>((done) => clock.after(JOB_MS, done));
    };
    const limits = defineLimits({ gpu: { concurrency: 1, max: 50, per: 1_000, all: true } });
    const workers = [];
    for (let i = 0; i < 8; i++) {
      await queue.addBulk(many(600, `t${i}`));
      workers.push(work(house, { [`t${i}`]: pass }, { limits, concurrency: 5 }));
      await clock.advance(7);
    }
    await clock.advance(FOR_MS);
    const stopped = Promise.all(workers.map(({ worker }) => worker.stop()));
    await clock.advance(1_000);
    await stopped;
    expect(workers.flatMap(({ errors }) => errors)).toEqual([]);
    expect(starts).toBeGreaterThan(490);
  });

  it.each([1, 3])(
    "calls outside of jobs get %i slots that a worker with a backlog would take again for ever",
    async (slots) => {
      const counts = await contend(open(), slots, ["a"], true);
      expect([counts["a"]! > 50, counts["calls"]! > 50]).toEqual([true, true]);
    },
  );
});
