import { rateLimiterStorageSuite } from "../../storage/rate-limiter-storage.suite.ts";
import { SqliteRateLimiterStorage, SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { DRIVERS } from "./support.ts";

for (const { driver, connect } of DRIVERS) {
  rateLimiterStorageSuite(`SqliteRateLimiterStorage over ${driver}`, async () => {
    const clock = new FakeClock();
    return { clock, storage: new SqliteRateLimiterStorage(connect(":memory:"), { clock }) };
  });

  rateLimiterStorageSuite(`The limits of a SqliteStorage over ${driver}`, async () => {
    const clock = new FakeClock();
    return { clock, storage: new SqliteStorage(connect(":memory:"), { clock }).rates };
  });
}
