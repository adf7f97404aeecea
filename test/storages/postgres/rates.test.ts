import { afterAll, expect, it } from "vitest";
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

it("a token means nothing under another name", async () => {
  const { rates } = (await open()).storage;
  const window = { maxExecutions: 3, windowMs: 1_000 };
  const { token } = await rates.tryRecordExecution("q", { ...window, weight: 2 });
  await rates.tryRecordExecution("other", window);
  await rates.cancelExecution("other", token!);
  await rates.settleExecution("other", token!, 1);
  const epoch = new Date(0).toISOString();
  expect(await rates.getExecutionCount("q", epoch)).toBe(2);
  expect(await rates.getExecutionCount("other", epoch)).toBe(1);
});
