import { describe } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { modelTest } from "../model.ts";

describe("SqliteStorage", () => {
  const open = async () => {
    const clock = new FakeClock();
    return { clock, storage: new SqliteStorage(":memory:", { clock }) };
  };
  modelTest("SqliteStorage", open, 100);
});
