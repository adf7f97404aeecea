// A limit for each type of job, in one queue with one worker: each type keeps its own, and none waits for another. Hours of
// a real queue, on a clock that is moved by hand.
import assert from "node:assert/strict";
import { defineLimits, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";
import { mostInAnyWindow } from "../common/windows.ts";

const MINUTE = 60_000;
const RATE_LIMITS: Record<string, number> = {
  send_webhook: 30, // 30 webhooks per minute
  sync_inventory: 60, // 60 syncs per minute
  send_email: 120, // 120 emails per minute
};

const limits = defineLimits(
  Object.fromEntries(Object.entries(RATE_LIMITS).map(([type, max]) => [type, { max, per: "1m", types: [type] }])),
);

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("work", { storage, clock });
const starts = new Map<string, number[]>(Object.keys(RATE_LIMITS).map((type) => [type, []]));
const worker = new Worker("work", async (job) => void starts.get(job.type)!.push(clock.now()), {
  storage,
  clock,
  limits,
  concurrency: 10,
});

for (const type of Object.keys(RATE_LIMITS)) {
  await queue.addBulk(Array.from({ length: 300 }, (_, n) => ({ type, data: n })));
}
await clock.advance(MINUTE - 1);
for (const [type, max] of Object.entries(RATE_LIMITS)) {
  console.log(`${type}: ${starts.get(type)!.length} in the first minute`);
  assert.equal(starts.get(type)!.length, max);
}
await clock.advance(10 * MINUTE);
for (const [type, max] of Object.entries(RATE_LIMITS)) {
  assert.equal(starts.get(type)!.length, 300);
  assert.equal(mostInAnyWindow(starts.get(type)!, MINUTE), max, "as many as allowed in a minute, never more");
}

await worker.stop();
