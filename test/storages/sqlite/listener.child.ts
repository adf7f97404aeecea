import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";

// Listens, and prints what it receives.
const [path = ""] = process.argv.slice(2);
const storage = new SqliteStorage(path);
await storage.setup();
const print = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
storage.subscribe({
  queue: "q",
  wake: () => print({ wake: process.hrtime.bigint().toString() }),
  cancelled: (ids) => print({ cancelled: ids }),
  event: (event) => print({ event }),
});
print({ listening: true });
