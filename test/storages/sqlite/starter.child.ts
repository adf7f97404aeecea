import { once } from "node:events";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";

// Waits for a line of input, then sets up a database that other processes set up at the same moment.
const [path = ""] = process.argv.slice(2);
const storage = new SqliteStorage(path);
process.stdout.write(`${JSON.stringify("ready")}\n`);
await once(process.stdin, "data");
await storage.setup();
process.stdout.write(`${JSON.stringify("set up")}\n`);
await storage.close();
process.exit(0);
