// Tokens per minute beside requests per minute. How many tokens a call will use is known only when it has ended: it
// takes an estimate first and settles what it really used, and what it did not use can be used by others at once.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { CompositeLimiter, ConcurrencyLimiter, InMemoryRateLimiterStorage, RateLimiter } from "sluice";

const MINUTE = 300;
const TOKENS_PER_MINUTE = 10_000;
const ESTIMATE = 2_000;
const USED = 800;
const CALLS = 40;

function providerLimiter(): CompositeLimiter {
  const storage = new InMemoryRateLimiterStorage();
  const windowSizeInSeconds = MINUTE / 1000;
  return new CompositeLimiter([
    // These two count calls, whatever their weight …
    new ConcurrencyLimiter(4, { count: "starts" }),
    new RateLimiter(storage, "requests", { maxExecutions: 30, windowSizeInSeconds, count: "starts" }),
    // … and this one counts the weight: tokens.
    new RateLimiter(storage, "tokens", { maxExecutions: TOKENS_PER_MINUTE, windowSizeInSeconds }),
  ]);
}

/** Makes all calls; the answer is how long that took. */
async function run(settles: boolean): Promise<number> {
  const limiter = providerLimiter();
  const call = async () => {
    const permit = await limiter.acquire({ weight: ESTIMATE });
    try {
      await sleep(5);
      if (settles) await permit.settle(USED);
    } finally {
      await permit.release();
    }
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: CALLS }, () => call()));
  return performance.now() - begin;
}

/** What is used up in one minute cannot be used in it again: so many tokens need at least so many whole minutes. */
const atLeast = (tokens: number) => (Math.ceil(tokens / TOKENS_PER_MINUTE) - 1) * MINUTE;

const [settled, unsettled] = await Promise.all([run(true), run(false)]);
console.log(`${CALLS} calls estimated at ${ESTIMATE} tokens, ${TOKENS_PER_MINUTE} tokens a "minute" of ${MINUTE} ms`);
console.log(`settled at ${USED} tokens each: ${settled.toFixed(0)} ms`);
console.log(`never settled:              ${unsettled.toFixed(0)} ms`);
assert.ok(settled >= atLeast(CALLS * USED));
assert.ok(unsettled >= atLeast(CALLS * ESTIMATE));
assert.ok(settled < unsettled);

// A call that could never fit is refused, instead of waiting for ever.
const refusal = await providerLimiter().tryAcquire({ weight: TOKENS_PER_MINUTE + 1 });
assert.ok(!refusal.granted && refusal.never);
console.log(`a call of ${TOKENS_PER_MINUTE + 1} tokens can never start: the limit "${refusal.blockedBy}" is too small`);
