import { describe, it } from "vitest";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { FakeClock, storageSuite } from "../../src/testing/index.ts";
import { leaseProperty } from "./leases.ts";
import { modelTest } from "./model.ts";
import { rateLimiterStorageSuite } from "../storage/rate-limiter-storage.suite.ts";

const open = async () => {
  const clock = new FakeClock();
  return { clock, storage: new MemoryStorage({ clock }) };
};

describe("MemoryStorage", () => {
  for (const { name, run } of storageSuite(open)) it(name, run);

  modelTest("MemoryStorage", open, 300);
  leaseProperty("MemoryStorage", open, 10_000);
});

rateLimiterStorageSuite("MemoryStorage.rates", async () => {
  const { clock, storage } = await open();
  return { clock, storage: storage.rates };
});
