// Five a minute, twenty jobs: five run in the first minute, and the last ones in the fourth.
import assert from "node:assert/strict";
import { MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("hooks", { storage, clock });
const starts: number[] = [];
const worker = new Worker(
  "hooks",
  { send_webhook: async () => void starts.push(clock.now()) },
  {
    storage,
    clock,
    concurrency: 20,
    limits: { webhooks: { max: 5, per: "1m", types: ["send_webhook"] } },
  },
);
const jobs = await queue.addBulk(Array.from({ length: 20 }, (_, n) => ({ type: "send_webhook", data: n })));

await clock.advance(59_999);
assert.equal(starts.length, 5, "only five in the first minute");
const { earliest, blockers } = await jobs[19]!.explain();
console.log(
  `the last one starts at ${earliest?.toISOString()} at the earliest: ${blockers.map(({ text }) => text).join("; ")}`,
);
for (let minute = 2; minute <= 4; minute++) {
  await clock.advance(1);
  console.log(`minute ${minute}: ${starts.length} have started`);
  assert.equal(starts.length, 5 * minute, "and five more as each minute begins");
  await clock.advance(59_999);
}

await worker.stop();
