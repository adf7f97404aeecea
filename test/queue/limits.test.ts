import { describe, expect, expectTypeOf, it } from "vitest";
import {
  defineLimits,
  type Explanation,
  JobNotFoundError,
  LimitConflictError,
  type LimitDeclared,
  Limits,
  MemoryStorage,
  OptionsError,
  Queue,
  type QueuedJob,
  type QueueExplanation,
  StorageError,
  Worker,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { liveWorker } from "../live-worker.ts";

const NOW = Date.UTC(2030, 0, 1);
const at = (ms: number) => new Date(NOW + ms);

/** Not a plain object. */
class Own {
  readonly tokens = 5;
}

function scene() {
  const clock = new FakeClock(NOW);
  const storage = new MemoryStorage({ clock });
  const claim = (queue: string, max = 10) =>
    storage.claim({ queue, worker: "w", max, types: null, leaseMs: 60_000, limits: [], settle: [] });
  return { clock, storage, claim };
}

describe("the limits of a queue", () => {
  it("the limits of a queue are declared once, before its first job", async () => {
    const { storage, clock, claim } = scene();
    const declared: string[] = [];
    const { limits } = storage;
    const define = limits.define.bind(limits);
    limits.define = async (rules, options) => {
      declared.push(`${rules.map(({ name }) => name).join()} ${options?.onConflict} by ${options?.by}`);
      return define(rules, options);
    };
    const queue = new Queue("mail", {
      storage,
      clock,
      limits: defineLimits({ mail: { max: 1, per: "1s", types: ["send"] } }, { onConflict: "keep" }),
    });
    await queue.explain();
    await queue.explain("1").catch(() => {});
    await queue.counts();
    expect(declared).toEqual([]);
    await Promise.all([queue.add("send", null), queue.add("send", null)]);
    await queue.addBulk([{ type: "send", data: null }]);
    expect(declared).toEqual(["mail keep by queue mail"]);
    expect((await claim("mail")).jobs).toHaveLength(1);
  });

  it("the limits of a queue may be a plain object", async () => {
    const { storage, claim } = scene();
    const queue = new Queue("q", { storage, limits: { one: { concurrency: 1, all: true } } });
    await queue.addBulk([
      { type: "a", data: 1 },
      { type: "b", data: 2 },
    ]);
    expect((await claim("q")).jobs).toHaveLength(1);
  });

  it("a limit with another number replaces the stored one, and the change is reported", async () => {
    const { storage } = scene();
    const limits = new Limits(storage);
    await limits.define({ mail: { max: 1, per: "1s", types: ["send"] } });
    const changes: LimitDeclared[] = [];
    const queue = new Queue("mail", {
      storage,
      limits: { mail: { max: 2, per: "1s", types: ["send"] } },
      onLimitChange: (declared) => changes.push(declared),
    });
    await queue.addBulk([
      { type: "send", data: null },
      { type: "send", data: null },
    ]);
    expect(await limits.get("mail")).toMatchObject({ max: 2, revision: 2, version: undefined, owners: [] });
    expect(changes).toMatchObject([{ outcome: "changed", limit: "mail", by: "queue mail" }]);
  });

  it('with onConflict "reject" add() fails on a conflict, and the next add() declares again', async () => {
    const { storage } = scene();
    const limits = new Limits(storage);
    await limits.define({ mail: { max: 1, per: "1s", types: ["send"] } });
    const other = defineLimits({ mail: { max: 2, per: "1s", types: ["send"] } }, { onConflict: "reject" });
    const queue = new Queue("mail", { storage, limits: other });
    await expect(queue.add("send", null)).rejects.toThrow(LimitConflictError);
    expect(await queue.explain()).toMatchObject({ waiting: 0 });
    expect(await queue.counts()).toMatchObject({ waiting: 0 });
    await limits.remove("mail");
    await queue.add("send", null);
    expect(await limits.get("mail")).toMatchObject({ max: 2 });
  });

  it("limits are declared again after the storage could not be reached", async () => {
    const { storage } = scene();
    const define = storage.limits.define.bind(storage.limits);
    storage.limits.define = () => Promise.reject(new StorageError("busy"));
    const queue = new Queue("mail", { storage, limits: { mail: { max: 2, per: "1s", types: ["send"] } } });
    await expect(queue.add("send", null)).rejects.toThrow("busy");
    storage.limits.define = define;
    await queue.add("send", null);
    expect(await new Limits(storage).get("mail")).toMatchObject({ waiting: 1 });
  });

  it("the limits of a queue are checked when the queue is made", () => {
    const { storage } = scene();
    const make = (limits: unknown) => () => new Queue("q", { storage, limits: limits as never });
    expect(make({ mail: { max: 1 } })).toThrow("Queue limits.mail: expected `per`");
    expect(make(5)).toThrow("Queue: expected `limits` to be what defineLimits() gives");
    expect(make(null)).toThrow(OptionsError);
    for (const odd of [new Limits(storage), Promise.resolve({}), new Date(), /x/, new Map(), new Own()]) {
      expect(make(odd)).toThrow("Queue: expected `limits` to be what defineLimits() gives, or a plain object");
      expect(() => new Worker("q", async () => {}, { storage, autostart: false, limits: odd as never })).toThrow(
        "Worker: expected `limits` to be what defineLimits() gives, or a plain object",
      );
    }
  });

  it("a weight that can never fit under a limit is refused when the job is added", async () => {
    const { storage } = scene();
    const queue = new Queue("q", { storage, limits: { tokens: { max: 10, per: "1m", weight: "tokens", all: true } } });
    await expect(queue.add("chat", null, { weights: { tokens: 11 } })).rejects.toMatchObject({
      name: "OptionsError",
      option: "weights.tokens",
    });
    await queue.add("chat", null, { weights: { tokens: 10 } });
  });
});

describe("weights", () => {
  it.each([new Map([["tokens", 5]]), new Date(), /x/, Promise.resolve({}), new Own(), [5]])(
    "are a plain object, and not %o",
    async (odd) => {
      const { storage, clock } = scene();
      const queue = new Queue("q", { storage, clock });
      const wrong = { name: "OptionsError", option: "weights", message: expect.stringContaining("a plain object") };
      await expect(queue.add("a", null, { weights: odd as never })).rejects.toMatchObject(wrong);
      await queue.add("a", null, { weights: Object.assign(Object.create(null), { tokens: 5 }) });
      const warnings: unknown[] = [];
      queue.on("warning", ({ about, message }) => warnings.push([about, message]));
      const worker = new Worker("q", async (_, { settle }) => settle(odd as never), { storage, clock });
      await clock.advance(10);
      await worker.stop();
      expect(warnings).toEqual([["weights", expect.stringContaining("a plain object")]]);
    },
  );
});

describe("explaining jobs", () => {
  it("explain() says that a job can start, that it runs, and that it has ended", async () => {
    const { storage, clock, claim } = scene();
    await liveWorker(storage, "q");
    const queue = new Queue("q", { storage, clock });
    const job = await queue.add("a", null);
    expect(await job.explain()).toEqual({
      id: job.id,
      queue: "q",
      type: "a",
      state: "waiting",
      runnable: true,
      blockers: [],
      earliest: at(0),
      position: { higher: 0, group: 0, turns: 0 },
    });
    const { jobs } = await claim("q");
    expect(await queue.explain(job.id)).toMatchObject({
      runnable: false,
      state: "active",
      blockers: [{ kind: "running" }],
    });
    await storage.settle([{ id: job.id, token: jobs[0]!.token, to: "completed", result: null }]);
    expect(await job.explain()).toMatchObject({ runnable: false, blockers: [{ kind: "ended" }], earliest: undefined });
  });

  it("explain() names the limit that blocks a job, and until when", async () => {
    const { storage, clock, claim } = scene();
    await liveWorker(storage, "q");
    const queue = new Queue("q", {
      storage,
      clock,
      limits: { mail: { max: 1, per: "1m", types: ["send"] }, all: { max: 100, per: "1m", all: true } },
    });
    const [, second] = await queue.addBulk([
      { type: "send", data: 1 },
      { type: "send", data: 2 },
    ]);
    const behind = await second!.explain();
    expect(behind).toMatchObject({ runnable: false, earliest: at(60_000), position: { higher: 0, group: 1 } });
    expect(behind.blockers.map(({ text }) => text)).toEqual([
      "The limit mail goes to the jobs before it until 2030-01-01T00:01:00.000Z: 0 of 1 per 1m in use.",
      "Before it 1 of its own priority and group waits, and may start first.",
    ]);
    await claim("q");
    await clock.advance(15_000);
    const explained = await second!.explain();
    expect(explained).toMatchObject({ runnable: false, earliest: at(60_000), position: { higher: 0, group: 0 } });
    expect(explained.blockers).toMatchObject([
      { kind: "limit", limit: "mail", reason: "window", used: 1, max: 1, weight: 1, until: at(60_000) },
    ]);
    await clock.advance(45_000);
    expect(await second!.explain()).toMatchObject({ runnable: true });
  });

  it("explain() names pauses, delays and a group that is full", async () => {
    const { storage, clock, claim } = scene();
    await liveWorker(storage, "q");
    const queue = new Queue("q", { storage, clock, limits: { tenant: { concurrency: 1, by: "group" } } });
    const [, job] = await queue.addBulk([
      { type: "a", data: 1, options: { group: "acme" } },
      { type: "a", data: 2, options: { group: "acme" } },
    ]);
    await claim("q");
    const later = await queue.add("b", null, { delay: "5s" });
    await queue.pause();
    await queue.pause("a");
    expect((await job!.explain()).blockers.map(({ kind }) => kind).toSorted()).toEqual([
      "limit",
      "queue-paused",
      "type-paused",
    ]);
    expect((await job!.explain()).blockers.find(({ kind }) => kind === "limit")).toMatchObject({
      group: "acme",
      held: 1,
      concurrency: 1,
      until: undefined,
    });
    await queue.resume();
    expect(await later.explain()).toMatchObject({
      state: "scheduled",
      earliest: at(5_000),
      blockers: [{ kind: "delay", until: at(5_000) }],
    });
  });

  it("explain() rejects for jobs that were deleted, or belong to another queue", async () => {
    const { storage } = scene();
    const [queue, other] = [new Queue("q", { storage }), new Queue("other", { storage })];
    const job = await queue.add("a", null);
    await expect(other.explain(job.id)).rejects.toThrow(JobNotFoundError);
    await job.remove();
    await expect(job.explain()).rejects.toThrow(JobNotFoundError);
    await expect(queue.explain("missing")).rejects.toThrow(JobNotFoundError);
    await expect(queue.explain(5 as never)).rejects.toThrow(OptionsError);
  });
});

describe("explaining a queue", () => {
  it("explaining a queue estimates how long its limits take for the waiting jobs", async () => {
    const { storage, clock, claim } = scene();
    await liveWorker(storage, "q");
    const queue = new Queue("q", {
      storage,
      clock,
      limits: {
        mail: { max: 10, per: "1s", types: ["send"] },
        gpu: { concurrency: 2, types: ["infer"] },
        tokens: { max: 100, per: "1m", weight: "tokens", estimate: 50, types: ["chat"] },
      },
    });
    await queue.addBulk(Array.from({ length: 110 }, (_, n) => ({ type: "send", data: n })));
    await claim("q");
    expect(await queue.explain()).toMatchObject({
      queue: "q",
      waiting: 100,
      active: 10,
      scheduled: 0,
      bottleneck: "mail",
      drainsInMs: 10_000,
      unknown: [],
    });
    await queue.addBulk(
      Array.from({ length: 4 }, (_, n) => ({ type: "chat", data: n, options: { weights: { tokens: 100 } } })),
    );
    expect(await queue.explain()).toMatchObject({ bottleneck: "tokens", drainsInMs: 180_000 });
    await queue.addBulk(Array.from({ length: 3 }, (_, n) => ({ type: "infer", data: n })));
    expect(await queue.explain()).toMatchObject({ drainsInMs: undefined, atLeastMs: 9_000, bottleneck: "tokens" });
  });

  it("the types of explain() distinguish a job from a queue", () => {
    expectTypeOf<QueuedJob["explain"]>().returns.toEqualTypeOf<Promise<Explanation>>();
    const queue = new Queue("q", { storage: scene().storage });
    expectTypeOf(() => queue.explain("1")).returns.toEqualTypeOf<Promise<Explanation>>();
    expectTypeOf(() => queue.explain()).returns.toEqualTypeOf<Promise<QueueExplanation>>();
    // @ts-expect-error -- a limit that says nothing
    expect(() => new Queue("q", { storage: scene().storage, limits: { a: { all: true } } })).toThrow(OptionsError);
  });

  it("explaining a queue without jobs says that nothing waits", async () => {
    const { storage } = scene();
    expect(await new Queue("empty", { storage }).explain()).toMatchObject({ waiting: 0, drainsInMs: 0, limits: [] });
  });
});
