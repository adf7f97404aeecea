import { describe, expect, it } from "vitest";
import { defineLimits } from "../../src/index.ts";
import { sharedLimiter } from "../../src/limiter/shared/shared-limiter.ts";
import { type House, HOUSES, many, work } from "./support.ts";

const JOB_MS = 10;
const FOR_MS = 10_000;

/** How often jobs of each type were started, and calls outside of jobs. */
type Counts = Record<string, number>;

/** Workers, one for each type, that together have more jobs than fit in the time; and calls outside of jobs, one after the other. */
async function contend(house: House, slots: number, types: readonly string[], calls: boolean): Promise<Counts> {
  const { clock, storage, queue } = house;
  const counts: Counts = {};
  const pass = (who: string) => {
    counts[who] = (counts[who] ?? 0) + 1;
    return new Promise<void>((done) => clock.after(JOB_MS, done));
  };
  const limits = defineLimits({ gpu: { concurrency: slots, all: true } });
  for (const type of types) await queue.addBulk(many((slots * FOR_MS) / JOB_MS + 200, type));
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
  await clock.advance(FOR_MS);
  end.abort();
  const stopped = Promise.all(workers.map(({ worker }) => worker.stop()));
  await clock.advance(1_000);
  await Promise.all([stopped, calling]);
  expect(workers.flatMap(({ errors }) => errors)).toEqual([]);
  return counts;
}

describe.each(HOUSES)("$name", ({ open }) => {
  it.each([1, 2, 4])(
    "workers for three types share %i slots of one limit, and leave none of them unused",
    async (slots) => {
      const counts = await contend(open(), slots, ["a", "b", "c"], false);
      const all = (slots * FOR_MS) / JOB_MS;
      for (const type of ["a", "b", "c"]) expect([type, counts[type]! > all / 8]).toEqual([type, true]);
      expect(counts["a"]! + counts["b"]! + counts["c"]!).toBeGreaterThan(0.99 * all);
    },
  );

  it.each([1, 3])(
    "calls outside of jobs get %i slots that a worker with a backlog would take again for ever",
    async (slots) => {
      const counts = await contend(open(), slots, ["a"], true);
      expect([counts["a"]! > 50, counts["calls"]! > 50]).toEqual([true, true]);
    },
  );
});
