import { describe, expect, it } from "vitest";
import { FakeClock } from "../../src/testing/index.ts";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  EvenlySpacedRateLimiter,
  type ILimiter,
  InMemoryRateLimiterStorage,
  type IRateLimiterStorage,
  NullLimiter,
  RateLimiter,
} from "../../src/index.ts";

/*
 * The code that the limiters are documented with, as it was written, with nothing changed but where it is imported
 * from; and after each block what its text says of it.
 */
describe("the documented limiter blocks", () => {
  it("the interface", () => {
    interface Documented {
      canProceed(): Promise<boolean>;
      recordJobStart(): Promise<void>;
      recordJobCompletion(): Promise<void>;
      getNextAvailableTime(): Promise<Date>;
      setNextAvailableTime(date: Date): Promise<void>;
      clear(): Promise<void>;
    }
    const both = (limiter: Documented): ILimiter => limiter;
    const back = (limiter: ILimiter): Documented => limiter;
    expect(back(both(new NullLimiter()))).toBeInstanceOf(NullLimiter);
  });

  it("the worker's loop", async () => {
    const limiter: ILimiter = new ConcurrencyLimiter(1);
    const jobs = ["a", "b", "c"];
    const done: string[] = [];
    while (jobs.length > 0) {
      if (await limiter.canProceed()) {
        const job = jobs.shift()!;
        await limiter.recordJobStart();
        try {
          done.push(job);
        } finally {
          await limiter.recordJobCompletion();
        }
      }
    }
    expect(done).toEqual(["a", "b", "c"]);
  });

  it("NullLimiter", async () => {
    const limiter = new NullLimiter();
    await limiter.canProceed(); // always true

    const before = Date.now();
    for (let i = 0; i < 100; i++) await limiter.recordJobStart();
    await limiter.setNextAvailableTime(new Date(before + 1_000_000));
    expect(await limiter.canProceed()).toBe(true);
    const next = (await limiter.getNextAvailableTime()).getTime();
    expect(next).toBeGreaterThanOrEqual(before);
    expect(next).toBeLessThanOrEqual(Date.now() + 1);
    expect(await limiter.tryAcquire({ weight: 1_000 })).toMatchObject({ granted: true });
    await (await limiter.acquire()).release();
    await limiter.recordJobCompletion();
    await limiter.clear();
  });

  it("ConcurrencyLimiter", async () => {
    const limiter = new ConcurrencyLimiter(3);
    expect(await limiter.canProceed()).toBe(true); // true (0 running)
    await limiter.recordJobStart(); // 1 running
    await limiter.recordJobStart(); // 2 running
    await limiter.recordJobStart(); // 3 running
    expect(await limiter.canProceed()).toBe(false); // false (at capacity)
    await limiter.recordJobCompletion(); // 2 running
    expect(await limiter.canProceed()).toBe(true); // true

    for (let i = 0; i < 10; i++) await limiter.recordJobCompletion(); // a floor of 0
    expect(limiter.running).toBe(0);
  });

  it("RateLimiter", async () => {
    const storage = new InMemoryRateLimiterStorage();
    await storage.setupDatabase();
    const limiter = new RateLimiter(storage, "openai-embeddings", {
      maxExecutions: 100,
      windowSizeInSeconds: 60,
      initialBackoffDelay: 1_000,
      backoffMultiplier: 2,
      maxBackoffDelay: 600_000,
    });

    for (let i = 0; i < 100; i++) {
      expect(await limiter.canProceed()).toBe(true);
      await limiter.recordJobStart();
      await limiter.recordJobCompletion();
    }
    expect(await limiter.canProceed()).toBe(false);
    expect((await limiter.getNextAvailableTime()).getTime()).toBeGreaterThan(Date.now() + 50_000);
  });

  it("IRateLimiterStorage", () => {
    interface Documented {
      setupDatabase(): Promise<void>;
      recordExecution(queueName: string): Promise<void>;
      getExecutionCount(queueName: string, windowStartTime: string): Promise<number>;
      getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined>;
      getNextAvailableTime(queueName: string): Promise<string | undefined>;
      setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void>;
      clear(queueName: string): Promise<void>;
    }
    const accepted = (storage: Documented): IRateLimiterStorage => storage;
    const given = (storage: IRateLimiterStorage): Documented => storage;
    expect(given(accepted(new InMemoryRateLimiterStorage()))).toBeInstanceOf(InMemoryRateLimiterStorage);
  });

  it("DelayLimiter", async () => {
    const limiter = new DelayLimiter(200); // 200ms between job starts

    await limiter.recordJobStart();
    expect(await limiter.canProceed()).toBe(false);
    expect((await limiter.getNextAvailableTime()).getTime()).toBeGreaterThan(Date.now() + 100);
    expect(new DelayLimiter().delayInMilliseconds).toBe(50);
  });

  it("EvenlySpacedRateLimiter", async () => {
    const limiter = new EvenlySpacedRateLimiter({
      maxExecutions: 60,
      windowSizeInSeconds: 60,
    });
    // Ideal interval = 60s / 60 = 1 start per second

    await limiter.recordJobStart();
    const wait = (await limiter.getNextAvailableTime()).getTime() - Date.now();
    expect(wait).toBeGreaterThan(900);
    expect(wait).toBeLessThanOrEqual(1_001);
  });

  it("EvenlySpacedRateLimiter: the adaptive formula, and the bound it lacks as written", async () => {
    const clock = new FakeClock();
    const limiter = new EvenlySpacedRateLimiter({
      maxExecutions: 60,
      windowSizeInSeconds: 60,
      spacing: "adaptive",
      clock,
    });
    // Ten workers, each job as long as nine tenths of the interval: by the formula alone 600 a minute.
    let starts = 0;
    const worker = async (): Promise<void> => {
      for (;;) {
        await using _permit = await limiter.acquire();
        starts += 1;
        await new Promise<void>((resolve) => clock.after(900, resolve));
      }
    };
    for (let i = 0; i < 10; i++) void worker();
    await clock.advance(59_999);
    expect(starts).toBe(60);
  });

  it("CompositeLimiter", async () => {
    const storage = new InMemoryRateLimiterStorage();
    const limiter = new CompositeLimiter([
      new ConcurrencyLimiter(5),
      new RateLimiter(storage, "openai", {
        maxExecutions: 100,
        windowSizeInSeconds: 60,
      }),
    ]);

    for (let i = 0; i < 5; i++) await limiter.recordJobStart();
    expect(await limiter.canProceed()).toBe(false);
    for (let i = 0; i < 5; i++) await limiter.recordJobCompletion();
    expect(await limiter.canProceed()).toBe(true);
  });

  it("dynamic composition", async () => {
    const composite = new CompositeLimiter();
    composite.addLimiter(new ConcurrencyLimiter(10));
    composite.addLimiter(new DelayLimiter(100));

    await composite.recordJobStart();
    expect(await composite.canProceed()).toBe(false);
  });

  it("recipe 1: AI provider", async () => {
    const rateLimiterStorage = new InMemoryRateLimiterStorage();
    const anthropicLimiter = new CompositeLimiter([
      new ConcurrencyLimiter(5), // max 5 in-flight requests
      new RateLimiter(rateLimiterStorage, "anthropic", {
        maxExecutions: 50, // 50 requests per minute
        windowSizeInSeconds: 60,
        initialBackoffDelay: 2_000,
        backoffMultiplier: 2,
        maxBackoffDelay: 120_000,
      }),
    ]);

    let inFlight = 0;
    for (let i = 0; i < 50; i++) {
      const permit = await anthropicLimiter.tryAcquire();
      if (permit.granted) inFlight += 1;
    }
    expect(inFlight).toBe(5);
  });

  it("recipe 2: gentle crawling", async () => {
    const crawlLimiter = new CompositeLimiter([
      new EvenlySpacedRateLimiter({
        maxExecutions: 10,
        windowSizeInSeconds: 60,
      }),
      new DelayLimiter(500), // at least 500ms between starts
    ]);

    expect(await crawlLimiter.tryAcquire()).toMatchObject({ granted: true });
    expect(await crawlLimiter.tryAcquire()).toMatchObject({ granted: false, blockedBy: "EvenlySpacedRateLimiter" });
    expect((await crawlLimiter.getNextAvailableTime()).getTime()).toBeGreaterThan(Date.now() + 5_000);
  });
});
