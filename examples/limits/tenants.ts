// Every tenant has its own limit, one of them a larger one. A tenant with ten thousand jobs in front of the others does
// not delay them: groups take turns.
import assert from "node:assert/strict";
import { defineLimits, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";

const limits = defineLimits({
  tenant: { max: 10, per: "1s", by: "group", overrides: { acme: { max: 50 } } },
  one_at_a_time: { concurrency: 1, by: "group", types: ["export"] },
});

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("work", { storage, clock });
const starts: { group: string | undefined; at: number }[] = [];
const handlers = {
  call: async (job: { group: string | undefined }) => void starts.push({ group: job.group, at: clock.now() }),
};
const worker = new Worker("work", handlers, { storage, clock, concurrency: 100, limits });

await queue.addBulk(Array.from({ length: 10_000 }, (_, n) => ({ type: "call", data: n, options: { group: "flood" } })));
await clock.advance(0);
for (const group of ["acme", "small"]) {
  await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ type: "call", data: n, options: { group } })));
}
await clock.advance(999);
const inFirstSecond = (group: string) => starts.filter((start) => start.group === group && start.at < 1_000).length;
for (const [group, most] of [
  ["flood", 10],
  ["acme", 50],
  ["small", 10],
] as const) {
  console.log(`${group}: ${inFirstSecond(group)} in the first second`);
  assert.equal(inFirstSecond(group), most);
}

await worker.stop();
