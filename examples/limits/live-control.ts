// Looking at limits and changing them while everything runs: fewer, none for a while, more again. Nothing is restarted.
import assert from "node:assert/strict";
import { Limits, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("calls", { storage, clock });
let done = 0;
const worker = new Worker("calls", async () => void (done += 1), {
  storage,
  clock,
  concurrency: 100,
  limits: { service: { max: 20, per: "1s", all: true } },
});
await queue.addBulk(Array.from({ length: 1_000 }, (_, n) => ({ type: "call", data: n })));
const inTheNextSecond = async () => {
  const before = done;
  await clock.advance(1_000);
  return done - before;
};
await clock.advance(0);
assert.equal(done, 20);
assert.equal(await inTheNextSecond(), 20);

const limits = new Limits(storage);
await limits.change("service", { max: 5 });
assert.equal(await inTheNextSecond(), 5);

await limits.pause("service");
assert.equal(await inTheNextSecond(), 0);
const job = (await queue.list({ state: "waiting", limit: 1 })).jobs[0]!;
const why = await queue.explain(job.id);
console.log(why.blockers.map(({ text }) => text).join("\n"));

await limits.restore("service");
await limits.resume("service");
await clock.advance(1);
assert.equal(await inTheNextSecond(), 20);
const state = await limits.get("service");
console.log(`${state!.waiting} wait for the service`);

await worker.stop();
