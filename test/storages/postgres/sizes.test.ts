import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Proxy } from "../../../chaos/conductor/proxy.ts";
import { Queue, Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { poolOf, until } from "./client-support.ts";
import { once, sharedServer, temporaryDatabase } from "./server.ts";

const MEGABYTE = 1_000_000;
const large = (n: number) => Array.from({ length: n }, () => ({ type: "t", data: "x".repeat(MEGABYTE) }));

/** Adds so many jobs of a megabyte, over a fast connection. */
async function addLarge(url: string, n: number): Promise<readonly string[]> {
  await using storage = new PostgresStorage(url);
  const queue = new Queue("q", { storage });
  const ids: string[] = [];
  for (let left = n; left > 0; left -= 10) {
    for (const { id } of await queue.addBulk(large(Math.min(10, left)))) ids.push(id);
  }
  return ids;
}

/** The URL of a database behind a proxy that carries so many bytes a second. */
async function behind(direct: string, bandwidth: number): Promise<string> {
  const proxy = await Proxy.open(Number(new URL(await sharedServer()).port));
  onTestFinished(() => proxy.close());
  proxy.way = { bandwidth };
  const url = new URL(direct);
  url.port = String(proxy.port);
  return url.href;
}

/** Runs them all at once on a worker behind that proxy. How often each was called, and the errors outside of handlers. */
async function runAll(url: string, ids: readonly string[], options: object = {}) {
  await using storage = new PostgresStorage(url);
  const calls = new Map<string, number>();
  const errors: unknown[] = [];
  const done = Promise.withResolvers<void>();
  const handler = async ({ id }: { readonly id: string }) => {
    calls.set(id, (calls.get(id) ?? 0) + 1);
    if (calls.size === ids.length) done.resolve();
  };
  await using worker = new Worker("q", handler, {
    storage,
    concurrency: ids.length,
    onError: (error) => errors.push(error),
    ...options,
  });
  await worker.start();
  await done.promise;
  await worker.onIdle();
  return { calls: ids.map((id) => calls.get(id)), errors };
}

describe("large jobs over a slow network", () => {
  test(
    "all jobs run once each, although all of them together would take longer than any answer may",
    { timeout: 120_000 },
    async () => {
      const direct = await temporaryDatabase();
      const ids = await addLarge(direct, 30);
      // Six seconds for all of them, and less than one for a claim.
      const { calls, errors } = await runAll(await behind(direct, 5 * MEGABYTE), ids);
      expect(calls).toEqual(ids.map(() => 1));
      expect(errors).toEqual([]);
    },
  );

  test("all jobs run under a limit, whose starts have to be called soon", { timeout: 120_000 }, async () => {
    const direct = await temporaryDatabase();
    const ids = await addLarge(direct, 8);
    const limits = { quota: { max: 1_000, per: "1s", all: true } };
    const { calls } = await runAll(await behind(direct, 3 * MEGABYTE), ids, { limits });
    expect(calls).toEqual(ids.map(() => 1));
  });
});

/** The longest answer that a step may have: 4 MiB, and what stands around that. */
const MOST = 4 * 2 ** 20 + 200_000;

/** A client of the driver that records the length of the longest answer of all clients. */
function watched() {
  let longest = 0;
  class Client extends pg.Client {
    // oxlint-disable-next-line typescript/no-explicit-any -- as the driver says it
    override query(...args: any[]): any {
      // oxlint-disable-next-line typescript/unbound-method -- it is called on this client
      const answer: unknown = Reflect.apply(super.query, this, args);
      if (!(answer instanceof Promise)) return answer;
      return answer.then((result: pg.QueryResult | pg.QueryResult[]) => {
        const values = [result].flat().flatMap(({ rows }) => rows.flatMap((row: object) => Object.values(row)));
        for (const value of values) longest = Math.max(longest, lengthOf(value));
        return result;
      });
    }
  }
  return { Client, longest: () => longest };
}

const lengthOf = (value: unknown): number => (typeof value === "string" ? value.length : JSON.stringify(value).length);

describe("the size of answers", () => {
  test("answers are no larger than allowed, whatever is claimed, listed or found at once", async () => {
    const direct = await temporaryDatabase();
    const ids = await addLarge(direct, 12);
    const { Client, longest } = watched();
    await using storage = new PostgresStorage(poolOf(direct, { Client }));

    const found = await storage.find([...ids, "missing", ...ids]);
    expect(found.map((job) => job?.id)).toEqual([...ids, undefined, ...ids]);
    expect(longest()).toBeGreaterThan(MEGABYTE);
    expect(longest()).toBeLessThan(MOST);

    const queue = new Queue("q", { storage });
    const listed: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await queue.list({ limit: 1_000, cursor });
      listed.push(...page.jobs.map(({ id }) => id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(listed).toEqual(ids.toReversed());
    expect(longest()).toBeLessThan(MOST);

    const request = { queue: "q", worker: "w", max: 100, types: null, leaseMs: 30_000, limits: [], settle: [] };
    const claimed: string[] = [];
    for (let more = true; more;) {
      const claim = await storage.claim(request);
      claimed.push(...claim.jobs.map(({ id }) => id));
      ({ more } = claim);
    }
    expect(claimed).toEqual(ids);
    expect(longest()).toBeLessThan(MOST);
  });

  test("answers are no larger than allowed when many large events are read at once", async () => {
    const direct = await temporaryDatabase();
    const { Client, longest } = watched();
    await using storage = new PostgresStorage(poolOf(direct, { Client }));
    await using other = new PostgresStorage(direct);
    const percents: number[] = [];
    const all = Promise.withResolvers<void>();
    const details = "x".repeat(60_000);
    storage.subscribe({
      queue: "q",
      event: (event) => {
        if (event.event !== "progress") return;
        percents.push(event.progress.percent);
        if (percents.length === 100) all.resolve();
      },
    });
    const listens = async () => (await once(direct, "SELECT FROM sluice.listeners WHERE events")).length === 1;
    await storage.setup();
    await until(listens, "the subscriber to listen", 60_000);
    const queue = new Queue("q", { storage: other });
    const ids = (await queue.addBulk(Array.from({ length: 100 }, () => ({ type: "t", data: null })))).map(
      ({ id }) => id,
    );
    const request = { queue: "q", worker: "w", max: 100, types: null, leaseMs: 60_000, limits: [], settle: [] };
    const { jobs } = await other.claim(request);
    // In one transaction, so that all of them are there at once.
    await other.report(jobs.map(({ id, token }) => ({ id, token, progress: { percent: ids.indexOf(id), details } })));
    await all.promise;
    expect(percents).toEqual(ids.map((_, i) => i));
    expect(longest()).toBeGreaterThan(1_000_000);
    expect(longest()).toBeLessThan(MOST);
  });
});
