import { describe } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { asCalledTest } from "./as-called.ts";

describe("starts between their grant and their call", () => {
  asCalledTest(
    "MemoryStorage",
    async () => {
      const clock = new FakeClock();
      return { clock, storage: new MemoryStorage({ clock }) };
    },
    300,
  );
  asCalledTest(
    "SqliteStorage",
    async () => {
      const clock = new FakeClock();
      return { clock, storage: new SqliteStorage(":memory:", { clock }) };
    },
    60,
  );
});
