import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  EvenlySpacedRateLimiter,
  type IJobExecuteContext,
  type ILimiter,
  InMemoryRateLimiterStorage,
  Job,
  type JobClass,
  JobQueueClient,
  JobQueueServer,
  MemoryStorage,
  Queue,
  RateLimitedError,
  RateLimiter,
  RetryableJobError,
  Worker,
} from "../../src/index.ts";
import { mostInAnyWindow, smallestGap } from "../../examples/common/windows.ts";

/*
 * The code that the queue is documented with, as it was written, with nothing changed but where it is imported from; and after
 * each block what its text says of it.
 *
 * The blocks take their time from the system, so it is the system's time that stands still until it is moved.
 */
beforeAll(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: Date.UTC(2030, 0, 1) });
});
afterAll(() => {
  vi.useRealTimers();
});
afterEach(() => {
  vi.unstubAllGlobals();
});

const MINUTE = 60_000;
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const numbers = (length: number) => Array.from({ length }, (_, i) => i);

/** Notes when work starts, and how much of it runs at once. */
class Watch {
  readonly starts: number[] = [];
  running = 0;
  peak = 0;

  async during(ms: number): Promise<void> {
    this.starts.push(Date.now());
    this.peak = Math.max(this.peak, ++this.running);
    await sleep(ms);
    this.running -= 1;
  }

  most(windowMs: number): number {
    return mostInAnyWindow(this.starts, windowMs);
  }
}

/** A class of jobs that take so long, and who watches them. */
function watched(ms: number): { readonly watch: Watch; readonly WatchedJob: JobClass<number, number> } {
  const watch = new Watch();
  class WatchedJob extends Job<number, number> {
    async execute(input: number): Promise<number> {
      await watch.during(ms);
      return input;
    }
  }
  return { watch, WatchedJob };
}

async function submit(server: JobQueueServer, jobs: number): Promise<JobQueueClient<number, number>> {
  const { storage, queueName } = server;
  const client = new JobQueueClient<number, number>({ storage, queueName });
  await client.submitBatch(numbers(jobs));
  return client;
}

async function stop(...servers: (JobQueueServer | Worker)[]): Promise<void> {
  const stopped = Promise.all(servers.map((server) => server.stop({ timeout: 0 })));
  await advance(1_000);
  await stopped;
}

