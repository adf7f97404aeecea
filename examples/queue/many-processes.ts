// One SQLite file, four processes: three that work and one that waits for the results. The limit of 10 starts in any
// 300 ms holds for all of them together; one of them is killed without warning, and what it was doing is done by another.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "sluice";
import { SqliteStorage } from "sluice/sqlite";
import { mostInAnyWindow } from "../common/windows.ts";

const WINDOW = 300;

if (process.argv[2] === undefined) await main();
else work(process.argv[2]);

/** What each of the three does, until it is stopped. */
function work(file: string): void {
  const storage = new SqliteStorage(file);
  const worker = new Worker(
    "numbers",
    async (job) => {
      await sleep(20);
      return { square: job.data * job.data, by: process.pid };
    },
    { storage, concurrency: 2, lease: "1s", limiter: { max: 10, duration: WINDOW } },
  );
  process.once("message", () => {
    void worker.stop().then(async () => {
      await storage.close();
      process.disconnect();
    });
  });
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-"));
  const file = join(folder, "jobs.db");
  const storage = new SqliteStorage(file);
  const queue = new Queue("numbers", { storage });
  const jobs = await queue.addBulk(Array.from({ length: 60 }, (_, n) => ({ type: "square", data: n })));

  const children = [1, 2, 3].map(() => fork(import.meta.filename, [file]));
  const exits = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
  await new Promise<void>((resolve) => queue.on("started", ({ worker }) => void (worker && resolve())));
  await sleep(WINDOW);
  children[0]!.kill("SIGKILL");

  const results = await Promise.all(jobs.map((job) => job.result({ timeout: "30s" })));
  for (const child of children.slice(1)) child.send("stop");
  await Promise.all(exits);

  // Instants are whole milliseconds: two starts that are a window apart may look one closer.
  const { jobs: done } = await queue.list({ limit: 1_000 });
  const starts = done.map(({ startedAt }) => startedAt!.getTime()).toSorted((a, b) => a - b);
  const most = mostInAnyWindow(starts, WINDOW - 1);
  const by = new Set(results.map((result) => result.by));
  console.log(`${results.length} results from ${by.size} processes, one of them killed; ${most} in the fullest window`);
  assert.deepEqual(
    results.map(({ square }) => square),
    jobs.map((_, n) => n * n),
  );
  assert.ok(by.size >= 2);
  assert.ok(most <= 10);
  await storage.close();
  rmSync(folder, { recursive: true });
}
