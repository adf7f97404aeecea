// Jobs as classes: what a job does is its `execute`. The server runs them with three workers that share one limiter; the
// client, which knows nothing but the storage and the name of the queue, submits, follows and aborts them.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AbortSignalJobError,
  CompositeLimiter,
  ConcurrencyLimiter,
  EvenlySpacedRateLimiter,
  MemoryStorage,
} from "sluice";
import { type IJobExecuteContext, Job, JobQueueClient, JobQueueServer } from "sluice/server";

interface Page {
  readonly url: string;
}

let lastStart = 0;
let running = 0;
let peak = 0;

class CrawlJob extends Job<Page, { words: number }> {
  static readonly type = "crawl";

  async execute(input: Page, { signal, updateProgress }: IJobExecuteContext): Promise<{ words: number }> {
    lastStart = performance.now();
    peak = Math.max(peak, ++running);
    try {
      await updateProgress(50, `fetched ${input.url}`);
      await sleep(input.url === "/endless" ? 60_000 : 60, undefined, { signal });
      return { words: input.url.length };
    } finally {
      running -= 1;
    }
  }
}

const storage = new MemoryStorage();
const server = new JobQueueServer(CrawlJob, {
  storage,
  queueName: "crawl",
  limiter: new CompositeLimiter([
    new ConcurrencyLimiter(2),
    new EvenlySpacedRateLimiter({ maxExecutions: 50, windowSizeInSeconds: 1 }), // one every 20 ms
  ]),
  workerCount: 3,
  deleteAfterCompletionMs: "1h",
});
const client = new JobQueueClient<Page, { words: number }>({ storage, queueName: "crawl" });

await server.start();
const begin = performance.now();
const handles = await client.submitBatch(Array.from({ length: 10 }, (_, n) => ({ url: `/page/${n}` })));
const progress: string[] = [];
handles[9]!.onProgress((percent, message) => progress.push(`${percent} % ${message}`));
const pages = await Promise.all(handles.map((handle) => handle.waitFor()));
console.log(`${pages.length} pages, ${peak} at once; ${progress.join()}`);
assert.ok(pages.every(({ words }) => words === 7));
assert.equal(peak, 2, "three workers, and a limit of two for all of them");
assert.ok(lastStart - begin >= 9 * 20, "ten starts are nine intervals");
assert.deepEqual(progress, ["50 % fetched /page/9"]);

const fetched = new Promise((resolve) => client.on("progress", resolve));
const endless = await client.submit({ url: "/endless" });
await fetched;
const aborted = assert.rejects(endless.waitFor(), AbortSignalJobError);
await endless.abort();
await aborted;

await server.scaleWorkers(1);
await server.stop();
const { completedJobs, abortedJobs, failedJobs } = server.getStats();
console.log({ completedJobs, abortedJobs, failedJobs, left: await client.size() });
assert.deepEqual({ completedJobs, abortedJobs, failedJobs }, { completedJobs: 10, abortedJobs: 1, failedJobs: 0 });
