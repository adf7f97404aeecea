// Embedding texts by the batch: a call takes up to 8 texts, and the provider counts texts, 40 in any 300 ms. Every job of
// a batch counts on its own, ends on its own and is tried again on its own.
import assert from "node:assert/strict";
import { MemoryStorage, Queue, Worker } from "sluice";
import { mostInAnyWindow } from "../common/windows.ts";

const MINUTE = 300; // stands for a minute

interface Jobs {
  embed: { data: { text: string }; result: number[] };
}

const storage = new MemoryStorage();
const queue = new Queue<Jobs>("embeddings", { storage, defaults: { backoff: { kind: "fixed", delay: 50 } } });

const sizes: number[] = [];
const worker = new Worker<Jobs>(
  "embeddings",
  {
    embed: async (jobs) => {
      sizes.push(jobs.length);
      // One outcome for each. This provider cannot make sense of every seventh text at the first attempt.
      return jobs.map(({ data, attempt }) =>
        attempt === 1 && data.text.endsWith("7") ? new Error("overloaded") : [data.text.length, 0.5],
      );
    },
  },
  {
    storage,
    concurrency: 2,
    batch: { size: 8, linger: 5 },
    limiter: { max: 40, duration: MINUTE },
  },
);

const jobs = await queue.addBulk(
  Array.from({ length: 120 }, (_, n) => ({ type: "embed" as const, data: { text: `text number ${n}` } })),
);
const embeddings = await Promise.all(jobs.map((job) => job.result()));
await worker.stop();

// Every attempt, those that failed too.
const attempts = await Promise.all(jobs.map(async (job) => (await job.history()).attempts.map((one) => one.startedAt)));
const last = (await queue.list({ limit: 1_000 })).jobs.map(({ startedAt }) => startedAt!.getTime());
const starts = [...last, ...attempts.flat()].toSorted((a, b) => a - b);
const most = mostInAnyWindow(starts, MINUTE - 1); // dates are whole milliseconds
console.log(`${embeddings.length} embeddings in ${sizes.length} calls; ${most} texts in the fullest "minute"`);
assert.deepEqual(embeddings[119], ["text number 119".length, 0.5]);
assert.equal(starts.length, 132, "twelve texts had to be sent twice, and nothing else was");
assert.ok(Math.max(...sizes) <= 8);
assert.ok(sizes.length < 60, "most calls took several");
assert.ok(most <= 40);
