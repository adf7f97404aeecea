import { ConcurrencyLimiter } from "../../dist/index.js";
import type { Contender } from "../harness.ts";
import type { Row } from "../row.ts";
import { compareThroughput, oneAfterAnother, perSecond } from "../throughput.ts";
import { concurrencyWrappers, measuring } from "./concurrency-contenders.ts";
import { MinimalSemaphore } from "./minimal-semaphore.ts";
import { load } from "./peers.ts";

const CALLS = 400_000;
const MAX = 10;

async function nothing(): Promise<void> {}

const bareCall: Contender<number> = {
  name: "the bare function",
  role: "aside",
  prepare: async () => () => oneAfterAnother(CALLS, nothing),
};

const permits: readonly Contender<number>[] = [
  {
    name: "minimal semaphore",
    role: "minimum",
    note: "nothing protects from releasing twice",
    prepare: async () => async () => {
      const semaphore = new MinimalSemaphore(MAX);
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) {
        await semaphore.acquire();
        semaphore.release();
      }
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "sluice acquire()",
    role: "sluice",
    prepare: async () => async () => {
      const limiter = new ConcurrencyLimiter(MAX);
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) {
        const permit = await limiter.acquire();
        await permit.release();
      }
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "sluice tryAcquire()",
    role: "sluice",
    prepare: async () => async () => {
      const limiter = new ConcurrencyLimiter(MAX);
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) {
        const permit = await limiter.tryAcquire();
        if (permit.granted) await permit.release();
      }
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "async-sema acquire()",
    role: "peer",
    note: "its release answers with no promise",
    async prepare() {
      const { Sema } = await load("async-sema");
      return async () => {
        const sema = new Sema(MAX);
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) {
          await sema.acquire();
          sema.release();
        }
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "async-sema tryAcquire()",
    role: "aside",
    note: "no promise anywhere",
    async prepare() {
      const { Sema } = await load("async-sema");
      return async () => {
        const sema = new Sema(MAX);
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) if (sema.tryAcquire() !== undefined) sema.release();
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "workglow tryAcquire()",
    role: "peer",
    async prepare() {
      const { ConcurrencyLimiter: Theirs } = await load("@workglow/job-queue");
      return async () => {
        const limiter = new Theirs(MAX);
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) await limiter.complete(await limiter.tryAcquire());
        return perSecond(CALLS, begin);
      };
    },
  },
];

export const rows: readonly Row[] = [
  {
    title: "Concurrency with room: wrapped calls",
    compares:
      `Calls of an async function that does nothing, one after another, each awaited, under a concurrency of ${MAX} ` +
      "that never makes anyone wait: what wrapping costs.",
    measure: () =>
      compareThroughput(
        [
          bareCall,
          ...concurrencyWrappers.map((wrapper) =>
            measuring(wrapper, { max: MAX, fn: nothing, calls: CALLS }, oneAfterAnother),
          ),
        ],
        { rounds: 7 },
      ),
  },
  {
    title: "Concurrency with room: take and release",
    compares:
      "The same without a wrapper: take, release, one after another, both awaited where they answer with a promise. " +
      "What answers without one stands aside.",
    measure: () => compareThroughput(permits, { rounds: 7 }),
  },
];
