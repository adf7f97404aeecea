import { InMemoryRateLimiterStorage, limit, rateLimit, RateLimiter } from "../../dist/index.js";
import type { Role } from "../harness.ts";
import { MinimalWindow } from "./minimal-window.ts";
import { load, type Work } from "./peers.ts";
import { lineBefore } from "./workglow-line.ts";

/** A contender that can wrap a function so that at most `max` calls of it start in `windowMs`. */
export interface RateWrapper {
  readonly name: string;
  readonly role: Role;
  readonly note?: string;
  /** Set for contenders that are much slower than the others: the number of calls where no call waits for time. */
  readonly atMost?: number;
  readonly create: (max: number, windowMs: number, fn: Work) => Promise<Limited>;
}

export interface Limited {
  readonly call: Work;
  /** Ends what would go on by itself. */
  readonly close?: () => void;
}

/** Takes first, then calls. */
const after = (take: () => Promise<unknown>, fn: Work): Work => {
  return async () => {
    await take();
    return fn();
  };
};

export const rateWrappers: readonly RateWrapper[] = [
  {
    name: "minimal window",
    role: "minimum",
    async create(max, windowMs, fn) {
      const window = new MinimalWindow(max, windowMs);
      return { call: () => window.call(fn) };
    },
  },
  {
    name: "sluice rateLimit()",
    role: "sluice",
    create: async (max, windowMs, fn) => ({ call: rateLimit(fn, windowMs, max) }),
  },
  {
    name: "sluice RateLimiter",
    role: "sluice",
    note: "limit() over InMemoryRateLimiterStorage",
    async create(max, windowMs, fn) {
      const options = { maxExecutions: max, windowSizeInSeconds: windowMs / 1000 };
      return { call: limit(fn, new RateLimiter(new InMemoryRateLimiterStorage(), "bench", options)) };
    },
  },
  {
    name: "p-throttle",
    role: "peer",
    async create(max, windowMs, fn) {
      return { call: (await load("p-throttle")).default({ limit: max, interval: windowMs })(fn) };
    },
  },
  {
    name: "p-throttle strict",
    role: "peer",
    async create(max, windowMs, fn) {
      return { call: (await load("p-throttle")).default({ limit: max, interval: windowMs, strict: true })(fn) };
    },
  },
  {
    name: "p-queue interval",
    role: "peer",
    async create(max, windowMs, fn) {
      const { default: PQueue } = await load("p-queue");
      const queue = new PQueue({ interval: windowMs, intervalCap: max });
      return { call: () => queue.add(fn) };
    },
  },
  {
    name: "p-queue strict",
    role: "peer",
    async create(max, windowMs, fn) {
      const { default: PQueue } = await load("p-queue");
      const queue = new PQueue({ interval: windowMs, intervalCap: max, strict: true });
      return { call: () => queue.add(fn) };
    },
  },
  {
    name: "limiter",
    role: "peer",
    note: "removeTokens(1), then the call",
    async create(max, windowMs, fn) {
      const { RateLimiter: Theirs } = await load("limiter");
      const limiter = new Theirs({ tokensPerInterval: max, interval: windowMs });
      return { call: after(() => limiter.removeTokens(1), fn) };
    },
  },
  {
    name: "async-sema RateLimit",
    role: "peer",
    async create(max, windowMs, fn) {
      const { RateLimit } = await load("async-sema");
      return { call: after(RateLimit(max, { timeUnit: windowMs }), fn) };
    },
  },
  {
    name: "bottleneck reservoir",
    role: "peer",
    note: "heartbeat of 10 ms instead of 250",
    atMost: 100,
    async create(max, windowMs, fn) {
      const { default: Bottleneck } = await load("bottleneck");
      const bottleneck = new Bottleneck({
        reservoir: max,
        reservoirRefreshAmount: max,
        reservoirRefreshInterval: windowMs,
        heartbeatInterval: 10,
      });
      return { call: () => bottleneck.schedule(fn), close: () => void bottleneck.disconnect() };
    },
  },
  {
    name: "rate-limiter-flexible",
    role: "peer",
    note: "RateLimiterQueue over RateLimiterMemory",
    async create(max, windowMs, fn) {
      const { RateLimiterMemory, RateLimiterQueue } = await load("rate-limiter-flexible");
      const queue = new RateLimiterQueue(new RateLimiterMemory({ points: max, duration: windowMs / 1000 }));
      return { call: after(() => queue.removeTokens(1), fn) };
    },
  },
  {
    name: "workglow RateLimiter",
    role: "peer",
    note: "it cannot wait: behind a hand-written line, with its back-off at 1 ms instead of 1 s",
    atMost: 2_000,
    async create(max, windowMs, fn) {
      const { RateLimiter: Theirs, InMemoryRateLimiterStorage: Storage } = await load("@workglow/job-queue");
      const limiter = new Theirs(new Storage(), "bench", {
        maxExecutions: max,
        windowSizeInSeconds: windowMs / 1000,
        initialBackoffDelay: 1,
        maxBackoffDelay: 2,
      });
      return { call: lineBefore(limiter, fn, "in time") };
    },
  },
];
