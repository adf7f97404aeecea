import { afterEach, describe, expect, it } from "vitest";
import {
  AdaptiveLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  defineLimits,
  EvenlySpacedRateLimiter,
  JobQueueServer,
  Job,
  limit,
  Limits,
  MemoryStorage,
  OptionsError,
  Queue,
  RateLimiter,
  Worker,
} from "../../src/index.ts";
import { InMemoryRateLimiterStorage } from "../../src/index.ts";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";

const TOO_MANY = 2 ** 31;
const quota = { max: 1, per: "1s", by: "group" } as const;
const breaker = { failures: 1, open: "1s" } as const;

class Nothing extends Job<null, null> {
  static readonly type = "nothing";
  async execute() {
    return null;
  }
}

describe("numbers that some storage could not keep", () => {
  const storage = new MemoryStorage();
  const queue = new Queue("q", { storage });
  it.each<[string, (n: number) => unknown]>([
    ["share", (share) => defineLimits({ a: { ...quota, overrides: { g: { share } } } })],
    ["failures", (failures) => defineLimits({ a: { ...quota, breaker: { ...breaker, failures } } })],
    ["probes", (probes) => defineLimits({ a: { ...quota, breaker: { ...breaker, probes } } })],
    ["estimate", (n) => defineLimits({ a: { ...quota, max: 2 ** 40, weight: "w", estimate: n * 2 } })],
    ["priority", (priority) => queue.add("t", null, { priority })],
    ["priority", (n) => queue.add("t", null, { priority: -n })],
    ["maxAttempts", (maxAttempts) => queue.add("t", null, { maxAttempts })],
    ["weights", (n) => queue.add("t", null, { weights: { tokens: n * 2 } })],
    ["concurrency", (concurrency) => new Worker("q", async () => {}, { storage, concurrency, autostart: false })],
    ["maxHolds", (maxHolds) => new Worker("q", async () => {}, { storage, maxHolds, autostart: false })],
    ["size", (size) => new Worker("q", async () => {}, { storage, batch: { size }, autostart: false })],
    ["connections", (connections) => new PostgresStorage("postgres://localhost/x", { connections })],
    ["workerCount", (workerCount) => new JobQueueServer(Nothing, { storage, queueName: "q", workerCount })],
    ["workers", (n) => new JobQueueServer(Nothing, { storage, queueName: "q" }).scaleWorkers(n)],
  ])("are refused as %s", async (option, make) => {
    const refused = await (async () => make(TOO_MANY))().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OptionsError);
    expect((refused as OptionsError).option).toContain(option);
  });

  it("numbers end at the largest that every storage keeps", () => {
    const share = TOO_MANY - 1;
    const limits = defineLimits({
      a: { ...quota, overrides: { g: { share } }, breaker: { ...breaker, failures: share } },
    });
    expect(limits.rules[0]).toMatchObject({ groups: { g: { share } }, breaker: { failures: share } });
  });
});

/** Each would change something, or be refused, if it were taken for an option. */
const POLLUTION: Record<string, unknown> = {
  max: -1,
  per: "x",
  duration: "x",
  concurrency: 0.5,
  every: -1,
  guard: -1,
  breaker: 7,
  overrides: 7,
  onConflict: "x",
  priority: 0.5,
  delay: "x",
  runAt: "x",
  group: "",
  weights: 7,
  maxAttempts: -1,
  backoff: 7,
  timeout: "x",
  deadline: "x",
  keepFor: "x",
  idempotencyKey: "",
  tx: 7,
  storage: 7,
  store: 7,
  lease: 1,
  limiter: 7,
  limits: 7,
  batch: 7,
  autostart: 7,
  ahead: 7,
  onError: 7,
  clock: 7,
  random: 7,
  defaults: 7,
  schema: 7,
  migrate: 7,
  connections: 0.5,
  synchronous: 7,
  maxQueue: 0.5,
  signal: 7,
  workerCount: 0.5,
  kind: "custom",
  name: 7,
  count: "x",
  initial: -1,
  weight: 7,
  estimate: 0.5,
  share: 0.5,
  failures: 0.5,
  probes: 0.5,
  kinds: 7,
  types: 7,
  queues: 7,
  by: 7,
  all: 7,
};

describe("options on a prototype", () => {
  afterEach(() => {
    for (const key of Object.keys(POLLUTION)) Reflect.deleteProperty(Object.prototype, key);
  });

  /** Only while `make` runs, and not while it waits. */
  function polluted<T>(make: () => T): T {
    for (const [key, value] of Object.entries(POLLUTION)) {
      // oxlint-disable-next-line no-extend-native -- that is what this is about, and it is undone below
      Object.defineProperty(Object.prototype, key, { value, configurable: true, enumerable: false, writable: true });
    }
    try {
      return make();
    } finally {
      for (const key of Object.keys(POLLUTION)) Reflect.deleteProperty(Object.prototype, key);
    }
  }

  it.each<[string, () => unknown]>([
    ["MemoryStorage", () => new MemoryStorage()],
    ["SqliteStorage", () => new SqliteStorage(":memory:")],
    ["PostgresStorage", () => new PostgresStorage("postgres://localhost/x")],
    ["Queue", () => new Queue("q", { storage: memory })],
    ["Worker", () => new Worker("q", async () => {}, { storage: memory, autostart: false })],
    ["JobQueueServer", () => new JobQueueServer(Nothing, { storage: memory, queueName: "q" })],
    ["Limits", () => new Limits(memory)],
    ["defineLimits", () => defineLimits({ a: { max: 1, per: "1s", all: true } })],
    ["an override", () => defineLimits({ a: { ...quota, overrides: { g: { max: 2 } } } })],
    ["a breaker", () => defineLimits({ a: { ...quota, breaker } })],
    [
      "RateLimiter",
      () => new RateLimiter(new InMemoryRateLimiterStorage(), "n", { maxExecutions: 1, windowSizeInSeconds: 1 }),
    ],
    ["ConcurrencyLimiter", () => new ConcurrencyLimiter(1)],
    ["DelayLimiter", () => new DelayLimiter(1)],
    ["EvenlySpacedRateLimiter", () => new EvenlySpacedRateLimiter({ maxExecutions: 1, windowSizeInSeconds: 1 })],
    ["AdaptiveLimiter", () => new AdaptiveLimiter({ ceiling: 5, windowSizeInSeconds: 1 })],
    ["limit", () => limit(async () => {}, new ConcurrencyLimiter(1))],
  ])("are none of %s", (_, make) => {
    // What is wrong by itself would hide what this is about.
    expect(make).not.toThrow();
    expect(() => polluted(make)).not.toThrow();
  });

  const memory = new MemoryStorage();

  it("options on a prototype are none of a job", async () => {
    const queue = new Queue("q", { storage: memory });
    const job = await polluted(() => queue.add("t", { a: 1 }));
    expect(await job.info()).toMatchObject({ priority: 0, maxAttempts: 5, state: "waiting" });
    const inherited = Object.create({ priority: 7 }) as object;
    expect(await (await queue.add("t", null, inherited)).info()).toMatchObject({ priority: 0 });
  });
});
