import { describe, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock, type StorageCase, storageSuite } from "../../../src/testing/index.ts";
import { DRIVERS, temporaryDatabase } from "./support.ts";

function runAll(cases: readonly StorageCase[]): void {
  for (const { name, run } of cases) test(name, run);
}

for (const { driver, connect } of DRIVERS) {
  describe(`SqliteStorage over a connection of ${driver}, in memory`, () => {
    const cases = storageSuite(async () => {
      const clock = new FakeClock();
      return { clock, storage: new SqliteStorage(connect(":memory:"), { clock }) };
    });
    runAll(cases);
  });
}

describe("SqliteStorage over a file", () => {
  const cases = storageSuite(async () => {
    const clock = new FakeClock();
    return { clock, storage: new SqliteStorage(temporaryDatabase(), { clock }) };
  });
  runAll(cases);
});
