// A service has a quota for each of its models, and every tenant may run one job at a time on each model. A tenant whose quota is
// used up delays no other, and neither does a model that is full.
import assert from "node:assert/strict";
import { defineLimits, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";

const limits = defineLimits({
  model_quota: { max: 3, per: "1m", by: "model", overrides: { small: { max: 100 } } },
  tenant_and_model: { concurrency: 1, by: ["tenant", "model"] },
});

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("chat", { storage, clock, limits });
const started: string[] = [];
const worker = new Worker(
  "chat",
  async (job) => {
    started.push(`${job.keys?.["tenant"]} on ${job.keys?.["model"]}`);
    await new Promise<void>((resolve) => clock.after(1_000, resolve)); // each takes a second
  },
  { storage, clock, concurrency: 100 },
);

const tenants = ["acme", "globex", "initech", "umbrella"];
for (const model of ["large", "small"]) {
  for (const tenant of [...tenants, "acme"]) await queue.add("ask", null, { keys: { tenant, model } });
}
await clock.advance(0);
console.log(started);
assert.deepEqual(started.toSorted(), [
  "acme on large",
  "acme on small",
  "globex on large",
  "globex on small",
  "initech on large",
  "initech on small",
  "umbrella on small",
]);

const next = (await queue.list({ state: "waiting" })).jobs.find((job) => job.keys?.["tenant"] === "umbrella");
const why = await queue.explain(next!.id);
console.log(why.blockers[0]?.text);
assert.match(why.blockers[0]?.text ?? "", /model_quota\[large\]/);

await clock.advance(61_000);
assert.equal(started.length, 10);
await worker.stop();
