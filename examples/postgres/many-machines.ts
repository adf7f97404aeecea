// Three workers, each with connections of its own as on three machines, and one limit over all of them: 10 starts in any
// 300 ms. The server's clock decides, and says afterwards what happened.
import assert from "node:assert/strict";
import pg from "pg";
import { Queue, Worker } from "sluice";
import { PostgresStorage } from "sluice/postgres";
import { exampleDatabase } from "../common/database.ts";
import { mostInAnyWindow } from "../common/windows.ts";

const WINDOW = 300;
const JOBS = 60;

await using database = await exampleDatabase();
const { url, schema } = database;
const machines = [1, 2, 3].map((machine) => {
  const storage = new PostgresStorage(url, { schema, connections: 3 });
  const done: number[] = [];
  const limiter = { max: 10, duration: WINDOW };
  const handler = async ({ data }: { data: number }) => void done.push(data);
  return { machine, storage, done, worker: new Worker("numbers", handler, { storage, concurrency: 4, limiter }) };
});

const [first] = machines;
const queue = new Queue("numbers", { storage: first!.storage });
const jobs = await queue.addBulk(Array.from({ length: JOBS }, (_, n) => ({ type: "number", data: n })));
await Promise.all(jobs.map((job) => job.result({ timeout: "30s" })));

const client = new pg.Client({ connectionString: url });
await client.connect();
const { rows } = await client.query<{ at: number }>(`SELECT started_at AS at FROM ${schema}.jobs ORDER BY 1`);
await client.end();
const most = mostInAnyWindow(
  rows.map(({ at }) => at),
  WINDOW,
);
for (const { machine, done } of machines) console.log(`machine ${machine} ran ${done.length} jobs`);
console.log(`${most} starts in the fullest ${WINDOW} ms`);
assert.equal(rows.length, JOBS);
assert.equal(most, 10);
assert.deepEqual(
  machines.flatMap(({ done }) => done).toSorted((a, b) => a - b),
  Array.from({ length: JOBS }, (_, n) => n),
  "every job ran once",
);

for (const { worker, storage } of machines) {
  await worker.stop();
  await storage.close();
}
