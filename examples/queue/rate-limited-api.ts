// A service that allows 20 requests in any 400 ms, and two workers that share that quota: as fast as allowed and never
// faster. Then the service lowers its quota without a word; the first 429 holds both workers for as long as it says, and no
// job loses an attempt.
import assert from "node:assert/strict";
import { MemoryStorage, Queue, RateLimitedError, Worker } from "sluice";
import { serve } from "../common/serve.ts";
import { mostInAnyWindow } from "../common/windows.ts";

const WINDOW = 400;

let quota = 20;
let arrivals: number[] = [];
let refused = 0;
const server = await serve((_request, response) => {
  const now = performance.now();
  arrivals = arrivals.filter((at) => now - at < WINDOW);
  if (arrivals.length < quota) {
    arrivals.push(now);
    response.end("done");
  } else {
    refused += 1;
    response.writeHead(429, { "retry-after-ms": String(WINDOW) }).end();
  }
});

const storage = new MemoryStorage();
const queue = new Queue("calls", { storage });
const options = {
  storage,
  concurrency: 4,
  // Shared by both, as it would be by workers on other machines. The guard is for the way: not every request is equally
  // long on it, and the service must not see two of them closer together than they were made.
  limiter: { max: 20, duration: WINDOW, guard: 100 },
};
const call = async (): Promise<string> => {
  const response = await fetch(server.url);
  const text = await response.text();
  if (response.status === 429) throw new RateLimitedError(response);
  return text;
};
const workers = [new Worker("calls", call, options), new Worker("calls", call, options)];

async function run(jobs: number): Promise<number> {
  const begin = performance.now();
  const added = await queue.addBulk(Array.from({ length: jobs }, (_, n) => ({ type: "call", data: n })));
  const results = await Promise.all(added.map((job) => job.result()));
  assert.ok(results.every((result) => result === "done"));
  return performance.now() - begin;
}

const took = await run(100);
const { jobs: first } = await queue.list({ limit: 1_000 });
const starts = first.map(({ startedAt }) => startedAt!.getTime()).toSorted((a, b) => a - b);
const most = mostInAnyWindow(starts, WINDOW);
console.log(`100 calls in ${took.toFixed(0)} ms, ${most} in the fullest window, ${refused} refused`);
assert.ok(most <= 20, "never over");
assert.ok(took >= 4 * WINDOW, "100 calls reach into the fifth window");

quota = 10;
refused = 0;
const slower = await run(40);
console.log(`40 calls in ${slower.toFixed(0)} ms after the quota was halved, ${refused} refused`);
assert.ok(refused > 0, "the service refused at least one call");
const { jobs } = await queue.list({ limit: 1_000 });
assert.ok(
  jobs.every(({ state, attempt }) => state === "completed" && attempt === 1),
  "no attempt was lost",
);

await Promise.all(workers.map((worker) => worker.stop()));
await server.close();
