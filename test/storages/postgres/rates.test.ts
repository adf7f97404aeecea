import { afterAll } from "vitest";
import { rateLimiterStorageSuite } from "../../storage/rate-limiter-storage.suite.ts";
import { PostgresRateLimiterStorage } from "../../../src/storages/postgres/index.ts";
import { emptyStorages } from "./support.ts";

const open = emptyStorages();
let latest: PostgresRateLimiterStorage | undefined;
afterAll(() => latest?.close());

rateLimiterStorageSuite("PostgresRateLimiterStorage", async () => {
  await latest?.close();
  const { pool, clock } = await open();
  const storage = (latest = new PostgresRateLimiterStorage(pool, { clock }));
  return { clock, storage };
});

rateLimiterStorageSuite("The limits of a PostgresStorage", async () => {
  const { storage, clock } = await open();
  return { clock, storage: storage.rates };
});
