import { once } from "node:events";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";

/** A process that uses a storage and listens, until it is told to close it. Then nothing keeps it. */
const storage = new PostgresStorage(process.argv[2]!);
storage.subscribe({ queue: "q", wake: () => {} });
await Promise.all(Array.from({ length: 5 }, () => storage.find(["missing"])));
process.send!("ready");
await once(process, "message");
process.disconnect();
await storage.close();