describe("the documented server blocks", () => {
  it("integration with the job queue", async () => {
    const { watch, WatchedJob: MyJob } = watched(7_000);
    const storage = new MemoryStorage();

    const server = new JobQueueServer(MyJob, {
      storage,
      queueName: "my-queue",
      limiter: new CompositeLimiter([
        new ConcurrencyLimiter(3),
        new EvenlySpacedRateLimiter({
          maxExecutions: 30,
          windowSizeInSeconds: 60,
        }),
      ]),
      workerCount: 3,
    });

    await server.start();
    const client = await submit(server, 20);
    await advance(2 * MINUTE);
    expect(await client.size("completed")).toBe(20);
    expect(watch.peak).toBe(3);
    expect(smallestGap(watch.starts)).toBe(2_000);
    // Three at once, seven seconds each, two seconds apart: the fourth has to wait for the first to end.
    expect(watch.starts.slice(0, 6).map((at) => at - watch.starts[0]!)).toEqual([
      0, 2_000, 4_000, 7_000, 9_000, 11_000,
    ]);
    await stop(server);
  });

  it("the server passes its limiter to every worker it creates", async () => {
    const { watch, WatchedJob: MyJob } = watched(1_000);
    const server = new JobQueueServer(MyJob, {
      storage: new MemoryStorage(),
      queueName: "my-queue",
      limiter: new ConcurrencyLimiter(2),
      workerCount: 3,
    });
    await server.start();
    await submit(server, 10);
    await advance(10_000);
    expect(watch.starts).toHaveLength(10);
    expect(watch.peak).toBe(2);
    await stop(server);
  });

  it("the worker consults the limiter before every claim, and records every start and end with it", async () => {
    const calls: string[] = [];
    const limiter: ILimiter = {
      async canProceed() {
        calls.push("canProceed");
        return true;
      },
      async recordJobStart() {
        calls.push("recordJobStart");
      },
      async recordJobCompletion() {
        calls.push("recordJobCompletion");
      },
      getNextAvailableTime: async () => new Date(),
      setNextAvailableTime: async () => {},
      clear: async () => {},
    };
    class LoopJob extends Job<boolean, void> {
      async execute(fails: boolean): Promise<void> {
        calls.push("execute");
        if (fails) throw new RetryableJobError("again", new Date(Date.now() + MINUTE));
      }
    }
    const server = new JobQueueServer(LoopJob, { storage: new MemoryStorage(), queueName: "loop", limiter });
    const client = new JobQueueClient<boolean, void>({ storage: server.storage, queueName: "loop" });
    await server.start();
    await client.submit(false);
    await advance(0);
    const once = ["canProceed", "recordJobStart", "execute", "recordJobCompletion"];
    expect(calls).toEqual(once);
    await client.submit(true); // success or failure
    await advance(0);
    expect(calls).toEqual([...once, ...once]);
    await stop(server);
  });

  it("job rescheduling: the limiter says when, unless the error does", async () => {
    const starts: Record<string, number[]> = { dated: [], undated: [] };
    const limiter = new ConcurrencyLimiter(1);
    class Reschedules extends Job<"dated" | "undated", void> {
      async execute(input: "dated" | "undated"): Promise<void> {
        starts[input]!.push(Date.now());
        if (this.attempt > 1) return;
        if (input === "dated") throw new RetryableJobError("busy", new Date(Date.now() + 10_000));
        await limiter.setNextAvailableTime(new Date(Date.now() + 30_000));
        throw new RetryableJobError("busy");
      }
    }
    const server = new JobQueueServer(Reschedules, { storage: new MemoryStorage(), queueName: "again", limiter });
    const client = new JobQueueClient<string, void>({ storage: server.storage, queueName: "again" });
    await server.start();
    await client.submit("dated");
    await advance(MINUTE);
    const undated = await client.submit("undated");
    await advance(0);
    expect(await client.getJob(undated.id)).toMatchObject({
      status: "scheduled",
      runAt: new Date(starts["undated"]![0]! + 30_000),
    });
    await advance(MINUTE);
    expect(starts["dated"]![1]! - starts["dated"]![0]!).toBe(10_000);
    expect(starts["undated"]![1]! - starts["undated"]![0]!).toBe(30_000);
    await stop(server);
  });

  it("external rate limit signals", async () => {
    interface ApiInput {
      readonly url: string;
    }
    interface ApiOutput {
      readonly ok: string;
    }
    const called: [url: string, at: number][] = [];
    const refused = new Map([
      ["https://api.example/says", "30"],
      ["https://api.example/silent", null],
    ]);
    vi.stubGlobal("fetch", async (url: string) => {
      called.push([url, Date.now()]);
      const retryAfter = refused.get(url);
      if (retryAfter === undefined) return Response.json({ ok: url });
      refused.delete(url);
      return new Response("", { status: 429, headers: retryAfter === null ? {} : { "Retry-After": retryAfter } });
    });

    class ApiJob extends Job<ApiInput, ApiOutput> {
      // @ts-expect-error -- the block does not use its context
      // oxlint-disable-next-line no-unused-vars -- as it was written
      async execute(input: ApiInput, context: IJobExecuteContext): Promise<ApiOutput> {
        const response = await fetch(input.url);
        if (response.status === 429) {
          const retryAfter = parseInt(response.headers.get("Retry-After") || "60", 10);
          throw new RetryableJobError("Rate limited by API", new Date(Date.now() + retryAfter * 1000));
        }
        return await response.json();
      }
    }

    const storage = new MemoryStorage();
    const server = new JobQueueServer(ApiJob, { storage, queueName: "api" });
    const client = new JobQueueClient<ApiInput, ApiOutput>({ storage, queueName: "api" });
    await server.start();
    const handles = await client.submitBatch(
      ["fine", "says", "silent"].map((path) => ({ url: `https://api.example/${path}` })),
    );
    const begin = Date.now();
    await advance(2 * MINUTE);
    expect(await Promise.all(handles.map((handle) => handle.waitFor()))).toEqual([
      { ok: "https://api.example/fine" },
      { ok: "https://api.example/says" },
      { ok: "https://api.example/silent" },
    ]);
    expect(called.slice(3).map(([url, at]) => [url.slice(20), at - begin])).toEqual([
      ["says", 30_000],
      ["silent", 60_000],
    ]);
    expect(server.getStats()).toMatchObject({ completedJobs: 3, retriedJobs: 2 });
    await stop(server);
  });
});

