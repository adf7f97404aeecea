// A service that does not publish its limit: the allowance grows while the service accepts everything and is cut when it
// refuses, so it hovers about the limit.
import assert from "node:assert/strict";
import { AdaptiveLimiter, holdFromHeaders, limit } from "sluice";
import { serve } from "../common/serve.ts";

const WINDOW = 200;
const SECRET = 10;

/** Allows so many requests in any window. */
const admitted: number[] = [];
const server = await serve((_, response) => {
  const now = performance.now();
  while (admitted.length > 0 && now - admitted[0]! >= WINDOW) admitted.shift();
  if (admitted.length >= SECRET) {
    response.writeHead(429).end();
  } else {
    admitted.push(now);
    response.end();
  }
});

const limiter = new AdaptiveLimiter({
  initial: 2,
  increase: 2,
  decrease: 0.75,
  windowSizeInSeconds: WINDOW / 1000,
  guard: 20, // requests are not equally long under way
});

const seen = { accepted: 0, refused: 0, cuts: 0 };
const request = limit(async () => {
  const response = await fetch(server.url);
  await response.arrayBuffer();
  const before = limiter.allowance;
  await holdFromHeaders(limiter, response);
  if (response.status === 429) seen.refused += 1;
  else seen.accepted += 1;
  if (limiter.allowance !== before) console.log(`${response.status}: the allowance is ${limiter.allowance} now`);
  if (limiter.allowance < before) seen.cuts += 1;
}, limiter);

/** More callers than the service allows, until the limit has been met three times. */
async function caller(): Promise<void> {
  while (seen.cuts < 3 && seen.accepted < 500) await request();
}
await Promise.all(Array.from({ length: 3 * SECRET }, () => caller()));
await server.close();

console.log(`the limit is ${SECRET} per window; ${seen.accepted} requests accepted, ${seen.refused} refused`);
assert.ok(seen.cuts >= 3, "it found the limit");
assert.ok(seen.refused < seen.accepted / 2, "and kept near it");
