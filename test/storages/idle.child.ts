import { Worker } from "../../src/index.ts";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";

// A worker without jobs, until it is stopped by a line of input or killed. Prints its id when it is registered.
const [place = ""] = process.argv.slice(2);
const storage = place.startsWith("postgres:") ? new PostgresStorage(place) : new SqliteStorage(place);
const worker = new Worker("q", { ping: () => {} }, { storage, concurrency: 2 });
process.stdin.once("data", () => {
  process.stdin.destroy();
  void worker.stop().then(() => storage.close());
});
await worker.start();
while ((await storage.workers()).every(({ id }) => id !== worker.id));
process.stdout.write(`${JSON.stringify(worker.id)}\n`);
