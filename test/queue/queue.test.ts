import { describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  DuplicateJobError,
  Job,
  JobNotFoundError,
  JobQueueClient,
  type JobQueueClientOptions,
  JobQueueServer,
  type JobQueueServerOptions,
  JobTimeoutError,
  MemoryStorage,
  OptionsError,
  Queue,
  RetryableJobError,
  Worker,
  type WorkerOptions,
} from "../../src/index.ts";
import { FakeClock, faultyStorage } from "../../src/testing/index.ts";

function open() {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  return { clock, storage, queue: new Queue("q", { storage, clock }) };
}

/** Claims the next job, as a worker would. */
const claimOne = async ({ storage }: ReturnType<typeof open>) => {
  const request = { queue: "q", worker: "w", max: 1, types: null, leaseMs: 60_000, limits: [], settle: [] };
  return (await storage.claim(request)).jobs[0];
};

describe("looking up", () => {
  it("a job is found by its idempotency key, and an invalid key is refused", async () => {
    const { queue, clock } = open();
    const job = await queue.add("t", { n: 1 }, { idempotencyKey: "k", idempotencyTtl: "1s" });
    const found = await queue.getByKey("k");
    expect([found?.id, found?.data, found?.created]).toEqual([job.id, { n: 1 }, false]);
    expect(await queue.getByKey("other")).toBeUndefined();
    await clock.advance(1_000);
    expect(await queue.getByKey("k")).toBeUndefined();
    await expect(queue.getByKey("")).rejects.toThrow(/`idempotencyKey`/);
    await expect(queue.getByKey(1 as never)).rejects.toThrow(OptionsError);
  });
});

describe("adding", () => {
  it("addBulk() adds all jobs or, if one is invalid, none", async () => {
    const { queue } = open();
    const bad = [
      { type: "t", data: 1 },
      { type: "t", data: { born: new Date() } },
    ];
    await expect(queue.addBulk(bad)).rejects.toThrow(/`data\.born`/);
    await queue.add("t", "first", { idempotencyKey: "k" });
    const taken = { type: "t", data: "other", options: { idempotencyKey: "k" } };
    await expect(queue.addBulk([{ type: "t", data: 1 }, taken])).rejects.toThrow(DuplicateJobError);
    expect((await queue.counts()).waiting).toBe(1);
    expect(await queue.addBulk([])).toEqual([]);
    const jobs = await queue.addBulk([
      { type: "a", data: 1 },
      { type: "b", data: 2, options: { delay: "1h" } },
    ]);
    expect(jobs.map(({ type, data, created }) => [type, data, created])).toEqual([
      ["a", 1, true],
      ["b", 2, true],
    ]);
    expect(await queue.counts()).toMatchObject({ waiting: 2, scheduled: 1 });
  });

  it("options of a job come before the defaults of its queue", async () => {
    const { storage, clock } = open();
    const queue = new Queue("q", { storage, clock, defaults: { maxAttempts: 2, priority: 7 } });
    const own = await queue.add("t", null, { priority: 1, maxAttempts: undefined });
    expect(await own.info()).toMatchObject({ priority: 1, maxAttempts: 2 });
  });

  it("add() finds the earlier job of an idempotency key, and refuses another payload", async () => {
    const { queue, clock } = open();
    const options = { idempotencyKey: "order-1", idempotencyTtl: "2d" } as const;
    const first = await queue.add("t", { a: 1, b: [2] }, options);
    const again = await queue.add("t", { b: [2], a: 1 }, options);
    expect([first.created, again.created, again.id]).toEqual([true, false, first.id]);
    await expect(queue.add("t", { a: 2 }, options)).rejects.toThrow(DuplicateJobError);
    await expect(queue.add("t", { a: 1, b: [2] }, { ...options, onDuplicate: "reject" })).rejects.toThrow(/order-1/);
    await first.remove();
    expect((await queue.add("t", { a: 1, b: [2] }, options)).created).toBe(false);
    await clock.advance(2 * 86_400_000);
    expect((await queue.add("t", { a: 2 }, options)).created).toBe(true);
    const replaced = await queue.add("t", { a: 3 }, { ...options, onDuplicate: "replace" });
    expect(replaced.created).toBe(true);
    expect((await queue.list()).jobs.map(({ data }) => data)).toEqual([{ a: 3 }]);
  });

  it("add() checks data by the schema of its type, and stores the output of the schema", async () => {
    const { storage, clock } = open();
    const schema = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: async (value: unknown) =>
          typeof (value as { to?: unknown }).to === "string"
            ? { value: { ...(value as object), retries: 3 } }
            : { issues: [{ message: "an address is needed", path: ["to"] }] },
      },
    } as const;
    const queue = new Queue("q", { storage, clock, schemas: { mail: schema } });
    const job = await queue.add("mail", { to: "a@b.c" });
    expect((await job.info())?.data).toEqual({ to: "a@b.c", retries: 3 });
    await expect(queue.add("mail", { to: 1 })).rejects.toThrow(/`data\.to`.*an address is needed/);
    await queue.add("constructor", {});
    expect(() => new Queue("q", { storage, schemas: { mail: {} as never } })).toThrow(/schemas\.mail/);
  });
});

