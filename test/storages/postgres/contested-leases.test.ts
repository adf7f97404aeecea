import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { outcomesOf } from "../../../src/storages/postgres/jobs/outcomes.ts";
import { anything } from "../jobs.ts";
import { leaseProperty } from "../leases.ts";
import { Child } from "./children.ts";
import { until } from "./office.ts";
import { once, temporaryDatabase } from "./server.ts";
import { emptyStorages, fakeTime, newJob, rule } from "./support.ts";

const WAITING = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

describe("a lease that has expired while its worker is about to settle the job", () => {
  const open = emptyStorages();

  /** One job whose lease has expired, before any sweep. */
  async function expired() {
    const scene = await open();
    const { storage, clock, url } = scene;
    await storage.limits.define([rule("k", { concurrency: 5 })]);
    await storage.add([newJob({ id: "a" })]);
    const { token } = (await storage.claim(anything({ leaseMs: 1_000 }))).jobs[0]!;
    await clock.advance(1_000);
    const done = { id: "a", token, to: "completed", result: '"done"' } as const;
    const state = async () => (await storage.find(["a"]))[0];
    // The server reads the clock of the test with the next call of the storage.
    expect(await state()).toMatchObject({ state: "active" });
    return { storage, url, done, other: await connected(url), state };
  }

  test("the sweep leaves a job alone that is just being completed", async () => {
    const { storage, done, other, state } = await expired();
    await other.query("BEGIN");
    await other.query("SELECT sluice.settle_2($1)", [JSON.stringify(outcomesOf([done]).text)]);
    expect(await storage.sweep()).toMatchObject({ stalled: 0 });
    await other.query("COMMIT");
    expect(await storage.sweep()).toMatchObject({ stalled: 0 });
    expect(await state()).toMatchObject({ state: "completed", result: '"done"' });
    expect((await storage.history("a")).attempts).toEqual([]);
  });

  test("a worker that completes the job loses to a sweep that was first", async () => {
    const { storage, url, done, other, state } = await expired();
    await other.query("BEGIN");
    await other.query("SELECT sluice.sweep_2()");
    const settled = storage.settle([done]);
    await until(async () => (await once(url, WAITING)).length > 0, 5_000, "the worker waits");
    await other.query("COMMIT");
    expect(await settled).toEqual(["a"]);
    expect(await state()).toMatchObject({ state: "waiting", result: null });
  });

  test("the lease is swept once, although the sweep is held up between reading and writing", async () => {
    const { storage, url, done, other, state } = await expired();
    // The sweep has read the lease, and has to wait for the limit.
    await other.query("BEGIN");
    await other.query("SELECT sluice.lock_limits(ARRAY['k'])");
    const swept = storage.sweep();
    await until(async () => (await once(url, WAITING)).length > 0, 5_000, "the sweep waits");
    const settled = storage.settle([done]);
    await until(async () => (await once(url, WAITING)).length > 1, 5_000, "the worker waits");
    await other.query("COMMIT");
    expect(await swept).toMatchObject({ stalled: 1 });
    expect(await settled).toEqual(["a"]);
    expect(await state()).toMatchObject({ state: "waiting", result: null });
    expect((await storage.history("a")).attempts).toHaveLength(1);
  });
});

describe("leases that are used one after the other", () => leaseProperty("PostgresStorage", emptyStorages(), 25));

test("two hundred leases that are swept, renewed and ended at the same moment each end in one way", async () => {
  const url = await temporaryDatabase();
  const admin = await fakeTime(url);
  onTestFinished(() => admin.end());
  let wall = 1_000_000;
  const passes = (ms: number) => admin.query("UPDATE public.test_clock SET wall = $1", [(wall += ms)]);
  await passes(0);
  const storages = Array.from({ length: 3 }, () => new PostgresStorage(url));
  const [worker, renewing, sweeping] = storages as [PostgresStorage, PostgresStorage, PostgresStorage];
  const seen = { completed: 0, stalled: 0 };
  for (let round = 0; round < 40; round++) {
    await worker.add(Array.from({ length: 5 }, () => newJob({ maxAttempts: 1 })));
    const { jobs } = await worker.claim(anything({ leaseMs: 1_000 }));
    await passes(1_000);
    const ends = jobs.map(async ({ id, token }, i) => {
      if ((i + round) % 2 === 0) await renewing.heartbeat([{ id, token }], 1_000);
      return worker.settle([{ id, token, to: "completed", result: String(token) }]);
    });
    const [{ stalled }, ...stale] = await Promise.all([sweeping.sweep(), ...ends]);
    const found = await worker.find(jobs.map(({ id }) => id));
    const completed = found.filter((job) => job?.state === "completed");
    expect(stalled + completed.length).toBe(5);
    expect([...stale.flat(), ...completed.map((job) => job!.id)].toSorted()).toEqual(
      jobs.map(({ id }) => id).toSorted(),
    );
    for (const job of found) expect(job?.result).toBe(job?.state === "completed" ? String(job.token) : null);
    seen.completed += completed.length;
    seen.stalled += stalled;
  }
  expect(await once(url, "SELECT FROM sluice.attempts")).toHaveLength(seen.stalled);
  // Neither of the two is always first.
  expect(Math.min(seen.completed, seen.stalled)).toBeGreaterThan(0);
  await Promise.all(storages.map((storage) => storage.close()));
});

describe("workers of the same name", () => {
  test("workers of the same name have each their own jobs: none is claimed twice, none is lost", async () => {
    const url = await temporaryDatabase();
    const storage = new PostgresStorage(url);
    await storage.add(Array.from({ length: 400 }, () => newJob()));
    const children = Array.from({ length: 4 }, () => new Child("worker", url, "the same", "7"));
    const lines = (await Promise.all(children.map((child) => child.ended()))).flat() as { id?: string }[];
    expect(lines).toHaveLength(400);
    expect(new Set(lines.map(({ id }) => id)).size).toBe(400);
    await storage.close();
  });

  test("workers of the same name neither keep nor end each other's leases", async () => {
    const url = await temporaryDatabase();
    const [one, two] = [new PostgresStorage(url), new PostgresStorage(url)];
    await one.add([newJob({ id: "a" }), newJob({ id: "b" })]);
    const mine = (await one.claim(anything({ max: 1, worker: "w" }))).jobs[0]!;
    const its = (await two.claim(anything({ max: 1, worker: "w" }))).jobs[0]!;
    expect([mine.id, its.id]).toEqual(["a", "b"]);
    const wrong = { id: "b", token: mine.token };
    expect(await one.heartbeat([wrong], 1_000)).toMatchObject({ lost: ["b"] });
    expect(await one.settle([{ ...wrong, to: "completed", result: null }])).toEqual(["b"]);
    expect(await two.settle([{ id: "b", token: its.token, to: "completed", result: null }])).toEqual([]);
    await Promise.all([one.close(), two.close()]);
  });
});
