import { MemoryStorage } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import type { Row } from "../row.ts";
import { waitingRow } from "../waiting.ts";
import { size, warmedUp } from "./scale.ts";
import { withFile } from "./temporary.ts";

export const rows: readonly Row[] = [
  waitingRow("in memory", size(8_000), warmedUp(9), async (use) => {
    await using storage = new MemoryStorage();
    return await use(storage);
  }),
  waitingRow("on SQLite", size(8_000), warmedUp(9), (use) =>
    withFile(async (file) => {
      await using storage = new SqliteStorage(file);
      return await use(storage);
    }),
  ),
];