describe("waiting for a result", () => {
  it("result() settles however the job ends: cancelled, removed, dead, deleted", async () => {
    const house = open();
    const { queue } = house;
    const cancelled = await queue.add("t", null);
    const waits = expect(cancelled.result()).rejects.toThrow(AbortSignalJobError);
    await cancelled.cancel();
    await waits;
    const removed = await queue.add("t", null);
    const gone = expect(removed.result()).rejects.toThrow(JobNotFoundError);
    await removed.remove();
    await house.clock.advance(1_000);
    await gone;
    const job = await queue.add("t", null);
    const active = await claimOne(house);
    const dead = expect(job.result()).rejects.toThrow("broken");
    const error = { name: "Error", message: "broken" };
    await house.storage.settle([{ id: active!.id, token: active!.token, to: "dead", error }]);
    await dead;
    expect(house.clock.timers).toBe(0);
  });

  it("result() can be aborted by a signal or a timeout, and the job goes on", async () => {
    const { queue, clock } = open();
    const job = await queue.add("t", null);
    const stop = new AbortController();
    const aborted = expect(job.result({ signal: stop.signal })).rejects.toThrow("enough");
    stop.abort(new Error("enough"));
    await aborted;
    await expect(job.result({ signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow("before");
    const late = expect(job.result({ timeout: "5s" })).rejects.toThrow(JobTimeoutError);
    await clock.advance(5_000);
    await late;
    expect(clock.timers).toBe(0);
    expect(await job.info()).toMatchObject({ state: "waiting" });
  });

  it("the last date there is can be the due date of a job that is tried again", async () => {
    const { clock, storage, queue } = open();
    const last = new Date(8.64e15);
    // The delay counts from when the outcome is written.
    const slow = faultyStorage(storage, () => ({ kind: "delay", ms: 1 }), { clock });
    const job = await queue.add("t", null);
    const worker = new Worker("q", () => Promise.reject(new RetryableJobError("much later", last)), {
      storage: slow,
      clock,
    });
    await clock.advance(100);
    const stopped = worker.stop();
    await clock.advance(100);
    await stopped;
    expect((await job.info())?.runAt).toEqual(last);
  });

  it("result() is not refused for an earlier job that is kept, though the options say keepFor: 0", async () => {
    const { clock, storage, queue } = open();
    const kept = await queue.add("t", null, { idempotencyKey: "k" });
    const again = await queue.add("t", null, { idempotencyKey: "k", keepFor: 0 });
    expect([again.id, again.created]).toEqual([kept.id, false]);
    const result = again.result();
    const worker = new Worker("q", async () => "done", { storage, clock });
    expect(await result).toBe("done");
    await worker.stop();
  });

  it("a weight that never fits, and data that a schema refuses, are refused by the name of the call", async () => {
    const { clock, storage } = open();
    const limits = { tokens: { max: 10, per: "1s", weight: "tokens", types: ["t"] } } as const;
    const even = { "~standard": { validate: (value: unknown) => ({ issues: [{ message: `not ${String(value)}` }] }) } };
    const queue = new Queue("q", { storage, clock, limits, schemas: { even } });
    const heavy = { weights: { tokens: 11 } };
    const at = "expected `weights.tokens` to be at most 10, got 11 (number); the limit";
    await expect(queue.add("t", 1, heavy)).rejects.toThrow(`add: ${at}`);
    await expect(queue.addBulk([{ type: "t", data: 1, options: heavy }])).rejects.toThrow(`addBulk: ${at}`);
    const job = await queue.add("t", 1);
    const error = await job.update(heavy).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OptionsError);
    expect(error).toMatchObject({ option: "weights.tokens", value: 11, expected: "at most 10" });
    expect((error as Error).message).toMatch(`update: ${at}`);
    await expect(queue.addBulk([{ type: "even", data: 1 }])).rejects.toThrow("addBulk: expected `data` to be");
  });

  it.each([[5], [null], [[]]])("deadLetters() and limiter() refuse options that are no object: %j", async (options) => {
    const { storage, queue } = open();
    await expect(queue.deadLetters(options as never)).rejects.toThrow(
      "deadLetters: expected `options` to be an object",
    );
    expect(() => storage.limiter("l", options as never)).toThrow("expected `options` to be an object");
  });

  it("result() is refused if keepFor is 0", async () => {
    const { queue } = open();
    const job = await queue.add("t", null, { keepFor: 0 });
    await expect(job.result()).rejects.toThrow(/`keepFor`/);
  });
});

describe("looking after jobs", () => {
  it("jobs are listed by state, type, group and time, page by page", async () => {
    const { queue, clock } = open();
    for (let i = 0; i < 7; i++) {
      await queue.add(i % 2 === 0 ? "even" : "odd", i, { group: i < 4 ? "a" : "b", delay: i === 6 ? "1h" : 0 });
      await clock.advance(1_000);
    }
    const data = async (options: Parameters<typeof queue.list>[0]) =>
      (await queue.list(options)).jobs.map((job) => job.data as number);
    expect(await data({})).toEqual([6, 5, 4, 3, 2, 1, 0]);
    expect(await data({ state: "scheduled" })).toEqual([6]);
    expect(await data({ type: "odd", group: "a" })).toEqual([3, 1]);
    const start = clock.wall() - 7_000;
    expect(await data({ since: new Date(start + 2_000), until: new Date(start + 4_000) })).toEqual([3, 2]);
    const pages: number[][] = [];
    let cursor: string | undefined;
    do {
      const page = await queue.list({ limit: 3, ...(cursor !== undefined && { cursor }) });
      pages.push(page.jobs.map((job) => job.data as number));
      ({ cursor } = page);
    } while (cursor !== undefined);
    expect(pages.flat()).toEqual([6, 5, 4, 3, 2, 1, 0]);
    await expect(queue.list({ cursor: "garbage" })).rejects.toThrow(OptionsError);
  });

  it("a job is retried, promoted and removed if its state allows", async () => {
    const { queue } = open();
    const job = await queue.add("t", null, { delay: "1h" });
    expect(await queue.retry(job.id)).toBe(false);
    expect(await queue.promote(job.id)).toBe(true);
    expect(await queue.promote(job.id)).toBe(false);
    expect(await queue.cancel(job.id)).toBe(true);
    expect(await queue.retry(job.id)).toBe(true);
    expect(await queue.info(job.id)).toMatchObject({ state: "waiting" });
    expect(await queue.remove(job.id)).toBe(true);
    await expect(queue.remove(job.id)).rejects.toThrow(JobNotFoundError);
    expect(await queue.get(job.id)).toBeUndefined();
    await expect(queue.cancel("missing")).rejects.toThrow(/there is no job "missing"/);
  });

  it("a queue does not change jobs of other queues", async () => {
    const { queue, storage, clock } = open();
    const other = new Queue("other", { storage, clock });
    const job = await other.add("t", null);
    expect(await queue.get(job.id)).toBeUndefined();
    await expect(queue.remove(job.id)).rejects.toThrow(JobNotFoundError);
    expect(await queue.redrive([job.id])).toBe(0);
    expect(await queue.drain()).toBe(0);
    expect((await other.counts()).waiting).toBe(1);
  });

  it("dead jobs are redriven: one, some, all of a type", async () => {
    const house = open();
    const { queue } = house;
    const jobs = await queue.addBulk(Array.from({ length: 6 }, (_, i) => ({ type: i < 4 ? "a" : "b", data: i })));
    for (let claimed = await claimOne(house); claimed !== undefined; claimed = await claimOne(house)) {
      const error = { name: "Error", message: "no" };
      await house.storage.settle([{ id: claimed.id, token: claimed.token, to: "dead", error }]);
    }
    expect((await queue.deadLetters({ type: "a" })).jobs).toHaveLength(4);
    expect(await queue.redrive(jobs[0]!.id)).toBe(1);
    expect(await queue.redrive([jobs[0]!.id, jobs[1]!.id, "missing"])).toBe(1);
    expect(await queue.redrive({ all: true, type: "b" })).toBe(2);
    expect(await queue.counts()).toMatchObject({ waiting: 4, dead: 2 });
    expect(await queue.redrive({ all: true })).toBe(2);
    expect(await jobs[0]!.info()).toMatchObject({ attempt: 0, state: "waiting" });
  });

  it("any number of jobs is drained and purged in small steps", async () => {
    const { queue, clock } = open();
    await queue.addBulk(Array.from({ length: 1_200 }, (_, i) => ({ type: "t", data: i })));
    await queue.add("t", null, { delay: "1h" });
    expect(await queue.drain()).toBe(1_201);
    const jobs = await queue.addBulk(Array.from({ length: 3 }, (_, i) => ({ type: "t", data: i })));
    for (const job of jobs) await job.cancel();
    expect(await queue.purge({ olderThan: "1m" })).toBe(0);
    await clock.advance(60_001);
    expect(await queue.purge({ olderThan: "1m", state: "dead" })).toBe(0);
    expect(await queue.purge({ olderThan: "1m" })).toBe(3);
    await expect(queue.purge({})).rejects.toThrow(/`all`/);
    await expect(queue.purge({ state: "active" })).rejects.toThrow(/`state`/);
    expect(await queue.purge({ all: true })).toBe(0);
  });

  it("pause() stops the queue, or one type, for all workers", async () => {
    const house = open();
    const { queue } = house;
    await queue.pause("slow");
    await queue.add("slow", null);
    await queue.add("fast", null);
    expect(await queue.paused()).toEqual({ queue: false, types: ["slow"] });
    expect((await claimOne(house))?.type).toBe("fast");
    expect(await claimOne(house)).toBeUndefined();
    await queue.pause();
    await queue.resume("slow");
    expect(await claimOne(house)).toBeUndefined();
    await queue.resume();
    expect((await claimOne(house))?.type).toBe("slow");
  });
});

describe("bad input", () => {
  const { queue, storage } = open();
  const bad: readonly [string, () => unknown, RegExp][] = [
    ["no storage", () => new Queue("q", {} as never), /`storage`.*MemoryStorage/],
    ["a storage that is none", () => new Queue("q", { storage: {} as never }), /`storage`/],
    ["an empty name", () => new Queue("", { storage }), /`name`/],
    ["a name with U+0000", () => new Queue("a\u0000b", { storage }), /`name`/],
    ["a misspelt option", () => queue.add("t", 1, { dealy: 5 } as never), /did you mean `delay`/],
    ["a delay that is none", () => queue.add("t", 1, { delay: "5 minutes" as never }), /`delay`/],
    ["both delay and runAt", () => queue.add("t", 1, { delay: 1, runAt: new Date() }), /`runAt`/],
    ["an invalid date", () => queue.add("t", 1, { runAt: new Date(Number.NaN) }), /`runAt`/],
    ["a priority of 1.5", () => queue.add("t", 1, { priority: 1.5 }), /`priority`/],
    ["no attempts at all", () => queue.add("t", 1, { maxAttempts: 0 }), /`maxAttempts`/],
    ["an unknown back-off", () => queue.add("t", 1, { backoff: { kind: "linear" } as never }), /`backoff`/],
    ["a misspelt back-off", () => queue.add("t", 1, { backoff: { kind: "fixed", dealy: 1 } as never }), /`delay`/],
    ["weights that are none", () => queue.add("t", 1, { weights: { tokens: 0 } }), /`weights`/],
    ["an empty group", () => queue.add("t", 1, { group: "" }), /`group`/],
    ["a lone surrogate in a key", () => queue.add("t", 1, { idempotencyKey: "\ud800" }), /`idempotencyKey`/],
    ["a type that is none", () => queue.add(7 as never, 1), /`type`/],
    ["options that are none", () => queue.add("t", 1, "soon" as never), /`options`/],
    ["a bulk that is none", () => queue.addBulk("many" as never), /`entries`/],
    [
      "an entry of a bulk with a misspelt option",
      () => queue.addBulk([{ type: "t", data: 1, option: {} }] as never),
      /`options`/,
    ],
    ["options of a job beside its type", () => queue.addBulk([{ type: "t", data: 1, group: "g" }] as never), /`group`/],
    ["too many at once", () => queue.addBulk(Array.from({ length: 10_001 }) as never), /at most 10000/],
    ["an unknown state", () => queue.list({ state: "done" as never }), /`state`/],
    ["a page of 5000", () => queue.list({ limit: 5_000 }), /`limit`/],
    ["an id that is none", () => queue.redrive([{} as never]), /`target`/],
    ["all that is not true", () => queue.redrive({ all: false } as never), /`all`/],
  ];
  it.each(bad)("%s", async (_, run, message) => {
    await expect((async () => run())()).rejects.toThrow(message);
    await expect((async () => run())()).rejects.toThrow(OptionsError);
  });
});

describe("`store`, the other word for `storage`", () => {
  class Double extends Job<number, number> {
    async execute(input: number): Promise<number> {
      return input * 2;
    }
  }
  const faces: readonly (readonly [string, (options: object) => unknown])[] = [
    ["Queue", (options) => new Queue("mail", options as { storage: MemoryStorage })],
    ["Worker", (options) => new Worker("mail", async () => {}, { autostart: false, ...options } as WorkerOptions)],
    [
      "JobQueueServer",
      (options) =>
        new JobQueueServer(Double, {
          queueName: "mail",
          ...options,
        } as JobQueueServerOptions),
    ],
    [
      "JobQueueClient",
      (options) => new JobQueueClient({ queueName: "mail", ...options } as JobQueueClientOptions<number, number>),
    ],
  ];

  it.each(faces)("`store` is accepted by %s, and refused if it differs from `storage`", (_, make) => {
    const store = new MemoryStorage();
    expect(make({ store })).toMatchObject({ storage: store });
    expect(make({ store, storage: store })).toMatchObject({ storage: store });
    expect(make({ store: undefined, storage: store })).toMatchObject({ storage: store });
    expect(() => make({ store, storage: new MemoryStorage() })).toThrow("expected `store` to be left out");
    expect(() => make({ store: "app.db" })).toThrow("expected `store` to be a storage for jobs");
    expect(() => make({})).toThrow("expected `storage` to be a storage for jobs");
  });
});
