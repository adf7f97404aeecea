import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { DuplicateJobError, OptionsError, StorageError } from "../../../src/index.ts";
import type { PostgresClient, PostgresPool, SqlValue } from "../../../src/storages/postgres/driver.ts";
import { PostgresStorage, type PostgresStorageOptions } from "../../../src/storages/postgres/index.ts";
import type { Added, NewJob } from "../../../src/storage/job-storage.ts";
import { hurried, until } from "./client-support.ts";
import { createDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

let database: Awaited<ReturnType<typeof createDatabase>>;
let pool: pg.Pool;
beforeAll(async () => {
  database = await createDatabase();
  pool = new pg.Pool({ connectionString: database.url, max: 8 });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

/** The path of added jobs to the server: it records what is sent, and can delay the next call or lose its answer. */
class Way implements PostgresPool {
  /** The ids of the jobs that each call of the function took, in the order in which they went. */
  readonly sent: (readonly string[])[] = [];
  /** What happens to a call; it may do it, before or after. */
  pass: (run: () => Promise<{ readonly rows: readonly unknown[] }>) => Promise<{ readonly rows: readonly unknown[] }> =
    (run) => run();

  async connect(): Promise<PostgresClient> {
    const client = await pool.connect();
    return {
      query: (text, values) => {
        const run = () => client.query(text, values);
        const ids = values === undefined ? undefined : idsIn(text, values[0] as string);
        if (ids === undefined) return run();
        this.sent.push(ids);
        return this.pass(run);
      },
      release: (destroy) => client.release(destroy),
    };
  }

  query(text: string, values?: SqlValue[]): Promise<{ readonly rows: readonly unknown[] }> {
    return pool.query(text, values);
  }

  /** From here on calls wait until they may go on. */
  hold(): () => void {
    let open = (): void => {};
    const free = new Promise<void>((resolve) => (open = resolve));
    this.pass = async (run) => {
      await free;
      return run();
    };
    return () => {
      this.pass = (run) => run();
      open();
    };
  }

  get sizes(): number[] {
    return this.sent.map(({ length }) => length);
  }
}

/** The ids of the jobs that a statement adds, if it does. */
function idsIn(text: string, first: string): string[] | undefined {
  const name = /"sluice"\.(add\w*?)(?:_\d+)?\(/.exec(text)?.[1];
  if (name === "add_uniform") return first.split("\u001F");
  if (name === undefined) return undefined;
  const { ids, separator } = JSON.parse(first) as { ids: string; separator: string };
  return ids.split(separator);
}

/** A clock that hardly advances: no call reaches its deadline. */
const patient = hurried(0.001);

async function opened(options: PostgresStorageOptions = { clock: patient }) {
  await pool.query("DROP SCHEMA IF EXISTS sluice CASCADE");
  const way = new Way();
  const storage = new PostgresStorage(way, options);
  onTestFinished(() => storage.close());
  await storage.setup();
  return { way, storage };
}

/** One job is on its way and is held up there. */
async function busy(options?: PostgresStorageOptions) {
  const { way, storage } = await opened(options);
  const release = way.hold();
  const first = storage.add([newJob()]);
  await until(() => way.sent.length === 1, "the first to be on its way");
  return { way, storage, release, first };
}

const idsOf = (jobs: readonly NewJob[]) => jobs.map(({ id }) => id);
const created = (jobs: readonly NewJob[]): Added[] => jobs.map(({ id }) => ({ id, created: true }));

async function stored(): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>("SELECT id FROM sluice.jobs ORDER BY seq");
  return rows.map(({ id }) => id);
}

/** What became of it: the error, if there was one. */
const outcome = (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error);

const keyed = (key: string) =>
  newJob({ idempotency: { key, fingerprint: "f", ttlMs: 3_600_000, onDuplicate: "reject" } });

describe("calls of add at the same time", () => {
  it("calls go together once the call before has returned, in their order, and each returns its own jobs", async () => {
    const { way, storage, release, first } = await busy();
    const lists = [1, 3, 0, 2].map((length) => Array.from({ length }, () => newJob()));
    const calls = lists.map((jobs) => storage.add(jobs));
    release();
    const [one] = await first;
    expect(await Promise.all(calls)).toEqual(lists.map(created));
    expect(way.sizes).toEqual([1, 6]);
    expect(await stored()).toEqual([one!.id, ...lists.flatMap(idsOf)]);
  });

  it("calls of one turn of the event loop are one batch from the start, and a single call goes alone", async () => {
    const { way, storage } = await opened();
    const jobs = Array.from({ length: 100 }, () => newJob());
    await Promise.all(jobs.map((job) => storage.add([job])));
    expect(way.sizes).toEqual([100]);
    expect(await stored()).toEqual(idsOf(jobs));
    await storage.add([newJob()]);
    await storage.add([newJob()]);
    expect(way.sizes).toEqual([100, 1, 1]);
  });

  it("callers that go on adding share their batches", async () => {
    const { way, storage } = await opened();
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let i = 0; i < 10; i++) await storage.add([newJob()]);
      }),
    );
    expect(await stored()).toHaveLength(200);
    expect(way.sizes).toHaveLength(10);
  });

  it("a batch holds at most 1,000 jobs and a million characters", async () => {
    const { way, storage, release, first } = await busy();
    const calls = Array.from({ length: 11 }, () => storage.add(Array.from({ length: 100 }, () => newJob())));
    calls.push(...Array.from({ length: 3 }, () => storage.add([newJob({ data: `"${"x".repeat(400_000)}"` })])));
    release();
    await Promise.all([first, ...calls]);
    expect(way.sizes).toEqual([1, 1_000, 102, 1]);
    // A call with many jobs does not wait for others.
    const hold = way.hold();
    const others = [storage.add([newJob()]), storage.add(Array.from({ length: 101 }, () => newJob()))];
    await until(() => way.sent.length === 6, "both to be on their way");
    hold();
    await Promise.all(others);
  });

  it("calls with the same job: the first of them has created it", async () => {
    const { way, storage, release, first } = await busy();
    const [job, other] = [newJob(), newJob()];
    const calls = [storage.add([job]), storage.add([other, job]), storage.add([newJob({ id: way.sent[0]![0]! })])];
    release();
    const [one] = await first;
    expect(await Promise.all(calls)).toEqual([
      created([job]),
      [
        { id: other.id, created: true },
        { id: job.id, created: false },
      ],
      [{ id: one!.id, created: false }],
    ]);
    // They are sent once more, one after the other.
    expect(way.sizes).toEqual([1, 4, 4]);
  });

  it("calls wait for a hanging call for no more than a moment", async () => {
    const { way, storage, release, first } = await busy({});
    way.pass = (run) => run();
    const jobs = [newJob(), newJob()];
    expect(await Promise.all(jobs.map((job) => storage.add([job])))).toEqual(jobs.map((job) => created([job])));
    expect(way.sizes).toEqual([1, 2]);
    release();
    await first;
  });

  it("a batch wakes up waiting workers once", async () => {
    const { storage, release, first } = await busy();
    let wakes = 0;
    const unsubscribe = storage.subscribe({ queue: "q", wake: () => (wakes += 1) });
    onTestFinished(unsubscribe);
    release();
    await first;
    // A new subscriber is woken up to look.
    await storage.add([newJob({ queue: "other" })]);
    const before = wakes;
    await Promise.all(Array.from({ length: 30 }, () => storage.add([newJob({ type: "other" })])));
    expect(wakes).toBe(before + 1);
  });
});