describe("the documented recipes", () => {
  it("recipe 1: AI provider rate limiting", async () => {
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

    const { watch, WatchedJob } = watched(3_000);
    const server = new JobQueueServer(WatchedJob, {
      storage: new MemoryStorage(),
      queueName: "anthropic",
      limiter: anthropicLimiter,
      workerCount: 8,
    });
    await server.start();
    await submit(server, 120);
    await advance(MINUTE - 1);
    expect(watch.starts).toHaveLength(50);
    await advance(2 * MINUTE);
    expect(watch.starts).toHaveLength(120);
    expect(watch.peak).toBe(5);
    expect(watch.most(MINUTE)).toBe(50);
    await stop(server);
  });

  it("recipe 2: gentle API crawling", async () => {
    const crawlLimiter = new CompositeLimiter([
      new EvenlySpacedRateLimiter({
        maxExecutions: 10,
        windowSizeInSeconds: 60,
      }),
      new DelayLimiter(500), // at least 500ms between starts
    ]);

    const { watch, WatchedJob } = watched(100);
    const server = new JobQueueServer(WatchedJob, {
      storage: new MemoryStorage(),
      queueName: "crawl",
      limiter: crawlLimiter,
      workerCount: 4,
    });
    await server.start();
    await submit(server, 15);
    await advance(2 * MINUTE);
    expect(watch.starts.map((at) => at - watch.starts[0]!)).toEqual(numbers(15).map((n) => n * 6_000));
    await stop(server);
  });

  it("recipe 3: multi-provider queues", async () => {
    const storage = new InMemoryRateLimiterStorage();
    const openaiStorage = new MemoryStorage();
    const ollamaStorage = new MemoryStorage();
    const { watch: openai, WatchedJob: OpenAiJob } = watched(100);
    const { watch: ollama, WatchedJob: OllamaJob } = watched(1_000);

    const openaiServer = new JobQueueServer(OpenAiJob, {
      storage: openaiStorage,
      queueName: "openai",
      limiter: new CompositeLimiter([
        new ConcurrencyLimiter(10),
        new RateLimiter(storage, "openai", {
          maxExecutions: 500,
          windowSizeInSeconds: 60,
        }),
      ]),
      workerCount: 4,
    });

    const ollamaServer = new JobQueueServer(OllamaJob, {
      storage: ollamaStorage,
      queueName: "ollama",
      limiter: new ConcurrencyLimiter(2), // local GPU, limit concurrency only
      workerCount: 1,
    });

    await Promise.all([openaiServer.start(), ollamaServer.start()]);
    await submit(openaiServer, 600);
    await submit(ollamaServer, 30);
    await advance(MINUTE - 1);
    expect(openai.starts).toHaveLength(500);
    expect(openai.peak).toBe(10);
    // The one queue does not notice that the other is at its limit.
    expect(ollama.starts).toHaveLength(30);
    expect(ollama.peak).toBe(2);
    await advance(MINUTE);
    expect(openai.starts).toHaveLength(600);
    expect(openai.most(MINUTE)).toBe(500);
    // More workers than the limit allows make no difference to the limit.
    await ollamaServer.scaleWorkers(4);
    await submit(ollamaServer, 8);
    await advance(4_000);
    expect(ollama.starts).toHaveLength(38);
    expect(ollama.peak).toBe(2);
    await stop(openaiServer, ollamaServer);
  });

  it("recipe 4: no rate limiting", async () => {
    const storage = new MemoryStorage();
    const { watch, WatchedJob: LocalJob } = watched(1_000);

    const server = new JobQueueServer(LocalJob, {
      storage,
      queueName: "local-compute",
      // No limiter option = NullLimiter (no restrictions)
      workerCount: 8,
    });

    await server.start();
    await submit(server, 80);
    await advance(10_000);
    expect(watch.starts).toHaveLength(80);
    expect(watch.peak).toBe(8);
    expect(watch.most(1_000)).toBe(8);
    await stop(server);
  });
});

