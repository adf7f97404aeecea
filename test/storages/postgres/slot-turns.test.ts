import { expect, it } from "vitest";
import { defineLimits, Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { temporaryDatabase } from "./server.ts";

/** So many starts of each are waited for: a worker whose slots nobody leaves to it never gets there. */
const STARTS = 4;

it.each([
  ["without groups", {}],
  ["in groups", { group: "g" }],
])(
  "workers for different types, and calls outside of jobs, share the only slot of a limit: jobs %s",
  async (_, options) => {
    const url = await temporaryDatabase();
    const limits = defineLimits({ gpu: { concurrency: 1, all: true } });
    const starts: Record<string, number> = {};
    const all = Promise.withResolvers<void>();
    const pass = (who: string) => {
      starts[who] = (starts[who] ?? 0) + 1;
      if (["a", "b", "calls"].every((one) => (starts[one] ?? 0) >= STARTS)) all.resolve();
    };
    const errors: unknown[] = [];
    const open = () => new PostgresStorage(url);
    await using storage = open();
    const queue = new Queue("q", { storage, limits });
    for (const type of ["a", "b"])
      await queue.addBulk(Array.from({ length: 20 }, () => ({ type, data: null, options })));
    const storages = ["a", "b"].map((type) => {
      const own = open();
      // There is always another one.
      const handler = async () => {
        pass(type);
        await queue.add(type, null, options);
      };
      const onError = (error: unknown) => errors.push(error);
      const worker = new Worker("q", { [type]: handler }, { storage: own, limits, concurrency: 5, onError });
      return { own, worker };
    });
    const end = new AbortController();
    const calling = (async () => {
      const limiter = storage.limiter("gpu");
      while (!end.signal.aborted) {
        const permit = await limiter.acquire({ signal: end.signal });
        pass("calls");
        await permit.release();
      }
    })().catch(() => {});
    await all.promise;
    end.abort();
    await calling;
    for (const { own, worker } of storages) {
      await worker.stop();
      await own.close();
    }
    expect(errors).toEqual([]);
  },
);
