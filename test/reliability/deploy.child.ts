import { once } from "node:events";
import { defineLimits, type LimitDefinitions, Worker } from "../../src/index.ts";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";

// A process of a deploy: declares its limits by version and owner, works, and prints when its handlers were called and what came
// of its declaration. It ends on request.
const [place = "", version = "", definitions = ""] = process.argv.slice(2);
const say = (line: unknown) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const storage = place.startsWith("postgres") ? new PostgresStorage(place) : new SqliteStorage(place);
const limits = defineLimits(JSON.parse(definitions) as LimitDefinitions, { version: Number(version), owner: "mailer" });
const worker = new Worker("q", async () => say({ called: Date.now() }), {
  storage,
  limits,
  concurrency: 5,
  lease: "1s",
  autostart: false,
  onError: (error) => say({ error: String(error) }),
  onLimitChange: ({ outcome, limit }) => say({ outcome, limit }),
});
await worker.start();
say("ready");
await once(process.stdin, "data");
await worker.stop();
await storage.close();
process.stdin.destroy();
