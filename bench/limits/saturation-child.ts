import { defineLimits, Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { sharedNow } from "../queue/temporary.ts";

// A worker under the limit. What its handler returns is when it was called.
const [file = "", max = "", per = ""] = process.argv.slice(2);
const limits = defineLimits({ provider: { max: Number(max), per: Number(per), types: ["bench"] } });
const options = { storage: new SqliteStorage(file), concurrency: 2 * Number(max), limits };
const worker = new Worker("bench", async () => sharedNow(), options);
await worker.start();
process.send!("ready");
