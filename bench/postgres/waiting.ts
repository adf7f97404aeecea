import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { size, warmedUp } from "../queue/scale.ts";
import type { Row } from "../row.ts";
import { waitingRow } from "../waiting.ts";
import { newDatabase } from "./database.ts";

export const rows: readonly Row[] = [
  waitingRow("on Postgres", size(8_000), warmedUp(7), async (use) => {
    const storage = new PostgresStorage(await newDatabase());
    try {
      await storage.setup();
      return await use(storage);
    } finally {
      await storage.close();
    }
  }),
];
