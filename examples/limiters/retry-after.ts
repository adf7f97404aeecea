// Doing what the service says: a 429 with Retry-After holds the limiter, so that nothing starts before the service wants
// it. The call that met the 429 waits in line again.
import assert from "node:assert/strict";
import { ConcurrencyLimiter, holdFromHeaders, limit } from "sluice";
import { serve } from "../common/serve.ts";

/** Refuses the fifth request, and wants to be left alone for a second. */
let arrived = 0;
let pausedUntil = 0;
let impatient = 0;
const server = await serve((request, response) => {
  const now = performance.now();
  arrived += 1;
  if (now < pausedUntil) impatient += 1;
  if (arrived === 5) {
    pausedUntil = now + 999; // a date holds whole milliseconds
    response.writeHead(429, { "retry-after": "1" }).end();
  } else {
    response.end(`done ${request.url}`);
  }
});

const limiter = new ConcurrencyLimiter(1);
const request = limit(async (path: string) => {
  const response = await fetch(server.url + path);
  const text = await response.text();
  const { holdMs } = await holdFromHeaders(limiter, response);
  if (holdMs > 0) console.log(`${path}: ${response.status}, nothing starts for ${holdMs} ms`);
  return { status: response.status, text };
}, limiter);

async function persist(path: string): Promise<string> {
  for (;;) {
    const { status, text } = await request(path);
    if (status !== 429) return text;
  }
}

const begin = performance.now();
const answers = await Promise.all(["/1", "/2", "/3", "/4", "/5", "/6", "/7"].map((path) => persist(path)));
const took = performance.now() - begin;
await server.close();

console.log(answers.join(", "));
console.log(`${impatient} requests during the pause; ${took.toFixed(0)} ms in all`);
assert.deepEqual(
  answers,
  [1, 2, 3, 4, 5, 6, 7].map((n) => `done /${n}`),
);
assert.equal(arrived, 8, "one of the seven had to come twice");
assert.equal(impatient, 0);
assert.ok(took >= 999);
