import { InMemoryRateLimiterStorage } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { rateLimiterStorageSuite } from "./rate-limiter-storage.suite.ts";

rateLimiterStorageSuite("InMemoryRateLimiterStorage", async () => {
  const clock = new FakeClock();
  return { clock, storage: new InMemoryRateLimiterStorage({ clock }) };
});
