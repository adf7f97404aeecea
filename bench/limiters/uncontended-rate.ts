import { InMemoryRateLimiterStorage, RateLimiter } from "../../dist/index.js";
import { type Contender, notes } from "../harness.ts";
import type { Row } from "../row.ts";
import { compareThroughput, oneAfterAnother, perSecond } from "../throughput.ts";
import { MinimalWindow } from "./minimal-window.ts";
import { load } from "./peers.ts";
import { type RateWrapper, rateWrappers } from "./rate-contenders.ts";

const CALLS = 200_000;
/** For one whose every call looks at all starts in the window. */
const FEW_CALLS = 2_000;
const MAX = 1_000_000;
const WINDOW_MS = 100;

async function nothing(): Promise<void> {}

function wrapped({ name, role, note, atMost = CALLS, create }: RateWrapper): Contender<number> {
  const calls = Math.min(CALLS, atMost);
  return {
    name,
    role,
    note: notes(note, calls < CALLS && `${calls} calls`),
    async prepare() {
      (await create(MAX, WINDOW_MS, nothing)).close?.();
      return async () => {
        const { call, close } = await create(MAX, WINDOW_MS, nothing);
        const figure = await oneAfterAnother(calls, call);
        close?.();
        return figure;
      };
    },
  };
}

function ourLimiter(): RateLimiter {
  const options = { maxExecutions: MAX, windowSizeInSeconds: WINDOW_MS / 1000 };
  return new RateLimiter(new InMemoryRateLimiterStorage(), "bench", options);
}

const takes: readonly Contender<number>[] = [
  {
    name: "minimal window",
    role: "minimum",
    prepare: async () => async () => {
      const window = new MinimalWindow(MAX, WINDOW_MS);
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) await window.acquire();
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "sluice acquire()",
    role: "sluice",
    prepare: async () => async () => {
      const limiter = ourLimiter();
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) await (await limiter.acquire()).release();
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "sluice tryAcquire()",
    role: "sluice",
    prepare: async () => async () => {
      const limiter = ourLimiter();
      const begin = performance.now();
      for (let i = 0; i < CALLS; i++) {
        const permit = await limiter.tryAcquire();
        if (permit.granted) await permit.release();
      }
      return perSecond(CALLS, begin);
    },
  },
  {
    name: "limiter removeTokens()",
    role: "peer",
    async prepare() {
      const { RateLimiter: Theirs } = await load("limiter");
      return async () => {
        const limiter = new Theirs({ tokensPerInterval: MAX, interval: WINDOW_MS });
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) await limiter.removeTokens(1);
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "limiter tryRemoveTokens()",
    role: "aside",
    note: "no promise anywhere",
    async prepare() {
      const { RateLimiter: Theirs } = await load("limiter");
      return async () => {
        const limiter = new Theirs({ tokensPerInterval: MAX, interval: WINDOW_MS });
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) limiter.tryRemoveTokens(1);
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "rate-limiter-flexible consume()",
    role: "peer",
    note: "a fixed window: one counter",
    async prepare() {
      const { RateLimiterMemory } = await load("rate-limiter-flexible");
      return async () => {
        const limiter = new RateLimiterMemory({ points: MAX, duration: WINDOW_MS / 1000 });
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) await limiter.consume("bench");
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "async-sema RateLimit()",
    role: "peer",
    note: "a timer per call",
    async prepare() {
      const { RateLimit } = await load("async-sema");
      return async () => {
        const take = RateLimit(MAX, { timeUnit: WINDOW_MS });
        const begin = performance.now();
        for (let i = 0; i < CALLS; i++) await take();
        return perSecond(CALLS, begin);
      };
    },
  },
  {
    name: "workglow tryAcquire()",
    role: "peer",
    note: `${FEW_CALLS} calls: each looks at all starts in the window`,
    async prepare() {
      const { RateLimiter: Theirs, InMemoryRateLimiterStorage: Storage } = await load("@workglow/job-queue");
      return async () => {
        const options = { maxExecutions: MAX, windowSizeInSeconds: WINDOW_MS / 1000 };
        const limiter = new Theirs(new Storage(), "bench", options);
        const begin = performance.now();
        for (let i = 0; i < FEW_CALLS; i++) await limiter.complete(await limiter.tryAcquire());
        return perSecond(FEW_CALLS, begin);
      };
    },
  },
];

const what = `A window of ${MAX.toLocaleString("en-US")} per ${WINDOW_MS} ms that never makes anyone wait`;

export const rows: readonly Row[] = [
  {
    title: "A rate with room: wrapped calls",
    compares: `${what}: calls of an async function that does nothing, one after another, each awaited.`,
    measure: () => compareThroughput(rateWrappers.map(wrapped), { rounds: 5, pauseMs: 1.5 * WINDOW_MS }),
  },
  {
    title: "A rate with room: take",
    compares: `${what}: take one after another, each awaited; Sluice's permits are released too. What answers without a promise stands aside.`,
    measure: () => compareThroughput(takes, { rounds: 5, pauseMs: 1.5 * WINDOW_MS }),
  },
];
