// An AI provider: at most 5 requests in flight, and at most 50 in any minute (here 400 ms stand for the minute). Both
// limits are kept for every start, and what is free under both is used at once.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { CompositeLimiter, ConcurrencyLimiter, InMemoryRateLimiterStorage, limit, RateLimiter } from "sluice";
import { mostInAnyWindow } from "../common/windows.ts";

const MINUTE = 400;

const rateLimiterStorage = new InMemoryRateLimiterStorage();
await rateLimiterStorage.setupDatabase();

const anthropicLimiter = new CompositeLimiter([
  new ConcurrencyLimiter(5), // max 5 in-flight requests
  new RateLimiter(rateLimiterStorage, "anthropic", {
    maxExecutions: 50, // 50 requests per minute
    windowSizeInSeconds: MINUTE / 1000,
    initialBackoffDelay: 2_000,
    backoffMultiplier: 2,
    maxBackoffDelay: 120_000,
  }),
]);

const starts: number[] = [];
let inFlight = 0;
let most = 0;
const complete = limit(async (prompt: string) => {
  starts.push(performance.now());
  inFlight += 1;
  most = Math.max(most, inFlight);
  await sleep(10);
  inFlight -= 1;
  return `${prompt}, of course`;
}, anthropicLimiter);

const answers = await Promise.all(Array.from({ length: 120 }, (_, i) => complete(`question ${i}`)));

const worst = mostInAnyWindow(starts, MINUTE);
console.log(`${answers.length} answers, ${most} requests in flight at most, ${worst} in the fullest "minute"`);
assert.equal(answers.at(-1), "question 119, of course");
assert.ok(most <= 5);
assert.ok(worst <= 50);
assert.ok(starts.at(-1)! - starts[0]! >= 2 * MINUTE, "120 requests reach into the third minute");
