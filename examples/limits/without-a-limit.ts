// What a service that takes 30 a minute makes of 100 calls at once: without a limit most of them fail, and every retry fails
// again; with one, not a single call is refused.
import assert from "node:assert/strict";
import { MemoryStorage, Queue, Worker, type WorkerOptions } from "sluice";
import { FakeClock } from "sluice/testing";

const MINUTE = 60_000;

async function send(limits: WorkerOptions["limits"]) {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("hooks", { storage, clock });
  let calls: number[] = [];
  let refused = 0;
  const service = () => {
    calls = calls.filter((at) => clock.now() - at < MINUTE);
    if (calls.length >= 30) {
      refused += 1;
      throw new Error("429 Too Many Requests");
    }
    calls.push(clock.now());
  };
  const worker = new Worker("hooks", async () => service(), { storage, clock, concurrency: 50, limits });
  await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ type: "send_webhook", data: n })));
  await clock.advance(10 * MINUTE);
  await worker.stop();
  const { completed, dead } = await queue.counts();
  return { completed, dead, refused };
}

const without = await send(undefined);
console.log(`without a limit: ${without.refused} calls refused, ${without.dead} of 100 jobs dead`);
assert.ok(without.refused > 100 && without.dead > 0);

const under = await send({ receiver: { max: 30, per: "1m", types: ["send_webhook"] } });
console.log(`with one: ${under.refused} calls refused, ${under.completed} of 100 jobs completed`);
assert.deepEqual(under, { completed: 100, dead: 0, refused: 0 });