describe("a call that is refused fails no other call, and adds no job of its own", () => {
  it.each([
    ["a weight that can never fit", { weights: { tokens: 11 } }, OptionsError],
    ["text that Postgres has no place for", { type: "a\u0000b" }, StorageError],
    ["a priority that is none", { priority: "high" as unknown as number }, StorageError],
  ])("%s", async (_, said, kind) => {
    const { way, storage, release, first } = await busy();
    await storage.limits.define([rule("r", { max: 10, windowMs: 1_000 }, { weight: "tokens" })]);
    const before = [newJob(), newJob()];
    const bad = [newJob(), newJob(said), newJob()];
    const after = [newJob()];
    const calls = [before, bad, after].map((jobs) => outcome(storage.add(jobs)));
    release();
    const [one] = await first;
    const [good, error, last] = await Promise.all(calls);
    expect(good).toEqual(created(before));
    expect(error).toBeInstanceOf(kind);
    expect(last).toEqual(created(after));
    expect(new Set(await stored())).toEqual(new Set([one!.id, ...idsOf(before), ...idsOf(after)]));
    expect(way.sizes.toSorted((a, b) => a - b)).toEqual([1, 1, 2, 3, 6]);
  });

  it("a call with idempotency keys is sent by itself, and waits for no other call", async () => {
    const { way, storage, release, first } = await busy();
    const alone = [keyed("a"), keyed("a"), newJob(), keyed("b")];
    const calls = alone.map((job) => outcome(storage.add([job])));
    await until(() => way.sent.length === 4, "those with keys to be on their way");
    release();
    await first;
    const [a, again, plain, b] = await Promise.all(calls);
    expect([a, again].filter((error) => error instanceof DuplicateJobError)).toHaveLength(1);
    expect([plain, b]).toEqual([created([alone[2]!]), created([alone[3]!])]);
    expect(way.sizes).toEqual([1, 1, 1, 1, 1]);
  });

  it("a transaction of the user is not mixed with other calls", async () => {
    const { way, storage, release, first } = await busy();
    const tx = await pool.connect();
    await tx.query("BEGIN");
    const [inside, outside] = [newJob(), newJob()];
    const other = storage.add([outside]);
    // It is answered while the rest is held up.
    expect(await storage.add([inside], tx)).toEqual(created([inside]));
    await tx.query("ROLLBACK");
    tx.release();
    release();
    const [one] = await first;
    await other;
    expect(await stored()).toEqual([one!.id, outside.id]);
    expect(way.sizes).toEqual([1, 1]);
  });
});

