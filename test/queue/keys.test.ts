import { describe, expect, it } from "vitest";
import { type JobView, OptionsError, RateLimitedError } from "../../src/index.ts";
import { Job, JobQueueClient, JobQueueServer } from "../../src/server/index.ts";
import { HOUSES, work } from "../worker/support.ts";

/** Values that are no keys of a job. */
const WRONG: readonly unknown[] = [
  "acme",
  5,
  ["tenant"],
  new Map([["tenant", "acme"]]),
  new (class {
    tenant = "acme";
  })(),
  { tenant: "" },
  { tenant: 5 },
  { tenant: null },
  { tenant: undefined },
  { tenant: "x".repeat(256) },
  { tenant: "a\u0000b" },
  { tenant: "\ud800" },
  { "": "acme" },
  { ["x".repeat(256)]: "acme" },
  { group: "acme" },
  { a: "x".repeat(255), b: "x".repeat(255), c: "x" },
  Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])),
];

describe.each(HOUSES)("keys of jobs ($name)", ({ open }) => {
  it("a handler, info() and lists show the keys that a job was added with", async () => {
    const house = open();
    const seen: JobView["keys"][] = [];
    const { worker } = work(house, (job) => void seen.push(job.keys));
    const keys = { tenant: "acme", model: "large" };
    const jobs = await house.queue.addBulk([
      { type: "t", data: null, options: { keys } },
      { type: "t", data: null },
      { type: "t", data: null, options: { keys: {} } },
    ]);
    await Promise.all([...jobs.map((job) => job.result()), house.clock.advance(0)]);
    expect(seen.toSorted((a, b) => Number(b !== undefined) - Number(a !== undefined))).toEqual([
      keys,
      undefined,
      undefined,
    ]);
    expect((await jobs[0]!.info())?.keys).toEqual(keys);
    expect((await house.queue.info(jobs[2]!.id))?.keys).toBeUndefined();
    expect((await house.queue.list()).jobs.map((job) => job.keys)).toEqual([undefined, undefined, keys]);
    await worker.stop();
  });

  it("add() and update() refuse what is no plain object of names and values", async () => {
    const { queue } = open();
    const job = await queue.add("t", null, { keys: { tenant: "acme" } });
    for (const keys of WRONG) {
      const wrong = {
        name: "OptionsError",
        option: "keys",
        message: expect.stringMatching(/`keys` to be a plain object of at most 16 names .* no name "group"/),
      };
      await expect(queue.add("t", null, { keys: keys as never })).rejects.toMatchObject(wrong);
      await expect(queue.addBulk([{ type: "t", data: null, options: { keys: keys as never } }])).rejects.toThrow(
        OptionsError,
      );
      await expect(job.update({ keys: keys as never })).rejects.toMatchObject(wrong);
    }
    expect((await queue.counts()).waiting).toBe(1);
    expect((await job.info())?.keys).toEqual({ tenant: "acme" });
  });

  it("names that objects have anyway are names like any other, and change no prototype", async () => {
    const { queue } = open();
    const keys = JSON.parse('{ "__proto__": "a", "constructor": "b", "toString": "c" }') as Record<string, string>;
    const job = await queue.add("t", null, { keys });
    const found = (await job.info())!.keys!;
    expect(Object.entries(found).toSorted(([a], [b]) => (a < b ? -1 : 1))).toEqual([
      ["__proto__", "a"],
      ["constructor", "b"],
      ["toString", "c"],
    ]);
    expect(Object.getPrototypeOf(found)).toBe(Object.prototype);
    expect(Object.keys(Object.prototype)).toEqual([]);
    const inherited = Object.assign(Object.create(null), { tenant: "acme" }) as Record<string, string>;
    expect((await (await queue.add("t", null, { keys: inherited })).info())?.keys).toEqual({ tenant: "acme" });
  });

  it("what the caller changes in the object afterwards changes no job", async () => {
    const { queue } = open();
    const keys = { tenant: "acme" };
    const job = await queue.add("t", null, { keys });
    keys.tenant = "other";
    expect((await job.info())?.keys).toEqual({ tenant: "acme" });
  });

  it("update() replaces all keys, and null or an empty object removes them", async () => {
    const { queue } = open();
    const job = await queue.add("t", null, { keys: { tenant: "acme", model: "large" } });
    const updated = { updated: true, state: "waiting" };
    expect(await job.update({ keys: { tenant: "zeta" } })).toEqual(updated);
    expect((await job.info())?.keys).toEqual({ tenant: "zeta" });
    expect(await job.update({ priority: 3 })).toEqual(updated);
    expect((await job.info())?.keys).toEqual({ tenant: "zeta" });
    for (const keys of [null, {}]) {
      await job.update({ keys: { tenant: "acme" } });
      expect(await queue.update(job.id, { keys })).toEqual(updated);
      expect((await job.info())?.keys).toBeUndefined();
    }
  });

  it("a RateLimitedError with a limit by a key holds the key of its job, and no other", async () => {
    const { clock, storage, queue } = open();
    const limits = { quota: { max: 100, per: "1m", by: "tenant" } } as const;
    const started: string[] = [];
    const { worker } = work(
      { clock, storage, queue },
      (job) => {
        started.push(`${job.keys?.["tenant"]} ${clock.now() - from}`);
        if (started.length === 1) throw new RateLimitedError(5_000, { limit: "quota" });
      },
      { limits, concurrency: 1 },
    );
    const from = clock.now();
    const add = (tenant: string) => queue.add("t", null, { group: "one", keys: { tenant } });
    const jobs = [await add("acme"), await add("acme"), await add("zeta")];
    await clock.advance(5_000);
    await Promise.all(jobs.map((job) => job.result()));
    expect(started).toEqual(["acme 0", "zeta 0", "acme 5000", "acme 5000"]);
    await worker.stop();
  });

  it("explain() names the limit with the value that blocks the job, and when it can start", async () => {
    const house = open();
    const { clock, queue, storage } = house;
    const limits = { tenant: { max: 1, per: "1m", by: "tenant" }, both: { concurrency: 9, by: ["model", "tenant"] } };
    const { worker } = work(house, () => {}, { limits: limits as never });
    const keys = { tenant: "acme", model: "large" };
    const [first, second] = [await queue.add("t", 1, { keys }), await queue.add("t", 2, { keys })];
    await Promise.all([first.result(), clock.advance(0)]);
    const { runnable, earliest, blockers } = await second.explain();
    expect([runnable, earliest]).toEqual([false, new Date(clock.wall() + 60_000)]);
    expect(blockers).toMatchObject([
      {
        kind: "limit",
        limit: "tenant",
        group: "acme",
        text: expect.stringContaining("The limit tenant[acme] is full"),
      },
    ]);
    expect((await storage.explain(second.id))!.limits.map(({ group }) => group)).toEqual(["large,acme", "acme"]);
    await worker.stop();
  });

  it("the class face submits keys, and instances have them", async () => {
    const { clock, storage } = open();
    class Echo extends Job<null> {
      static readonly type = "echo";
      async execute() {
        return this.keys;
      }
    }
    const server = new JobQueueServer(Echo, { storage, queueName: "q", clock });
    await server.start();
    const client = new JobQueueClient<null, unknown>({ storage, queueName: "q", jobClass: Echo, clock });
    const handle = await client.submit(null, { keys: { tenant: "acme" } });
    const [keys] = await Promise.all([handle.waitFor(), clock.advance(0)]);
    expect(keys).toEqual({ tenant: "acme" });
    await server.stop();
  });
});
