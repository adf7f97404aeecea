import { ConcurrencyLimiter, limit } from "../../dist/index.js";
import { type Contender, notes, type Role } from "../harness.ts";
import { minimalSemaphore } from "./minimal-semaphore.ts";
import { load, type Work } from "./peers.ts";
import { lineBefore } from "./workglow-line.ts";

/** A contender that can wrap a function so that at most `max` calls of it run at the same time. */
export interface ConcurrencyWrapper {
  readonly name: string;
  readonly role: Role;
  readonly note?: string;
  /** Set for contenders that are much slower than the others: the number of calls where no call waits for time. */
  readonly atMost?: number;
  readonly create: (max: number, fn: Work) => Promise<Work>;
}

export const concurrencyWrappers: readonly ConcurrencyWrapper[] = [
  {
    name: "minimal semaphore",
    role: "minimum",
    async create(max, fn) {
      const run = minimalSemaphore(max);
      return () => run(fn);
    },
  },
  { name: "sluice limit()", role: "sluice", create: async (max, fn) => limit(fn, new ConcurrencyLimiter(max)) },
  {
    name: "p-limit",
    role: "peer",
    async create(max, fn) {
      const run = (await load("p-limit")).default(max);
      return () => run(fn);
    },
  },
  {
    name: "p-queue",
    role: "peer",
    async create(max, fn) {
      const { default: PQueue } = await load("p-queue");
      const queue = new PQueue({ concurrency: max });
      return () => queue.add(fn);
    },
  },
  {
    name: "async-sema",
    role: "peer",
    note: "acquire, call, release in a finally",
    async create(max, fn) {
      const { Sema } = await load("async-sema");
      const sema = new Sema(max);
      return async () => {
        await sema.acquire();
        try {
          return await fn();
        } finally {
          sema.release();
        }
      };
    },
  },
  {
    name: "bottleneck",
    role: "peer",
    atMost: 100,
    async create(max, fn) {
      const { default: Bottleneck } = await load("bottleneck");
      const bottleneck = new Bottleneck({ maxConcurrent: max });
      return () => bottleneck.schedule(fn);
    },
  },
  {
    name: "workglow",
    role: "peer",
    note: "it cannot wait: a hand-written line asks tryAcquire() for the first in line, and again after complete()",
    async create(max, fn) {
      const { ConcurrencyLimiter: Theirs } = await load("@workglow/job-queue");
      return lineBefore(new Theirs(max), fn, "on completion");
    },
  },
];

/** Measures a wrapper by `figure`, which is given the wrapped function and how many calls are due. */
export function measuring(
  wrapper: ConcurrencyWrapper,
  { max, fn, calls }: { max: number; fn: Work; calls: number },
  figure: (calls: number, call: Work) => Promise<number>,
): Contender<number> {
  const { name, role, note, atMost = calls, create } = wrapper;
  const due = Math.min(calls, atMost);
  return {
    name,
    role,
    note: notes(note, due < calls && `${due} calls`),
    async prepare() {
      await create(max, fn);
      return async () => figure(due, await create(max, fn));
    },
  };
}
