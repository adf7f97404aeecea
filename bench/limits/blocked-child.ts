import { defineLimits, Queue, Worker } from "../../dist/index.js";
import type { Cost } from "../queue/cost-child.ts";
import { sleep, withFile } from "../queue/temporary.ts";
import { type Case, SIZES } from "./blocked.ts";
import { countedStorage } from "./counted-storage.ts";
import { storageKinds } from "./storages.ts";

// Workers that a full limit blocks, and the calls that they make to their storage meanwhile.
const { jobs, workers, seconds } = SIZES;
const { kind, limit, addsPerSecond } = JSON.parse(process.argv[2]!) as Case;

const limits = defineLimits({
  provider: { max: 1, per: "10m", ...(limit === "group" ? { by: "group" } : { all: true }) },
});
const options = limit === "group" ? { group: "acme" } : {};

await withFile(async (file) => {
  const storage = storageKinds.find(({ name }) => name === kind)!.open(file);
  const queue = new Queue("bench", { storage });
  await queue.addBulk(Array.from({ length: jobs }, (_, n) => ({ type: "bench", data: { n }, options })));
  const calls = { count: 0 };
  for (let i = 0; i < workers; i++) {
    const worker = new Worker("bench", async () => {}, {
      storage: countedStorage(storage, calls),
      concurrency: 10,
      limits,
    });
    await worker.start();
  }
  if (addsPerSecond > 0) {
    setInterval(() => void queue.add("bench", { n: 0 }, options), 1_000 / addsPerSecond);
  }
  await sleep(1_000);
  calls.count = 0;
  const before = process.cpuUsage();
  const start = performance.now();
  await sleep(seconds * 1_000);
  const elapsed = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  const { completed } = await queue.counts();
  if (completed !== 1) throw new Error(`${completed} jobs ran under a limit of one`);
  const cost: Cost = {
    callsPerSecond: calls.count / workers / (elapsed / 1_000),
    cpuPercent: (user + system) / 1_000 / elapsed / 0.01,
  };
  process.send!(cost);
});
process.exit();