describe("the documented worker blocks", () => {
  /** Adds so many jobs of one kind. */
  const add = (storage: MemoryStorage, queue: string, jobs: number, data: object = {}) =>
    new Queue(queue, { storage }).addBulk(numbers(jobs).map(() => ({ type: "job", data })));

  it("10 jobs per second", async () => {
    const store = new MemoryStorage();
    const watch = new Watch();
    const callExternalAPI = async (_data: unknown) => watch.during(10);

    const worker = new Worker(
      "api-calls",
      async (job) => {
        await callExternalAPI(job.data);
      },
      {
        store,
        limiter: { max: 10, duration: 1_000 },
      },
    );

    await add(store, "api-calls", 35);
    await advance(999);
    expect(watch.starts).toHaveLength(10);
    // The limiter does not defer jobs: they remain in the storage, waiting.
    expect(await new Queue("api-calls", { store }).counts()).toMatchObject({ waiting: 25, scheduled: 0, active: 0 });
    await advance(3_000);
    expect(watch.starts).toHaveLength(35);
    expect(watch.most(1_000)).toBe(10);
    await stop(worker);
  });

  it("100 jobs per minute", async () => {
    const store = new MemoryStorage();
    const watch = new Watch();
    const sent: string[] = [];
    const sendEmail = async (to: string, subject: string) => {
      sent.push(`${subject} to ${to}`);
      await watch.during(100);
    };

    const worker = new Worker(
      "emails",
      async (job) => {
        await sendEmail(job.data.to, job.data.subject);
      },
      {
        store,
        limiter: { max: 100, duration: 60_000 },
      },
    );

    await add(store, "emails", 250, { to: "ada@example.com", subject: "hello" });
    await advance(59_999);
    expect(watch.starts).toHaveLength(100);
    await advance(2 * MINUTE);
    expect(sent).toHaveLength(250);
    expect(sent[0]).toBe("hello to ada@example.com");
    expect(watch.most(MINUTE)).toBe(100);
    await stop(worker);
  });

  it("combined with concurrency", async () => {
    const store = new MemoryStorage();
    const watch = new Watch();
    let duration = 400;
    const postWebhook = async (_url: string, _payload: unknown) => watch.during(duration);

    const worker = new Worker(
      "webhooks",
      async (job) => {
        await postWebhook(job.data.url, job.data.payload);
      },
      {
        store,
        concurrency: 5,
        limiter: { max: 20, duration: 1_000 },
      },
    );
    // Up to 5 concurrent jobs, but no more than 20 started per second

    await add(store, "webhooks", 100, { url: "https://example.com", payload: {} });
    await advance(1_999);
    // Slow calls: it is the concurrency that holds them, 5 every 400 ms.
    expect(watch.starts).toHaveLength(25);
    duration = 10;
    await advance(10_000);
    expect(watch.starts).toHaveLength(100);
    expect(watch.peak).toBe(5);
    expect(watch.most(1_000)).toBe(20);
    await stop(worker);
  });

  it("configuration options", async () => {
    const store = new MemoryStorage();
    const watch = new Watch();
    const handler = () => watch.during(1);
    const max = 3;
    const duration = 500;

    const worker = new Worker("queue-name", handler, {
      store,
      limiter: { max, duration },
    });

    await add(store, "queue-name", 9);
    await advance(1_499);
    expect(watch.starts).toHaveLength(9);
    expect(watch.most(duration)).toBe(max);
    await stop(worker);
  });

  it("how it works: there is no fixed reset point, and no poll to wait for", async () => {
    const storage = new MemoryStorage();
    const watch = new Watch();
    const worker = new Worker("sliding", () => watch.during(1), { storage, limiter: { max: 2, duration: 1_000 } });
    await add(storage, "sliding", 1);
    await advance(900);
    await add(storage, "sliding", 4);
    const begin = watch.starts[0]!;
    await advance(5_000);
    // Each one exactly when the start two before it is a second old.
    expect(watch.starts.map((at) => at - begin)).toEqual([0, 900, 1_000, 1_900, 2_000]);
    await stop(worker);
  });

  it.each([
    { workers: 1, max: 10, scope: "worker", rate: 10 },
    { workers: 3, max: 10, scope: "worker", rate: 30 },
    { workers: 3, max: 3, scope: "worker", rate: 9 },
    // What the documented worker cannot do: a rate for all workers together. Here that is the default.
    { workers: 3, max: 10, scope: undefined, rate: 10 },
  ] as const)("scope: $workers workers, max $max, scope $scope: $rate a second in all", async (row) => {
    const storage = new MemoryStorage();
    const watch = new Watch();
    const limiter = { max: row.max, duration: 1_000, scope: row.scope };
    const workers = numbers(row.workers).map(
      () => new Worker("scope", () => watch.during(1), { storage, concurrency: 20, limiter }),
    );
    await add(storage, "scope", 90);
    await advance(999);
    expect(watch.starts).toHaveLength(row.rate);
    await advance(1_000);
    expect(watch.starts).toHaveLength(2 * row.rate);
    expect(watch.most(1_000)).toBe(row.rate);
    await stop(...workers);
  });

  it("a batch of 10 jobs counts as 10 against the limiter", async () => {
    const storage = new MemoryStorage();
    const batches: number[] = [];
    const worker = new Worker("batches", async (jobs) => void batches.push(jobs.length), {
      storage,
      batch: { size: 10 },
      limiter: { max: 25, duration: 1_000 },
    });
    await add(storage, "batches", 60);
    await advance(999);
    expect(batches.reduce((sum, size) => sum + size, 0)).toBe(25);
    expect(Math.max(...batches)).toBe(10);
    await advance(2_000);
    expect(batches.reduce((sum, size) => sum + size, 0)).toBe(60);
    await stop(worker);
  });
});