describe("when the connection to the server breaks", () => {
  it("after the jobs were added: each job is there once, and every call reports it", async () => {
    const { way, storage } = await opened({});
    way.pass = async (run) => {
      way.pass = (next) => next();
      await run();
      throw new Error("Connection terminated unexpectedly");
    };
    const jobs = Array.from({ length: 5 }, () => newJob());
    const calls = jobs.map((job) => storage.add([job]));
    expect(await Promise.all(calls)).toEqual(jobs.map((job) => created([job])));
    expect(way.sizes).toEqual([5, 5]);
    expect(await stored()).toEqual(idsOf(jobs));
  });

  it("for good: all calls fail at their deadline, and no job is sent by itself", async () => {
    const { way, storage } = await opened({ timeout: 300 });
    way.pass = () => Promise.reject(new Error("Connection terminated unexpectedly"));
    const jobs = Array.from({ length: 5 }, () => newJob());
    const errors = await Promise.all(jobs.map((job) => outcome(storage.add([job]))));
    for (const error of errors) expect(error).toBeInstanceOf(StorageError);
    expect(new Set(way.sizes)).toEqual(new Set([5]));
  });
});

describe("closing a storage", () => {
  it("close waits for the calls before it, and later calls are refused", async () => {
    const { way, storage, release, first } = await busy();
    const jobs = [newJob(), newJob()];
    const calls = jobs.map((job) => storage.add([job]));
    let closed = false;
    const closing = storage.close().then(() => (closed = true));
    await expect(storage.add([newJob()])).rejects.toThrow(/closed/);
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(false);
    release();
    const [one] = await first;
    expect(await Promise.all(calls)).toEqual(jobs.map((job) => created([job])));
    await closing;
    expect(await stored()).toEqual([one!.id, ...idsOf(jobs)]);
    expect(way.sizes).toEqual([1, 2]);
  });

  it("close does not wait for a server that does not answer", async () => {
    const { storage, release, first } = await busy({ clock: hurried(20) });
    const answer = outcome(first);
    await storage.close();
    expect(await answer).toBeInstanceOf(StorageError);
    release();
  });
});
