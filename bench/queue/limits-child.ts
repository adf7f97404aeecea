import { Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { sharedNow } from "./temporary.ts";

// A worker under the limit. What its handler returns is when it was called.
const [file = "", max = "", duration = ""] = process.argv.slice(2);
const limiter = { max: Number(max), duration: Number(duration) };
const options = { storage: new SqliteStorage(file), concurrency: 2 * limiter.max, limiter };
const worker = new Worker("bench", async () => sharedNow(), options);
await worker.start();
process.send!("ready");
