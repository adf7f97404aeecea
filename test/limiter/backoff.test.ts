import { describe, expect, it } from "vitest";
import { InMemoryRateLimiterStorage, type IRateLimiterStorage, RateLimiter } from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { emptyStorages } from "../storages/postgres/support.ts";
import { SevenMethodStorage } from "./support.ts";

interface Opened {
  readonly storage: IRateLimiterStorage;
  readonly clock: FakeClock;
}

const openPostgres = emptyStorages();

const STORAGES: readonly { readonly name: string; readonly open: () => Promise<Opened> }[] = [
  {
    name: "memory",
    async open() {
      const clock = new FakeClock();
      return { clock, storage: new InMemoryRateLimiterStorage({ clock }) };
    },
  },
  {
    name: "SQLite",
    async open() {
      const clock = new FakeClock();
      return { clock, storage: new SqliteStorage(":memory:", { clock }).rates };
    },
  },
  {
    name: "Postgres",
    async open() {
      const { clock, storage } = await openPostgres();
      return { clock, storage: storage.rates };
    },
  },
  {
    name: "a storage with seven methods",
    async open() {
      const clock = new FakeClock();
      return { clock, storage: new SevenMethodStorage(clock) };
    },
  },
];

/** A limiter of one per second whose back-off, without jitter, is 5, 10, 20, then 30 s. */
async function setUp(open: () => Promise<Opened>) {
  const { storage, clock } = await open();
  const rule = { maxExecutions: 1, windowSizeInSeconds: 1, clock };
  const limiter = new RateLimiter(storage, "api", {
    ...rule,
    initialBackoffDelay: 5_000,
    maxBackoffDelay: 30_000,
    random: () => 0,
  });
  const next = async () => (await limiter.getNextAvailableTime()).getTime() - clock.wall();
  /** The same limit in another process: its back-off is its own. */
  const other = new RateLimiter(storage, "api", rule);
  return { limiter, other, clock, next };
}

describe.each(STORAGES)("the back-off of a RateLimiter over $name", ({ open }) => {
  it("the back-off grows with every recorded start that finds the window full", async () => {
    const { limiter, next } = await setUp(open);
    await limiter.recordJobStart();
    const delays: number[] = [];
    for (let i = 0; i < 4; i++) {
      await limiter.recordJobStart();
      delays.push(await next());
    }
    expect(delays).toEqual([5_000, 10_000, 20_000, 30_000]);
  });

  it("the back-off is cleared when canProceed() grants", async () => {
    const { limiter, other, clock, next } = await setUp(open);
    await limiter.recordJobStart();
    for (let i = 0; i < 3; i++) expect(await limiter.canProceed()).toBe(false);
    expect(await next()).toBe(20_000);
    await clock.advance(1_002);
    expect(await limiter.canProceed()).toBe(true);
    await other.recordJobStart();
    expect(await limiter.canProceed()).toBe(false);
    expect(await next()).toBe(5_000);
  });

  it("the back-off is cleared by a recorded start that fits", async () => {
    const { limiter, clock, next } = await setUp(open);
    for (let i = 0; i < 3; i++) await limiter.recordJobStart();
    expect(await next()).toBe(10_000);
    await clock.advance(1_002);
    await limiter.recordJobStart();
    await limiter.recordJobStart();
    expect(await next()).toBe(5_000);
  });

  it("the back-off grows with a recorded start while the limiter is held from outside", async () => {
    const { limiter, clock, next } = await setUp(open);
    await limiter.setNextAvailableTime(new Date(clock.wall() + 1_000));
    await limiter.recordJobStart();
    await limiter.recordJobStart();
    expect(await next()).toBe(10_000);
  });
});
