// A limiter of your own: six methods are enough, and it stands in a composite beside the built-in ones. This one is a
// token bucket: three starts at once, then one for every 60 ms that have passed.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { CompositeLimiter, ConcurrencyLimiter, type ILimiter, limit } from "sluice";

class TokenBucket implements ILimiter {
  readonly #capacity: number;
  readonly #refillMs: number;
  #tokens: number;
  #countedAt = performance.now();
  #heldUntil = 0;

  constructor(capacity: number, refillMs: number) {
    this.#capacity = capacity;
    this.#refillMs = refillMs;
    this.#tokens = capacity;
  }

  async canProceed(): Promise<boolean> {
    return this.#waitMs() <= 0;
  }

  async recordJobStart(): Promise<void> {
    this.#refill();
    this.#tokens -= 1;
  }

  /** What a start took comes back by time alone. */
  async recordJobCompletion(): Promise<void> {}

  /** Rounded up: a date holds whole milliseconds, and one that is too early would be asked about in vain. */
  async getNextAvailableTime(): Promise<Date> {
    return new Date(Math.ceil(Date.now() + Math.max(0, this.#waitMs())));
  }

  async setNextAvailableTime(date: Date): Promise<void> {
    this.#heldUntil = Math.max(this.#heldUntil, date.getTime());
  }

  async clear(): Promise<void> {
    this.#tokens = this.#capacity;
    this.#countedAt = performance.now();
    this.#heldUntil = 0;
  }

  #waitMs(): number {
    this.#refill();
    return Math.max((1 - this.#tokens) * this.#refillMs, this.#heldUntil - Date.now());
  }

  #refill(): void {
    const now = performance.now();
    this.#tokens = Math.min(this.#capacity, this.#tokens + (now - this.#countedAt) / this.#refillMs);
    this.#countedAt = now;
  }
}

const CAPACITY = 3;
const REFILL = 60;

const begin = performance.now();
const starts: number[] = [];
let inFlight = 0;
let most = 0;
const work = limit(
  async () => {
    starts.push(performance.now() - begin);
    inFlight += 1;
    most = Math.max(most, inFlight);
    await sleep(10);
    inFlight -= 1;
  },
  new CompositeLimiter([new ConcurrencyLimiter(2), new TokenBucket(CAPACITY, REFILL)]),
);
await Promise.all(Array.from({ length: 10 }, () => work()));

console.log(`starts after ${starts.map((start) => start.toFixed(0)).join(", ")} ms; ${most} in flight at most`);
assert.equal(starts.length, 10);
assert.ok(most <= 2);
for (const [i, start] of starts.entries()) {
  // The bucket adds fractions: a millionth of a millisecond is not meant.
  assert.ok(start >= (i + 1 - CAPACITY) * REFILL - 1e-6, `start ${i} came too early`);
}