describe("the course's exercises", () => {
  it("exercise 1: 5 per minute, 20 jobs, only 5 run in the first minute", async () => {
    const storage = new MemoryStorage();
    const watch = new Watch();
    const queue = new Queue("course", { storage });
    const worker = new Worker(
      "course",
      { send_webhook: () => watch.during(50) },
      {
        storage,
        concurrency: 20,
        limiter: { max: 5, duration: "1m" },
      },
    );
    await queue.addBulk(numbers(20).map((n) => ({ type: "send_webhook", data: n })));
    const ran: number[] = [];
    for (let minute = 0; minute < 4; minute++) {
      await advance(MINUTE - (minute === 0 ? 1 : 0));
      ran.push(watch.starts.length);
    }
    expect(ran).toEqual([5, 10, 15, 20]);
    expect(watch.most(MINUTE)).toBe(5);
    expect((await queue.list({ state: "completed" })).jobs.every(({ attempt }) => attempt === 1)).toBe(true);
    await stop(worker);
  });

  const RATE_LIMITS: Record<string, number> = {
    send_webhook: 30, // 30 webhooks per minute
    sync_inventory: 60, // 60 syncs per minute
    send_email: 120, // 120 emails per minute
  };

  it("exercise 2: each type respects its own limit, independently", async () => {
    const storage = new MemoryStorage();
    const queue = new Queue("course", { storage });
    const watches = new Map(Object.keys(RATE_LIMITS).map((type) => [type, new Watch()]));
    const workers = Object.entries(RATE_LIMITS).map(
      ([type, maxExecutions]) =>
        new Worker(
          "course",
          { [type]: () => watches.get(type)!.during(100) },
          {
            storage,
            concurrency: 20,
            limiter: new RateLimiter(storage.rates, type, { maxExecutions, windowSizeInSeconds: 60 }),
          },
        ),
    );
    // The webhooks come first, far more of them than may run: what stands behind them does not wait for them.
    for (const type of watches.keys()) {
      await queue.addBulk(numbers(200).map((n) => ({ type, data: n })));
    }
    await advance(MINUTE - 1);
    const ran = () => Object.fromEntries(Array.from(watches, ([type, { starts }]) => [type, starts.length]));
    expect(ran()).toEqual(RATE_LIMITS);
    await advance(MINUTE);
    expect(ran()).toEqual({ send_webhook: 60, sync_inventory: 120, send_email: 200 });
    for (const [type, watch] of watches) expect(watch.most(MINUTE)).toBe(RATE_LIMITS[type]);
    await stop(...workers);
  });

  it("one limit for all the types that call one service", async () => {
    const SERVICE_LIMITS: Record<string, { types: string[]; maxPerMinute: number }> = {
      email_provider: {
        types: ["send_email", "send_digest", "send_notification"],
        maxPerMinute: 120,
      },
      payment_gateway: {
        types: ["charge_card", "refund", "retry_payment"],
        maxPerMinute: 60,
      },
    };
    const storage = new MemoryStorage();
    const queue = new Queue("course", { storage });
    const watches = new Map(Object.keys(SERVICE_LIMITS).map((service) => [service, new Watch()]));
    const workers = Object.entries(SERVICE_LIMITS).map(([service, { types, maxPerMinute }]) => {
      const handler = () => watches.get(service)!.during(100);
      return new Worker("course", Object.fromEntries(types.map((type) => [type, handler])), {
        storage,
        concurrency: 20,
        limiter: new RateLimiter(storage.rates, service, { maxExecutions: maxPerMinute, windowSizeInSeconds: 60 }),
      });
    });
    for (const { types } of Object.values(SERVICE_LIMITS)) {
      for (const type of types) await queue.addBulk(numbers(120).map((n) => ({ type, data: n })));
    }
    await advance(MINUTE - 1);
    // Not 360 and 180.
    expect(watches.get("email_provider")!.starts).toHaveLength(120);
    expect(watches.get("payment_gateway")!.starts).toHaveLength(60);
    await stop(...workers);
  });

  /** The receiving server: 30 a minute, and 429 for the rest. */
  function receiver() {
    const seen = { taken: 0, refused: 0 };
    let windowEnds = 0;
    let left = 0;
    vi.stubGlobal("fetch", async () => {
      if (Date.now() >= windowEnds) {
        windowEnds = Date.now() + MINUTE;
        left = 30;
      }
      if (left-- > 0) {
        seen.taken += 1;
        return new Response("ok");
      }
      seen.refused += 1;
      const seconds = Math.ceil((windowEnds - Date.now()) / 1_000);
      return new Response("", { status: 429, headers: { "Retry-After": String(seconds) } });
    });
    return seen;
  }

  async function send(
    limiter: { max: number; duration: number } | undefined,
    onRefusal: (response: Response) => Error,
  ) {
    const storage = new MemoryStorage();
    const queue = new Queue("course", { storage });
    const handler = async () => {
      const response = await fetch("https://receiver.example");
      if (response.status === 429) throw onRefusal(response);
    };
    const worker = new Worker("course", { send_webhook: handler }, { storage, concurrency: 10, limiter });
    await queue.addBulk(numbers(100).map((n) => ({ type: "send_webhook", data: n })));
    await advance(10 * MINUTE);
    const { jobs } = await queue.list({ limit: 100 });
    await stop(worker);
    return { counts: await queue.counts(), attempts: Math.max(...jobs.map(({ attempt }) => attempt)) };
  }

  it("exercise 3: without a limiter jobs fail, retry and fail; with one, none does", async () => {
    const storm = receiver();
    const without = await send(undefined, ({ status }) => new Error(`HTTP ${status}`));
    expect(without.counts).toMatchObject({ completed: 30, dead: 70 });
    expect(storm).toEqual({ taken: 30, refused: 350 });

    const calm = receiver();
    const limited = await send({ max: 30, duration: MINUTE }, ({ status }) => new Error(`HTTP ${status}`));
    expect(limited).toMatchObject({ counts: { completed: 100, dead: 0 }, attempts: 1 });
    expect(calm).toEqual({ taken: 100, refused: 0 });
  });

  it("exercise 3, without knowing the limit: what the service says is kept, and costs no attempt", async () => {
    const seen = receiver();
    const informed = await send({ max: 1_000, duration: 1_000 }, (response) => new RateLimitedError(response));
    expect(informed).toMatchObject({ counts: { completed: 100, dead: 0 }, attempts: 1 });
    expect(seen.taken).toBe(100);
    // What was in flight when the service first refused, once a minute; not a storm.
    expect(seen.refused).toBeLessThanOrEqual(3 * 10);
  });
});
