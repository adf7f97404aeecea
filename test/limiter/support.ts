import { expect } from "vitest";
import {
  type ILimiter,
  InMemoryRateLimiterStorage,
  type IRateLimiterStorage,
  type Permit,
  RateLimiter,
  type Refusal,
} from "../../src/index.ts";
import type { FakeClock } from "../../src/testing/index.ts";

/** The permit, where one was expected. */
export function granted(answer: Permit | Refusal): Permit {
  expect(answer).toMatchObject({ granted: true });
  return answer as Permit;
}

/** The refusal, where one was expected. */
export function refused(answer: Permit | Refusal): Refusal {
  expect(answer).toMatchObject({ granted: false });
  return answer as Refusal;
}

/** Whether a promise has settled yet, without waiting for it. */
export async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  const end = () => {
    done = true;
  };
  promise.then(end, end);
  // A few turns of the microtask queue: what is only a chain of settled promises away counts as settled.
  for (let i = 0; i < 20; i++) await undefined;
  return done;
}

/** A promise and the means to settle it. */
export function deferred<T = void>() {
  return Promise.withResolvers<T>();
}

/** The most starts in any half-open window of this length. */
export function worstWindow(starts: readonly number[], windowMs: number): number {
  const sorted = starts.toSorted((a, b) => a - b);
  let worst = 0;
  let from = 0;
  for (let i = 0; i < sorted.length; i++) {
    while (sorted[i]! - sorted[from]! >= windowMs) from += 1;
    worst = Math.max(worst, i - from + 1);
  }
  return worst;
}

/** A user's own limiter with the six methods and nothing else. It records its calls. */
export class SixMethodLimiter implements ILimiter {
  readonly diary: string[] = [];
  running = 0;
  started = 0;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  async canProceed(): Promise<boolean> {
    this.diary.push("canProceed");
    return this.running < this.#max;
  }

  async recordJobStart(): Promise<void> {
    this.diary.push("recordJobStart");
    this.running += 1;
    this.started += 1;
  }

  async recordJobCompletion(): Promise<void> {
    this.diary.push("recordJobCompletion");
    this.running = Math.max(0, this.running - 1);
  }

  async getNextAvailableTime(): Promise<Date> {
    return new Date(0);
  }

  async setNextAvailableTime(): Promise<void> {}

  async clear(): Promise<void> {
    this.running = 0;
  }
}

/** A limiter of the user that never refuses, but for the given methods. */
export const sixMethods = <Own extends object = object>(own: Own = {} as Own): ILimiter & Own => ({
  canProceed: async () => true,
  recordJobStart: async () => {},
  recordJobCompletion: async () => {},
  getNextAvailableTime: async () => new Date(0),
  setNextAvailableTime: async () => {},
  clear: async () => {},
  ...own,
});

/** A window of a second, over a storage of its own unless one is given. */
export function rate(clock: FakeClock, maxExecutions: number, name = "rate", storage?: IRateLimiterStorage) {
  return new RateLimiter(storage ?? new InMemoryRateLimiterStorage({ clock }), name, {
    maxExecutions,
    windowSizeInSeconds: 1,
    clock,
  });
}

/** The same storage behind promises: nothing in it can be decided on the spot. */
export function remote(clock: FakeClock): IRateLimiterStorage & { calls: string[] } {
  const inner = new InMemoryRateLimiterStorage({ clock });
  const calls: string[] = [];
  const later = async () => {
    for (let i = 0; i < 3; i++) await undefined;
  };
  return {
    calls,
    setupDatabase: () => inner.setupDatabase(),
    recordExecution: (name) => inner.recordExecution(name),
    getExecutionCount: (name, from) => inner.getExecutionCount(name, from),
    getOldestExecutionAtOffset: (name, offset) => inner.getOldestExecutionAtOffset(name, offset),
    getNextAvailableTime: (name) => inner.getNextAvailableTime(name),
    setNextAvailableTime: (name, at) => inner.setNextAvailableTime(name, at),
    clear: (name) => inner.clear(name),
    async tryRecordExecution(name, window) {
      await later();
      const answer = await inner.tryRecordExecution(name, window);
      calls.push(`${name} ${window.weight === 0 ? "asked" : answer.granted ? "took" : "refused"}`);
      await later();
      return answer;
    },
    async cancelExecution(name, token) {
      calls.push(`${name} cancelled`);
      await later();
      await inner.cancelExecution(name, token);
    },
    async settleExecution(name, token, weight) {
      await later();
      await inner.settleExecution(name, token, weight);
    },
  };
}

/** A user's storage with the seven methods and nothing else: slow, and never pruned. */
export class SevenMethodStorage implements IRateLimiterStorage {
  readonly executions = new Map<string, number[]>();
  readonly next = new Map<string, string>();
  readonly #clock: FakeClock;
  readonly #turns: () => number;

  constructor(clock: FakeClock, turns: () => number = () => 2) {
    this.#clock = clock;
    this.#turns = turns;
  }

  async setupDatabase(): Promise<void> {}

  async recordExecution(queueName: string): Promise<void> {
    await this.#wait();
    this.executions.set(queueName, [...this.#of(queueName), this.#clock.wall()]);
  }

  async getExecutionCount(queueName: string, windowStartTime: string): Promise<number> {
    await this.#wait();
    return this.#of(queueName).filter((at) => at > Date.parse(windowStartTime)).length;
  }

  async getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined> {
    const at = this.#of(queueName)[offset];
    return at === undefined ? undefined : new Date(at).toISOString();
  }

  async getNextAvailableTime(queueName: string): Promise<string | undefined> {
    return this.next.get(queueName);
  }

  async setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void> {
    this.next.set(queueName, nextAvailableAt);
  }

  async clear(queueName: string): Promise<void> {
    this.executions.delete(queueName);
    this.next.delete(queueName);
  }

  #of(queueName: string): number[] {
    return this.executions.get(queueName) ?? [];
  }

  async #wait(): Promise<void> {
    for (let i = this.#turns(); i > 0; i--) await undefined;
  }
}
