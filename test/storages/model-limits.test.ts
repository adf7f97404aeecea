import { describe } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { limitsModelTest } from "./model-limits.ts";

describe("storages under limits", () => {
  limitsModelTest(
    "MemoryStorage",
    async () => {
      const clock = new FakeClock();
      return { clock, storage: new MemoryStorage({ clock }) };
    },
    60,
    { keys: true },
  );
  limitsModelTest(
    "SqliteStorage",
    async () => {
      const clock = new FakeClock();
      return { clock, storage: new SqliteStorage(":memory:", { clock }) };
    },
    25,
    { keys: true },
  );
});
