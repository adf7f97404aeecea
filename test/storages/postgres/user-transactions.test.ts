import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { Lease, NewJob } from "../../../src/storage/job-storage.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { until } from "./office.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

/** Calls that do not touch an open transaction of the user end within this, however long that stays open. */
const SOON_MS = 2_000;

const WEIGHED = rule("w", { max: 100, windowMs: 1_000 }, { weight: "tokens" });

/** So many limits that a step which locks some of them takes the storage for itself. */
const MANY = Array.from({ length: 66 }, (_, i) => rule(`r${i}`, { concurrency: 5 }, { types: [`other${i}`] }));

/** A new job under the key `k`, or another, that comes due in an hour. */
const keyed = (onDuplicate: "return" | "replace", said: Partial<NewJob> = {}, key = "k") =>
  newJob({
    due: { inMs: 3_600_000 },
    idempotency: { key, fingerprint: "f", ttlMs: 3_600_000, onDuplicate },
    ...said,
  });

async function open() {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  onTestFinished(() => storage.close());
  await storage.setup();
  return { url, storage };
}

/** A connection of the user with an open transaction. */
async function begun(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("BEGIN");
  return client;
}

/** Resolves when a session waits for a lock of this kind. */
async function lockIsAwaited(url: string, kind: "advisory" | "transactionid"): Promise<void> {
  const waiting = `SELECT FROM pg_locks WHERE NOT granted AND locktype = $1
    AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`;
  await until(async () => (await once(url, waiting, [kind])).length > 0, 5_000, `a session waits: ${kind}`);
}

/** The sessions that have the rules lock, shared or not. */
const HAVE_RULES = `SELECT pid FROM pg_locks WHERE granted AND locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32 | objid::bigint) = sluice.lock_key('rules', '')`;

/** Those of the jobs that no transaction has locked. */
const unlocked = (url: string, ids: readonly string[]) =>
  once(url, "SELECT id FROM sluice.jobs WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED", [ids]);

const done = ({ id, token }: Lease) => ({ id, token, to: "completed", result: null }) as const;

/** Claims, keeps a lease, pauses: how long that takes. */
async function lifeGoesOn(storage: PostgresStorage): Promise<number> {
  const began = systemClock.now();
  await storage.add([newJob({ queue: "elsewhere" })]);
  const paused = storage.setPaused("other", null, true);
  const { jobs } = await storage.claim(anything({ queue: "elsewhere" }));
  expect(jobs).toHaveLength(1);
  expect(await storage.heartbeat(jobs, 30_000)).toMatchObject({ lost: [] });
  expect(await storage.settle(jobs.map(done))).toEqual([]);
  await paused;
  return systemClock.now() - began;
}

describe("while a transaction of the user is open", () => {
  test("an add that waits for a key that the transaction has taken holds no lock of the storage", async () => {
    const { url, storage } = await open();
    await storage.limits.define([WEIGHED]);
    const user = await begun(url);
    const first = keyed("return");
    await storage.add([first], user);
    const second = storage.add([keyed("return")]);
    await lockIsAwaited(url, "transactionid");
    expect(await once(url, HAVE_RULES)).toEqual([]);
    expect(await lifeGoesOn(storage)).toBeLessThan(SOON_MS);
    await user.query("COMMIT");
    expect(await second).toEqual([{ id: first.id, created: false }]);
  });

  test.each([
    ["a few limits", [WEIGHED]],
    ["many limits", MANY],
  ])("the cancellation of a job that the transaction has replaced holds up no other call: %s", async (_what, rules) => {
    const { url, storage } = await open();
    await storage.limits.define(rules);
    const job = keyed("return");
    await storage.add([job]);
    const user = await begun(url);
    await storage.add([keyed("replace")], user);
    const cancelled = storage.change({ action: "cancel", queue: "q", ids: [job.id] });
    await lockIsAwaited(url, "transactionid");
    expect(await lifeGoesOn(storage)).toBeLessThan(SOON_MS);
    await user.query("ROLLBACK");
    expect(await cancelled).toEqual([job.id]);
  });

  test("a step that takes the storage for itself holds up no call behind it, and runs when the transaction ends", async () => {
    const { url, storage } = await open();
    const user = await begun(url);
    await user.query("SELECT sluice.begin_step()");
    const alone = [storage.setPaused("q", null, true), storage.limits.define([rule("k", { concurrency: 1 })])] as const;
    await lockIsAwaited(url, "advisory");
    await storage.add([newJob(), newJob({ queue: "elsewhere" })]);
    const began = systemClock.now();
    for (let i = 0; i < 3; i++) await storage.claim(anything({ queue: "elsewhere" }));
    expect(systemClock.now() - began).toBeLessThan(SOON_MS);
    await user.query("ROLLBACK");
    await Promise.all(alone);
    expect(await storage.claim(anything())).toMatchObject({ jobs: [] });
    expect(await once(url, "SELECT name FROM sluice.rules")).toEqual([{ name: "k" }]);
  });

  test("a running job is neither waited for nor locked by an add that would replace it", async () => {
    const { url, storage } = await open();
    await storage.add([keyed("return", { due: { inMs: 0 } })]);
    const { jobs } = await storage.claim(anything());
    const worker = await begun(url);
    await worker.query("SELECT FROM sluice.jobs WHERE state = 'active' FOR UPDATE");
    await expect(storage.add([keyed("replace")])).rejects.toMatchObject({ code: "SLUICE_DUPLICATE" });
    await worker.query("ROLLBACK");
    const user = await begun(url);
    await expect(storage.add([keyed("replace")], user)).rejects.toMatchObject({ code: "SLUICE_DUPLICATE" });
    expect(await unlocked(url, [jobs[0]!.id])).toHaveLength(1);
  });
});

describe("a call that waits for a locked job", () => {
  test("a change locks no other job meanwhile: those that have come due are left as they are", async () => {
    const { url, storage } = await open();
    await storage.add([newJob({ id: "a", due: { inMs: 50 } }), newJob({ id: "b", due: { inMs: 50 } })]);
    await until(
      async () => (await once(url, "SELECT FROM sluice.jobs WHERE due_at > sluice.wall()")).length === 0,
      5_000,
      "they are due",
    );
    const user = await begun(url);
    await user.query("SELECT FROM sluice.jobs WHERE id = 'b' FOR UPDATE");
    const cancelled = storage.change({ action: "cancel", queue: "q", ids: ["b"] });
    await lockIsAwaited(url, "transactionid");
    expect(await unlocked(url, ["a", "b"])).toEqual([{ id: "a" }]);
    await user.query("ROLLBACK");
    expect(await cancelled).toEqual(["b"]);
  });

  test("a replacement has locked only jobs that come before it", async () => {
    const { url, storage } = await open();
    await storage.add(["a", "b", "c"].map((id) => keyed("return", { id }, id)));
    const user = await begun(url);
    await user.query("SELECT FROM sluice.jobs WHERE id = 'b' FOR UPDATE");
    const replaced = storage.add(["c", "b", "a"].map((key) => keyed("replace", {}, key)));
    await lockIsAwaited(url, "transactionid");
    expect(await unlocked(url, ["a", "b", "c"])).toEqual([{ id: "c" }]);
    await user.query("ROLLBACK");
    expect(await replaced).toMatchObject([{ created: true }, { created: true }, { created: true }]);
    expect(await storage.find(["a", "b", "c"])).toEqual([undefined, undefined, undefined]);
  });
});

test("a step that takes the storage for itself gets its turn among others that are busy all the time", async () => {
  const { url, storage } = await open();
  const busy = new AbortController();
  const others = Array.from({ length: 8 }, async (_, i) => {
    const one = new PostgresStorage(url, { connections: 1 });
    onTestFinished(() => one.close());
    let steps = 0;
    while (!busy.signal.aborted) {
      await one.add([newJob({ queue: `q${i}` })]);
      const { jobs } = await one.claim(anything({ queue: `q${i}` }));
      await one.settle(jobs.map(done));
      steps += 1;
    }
    return steps;
  });
  for (let i = 0; i < 20; i++) {
    await storage.setPaused("other", null, i % 2 === 0);
    await storage.limits.define([rule("k", { concurrency: 5 + i })]);
  }
  busy.abort();
  expect(Math.min(...(await Promise.all(others)))).toBeGreaterThan(0);
  expect(storage.retries).toBeLessThan(20);
});

test("a step that takes the storage for itself gets its turn where every step of others takes long", async () => {
  const { url, storage } = await open();
  const busy = new AbortController();
  const others = Array.from({ length: 4 }, async (_, i) => {
    await once(url, "SELECT pg_sleep($1)", [i / 5]);
    while (!busy.signal.aborted) await once(url, "SELECT sluice.begin_step(), pg_sleep(0.9)");
  });
  await until(async () => (await once(url, HAVE_RULES)).length === 4, 10_000, "all are at it");
  await storage.setPaused("q", null, true);
  expect(storage.retries).toBeGreaterThan(0);
  busy.abort();
  await Promise.all(others);
});

test("a job of a group that a limit blocks is notified when its transaction commits, as the limit may grant it by then", async () => {
  const { url, storage } = await open();
  await storage.limits.define([rule("g", { concurrency: 1 }, { byGroup: true })]);
  await storage.add([newJob({ group: "a" }), newJob({ group: "a" })]);
  expect(await storage.claim(anything())).toMatchObject({ jobs: [{ group: "a" }], blockedBy: "g[a]" });
  await once(url, "INSERT INTO sluice.listeners VALUES ('listener', 'Infinity', false, false)");
  const listener = new pg.Client({ connectionString: url });
  await listener.connect();
  onTestFinished(() => listener.end());
  const notifications: unknown[] = [];
  listener.on("notification", ({ payload }) => notifications.push(JSON.parse(payload ?? "")));
  await listener.query('LISTEN "sluice:sluice"');
  const user = await begun(url);
  await storage.add([newJob({ group: "a" })], user);
  await user.query("COMMIT");
  await until(() => notifications.length > 0, 5_000, "the notification");
  expect(notifications).toEqual([{ queues: [["q", true]], events: false }]);
});

describe("a due job that an open transaction has locked", () => {
  const BY_GROUP = rule("g", { concurrency: 5 }, { byGroup: true });
  const soon = { inMs: 0 };

  test.each([
    ["without a group", { due: soon }, []],
    ["of a group", { due: soon, group: "a" }, []],
    ["under a limit by group", { due: soon }, [BY_GROUP]],
    ["scheduled before", { due: { inMs: 30 } }, []],
    ["scheduled before, under a limit by group", { due: { inMs: 30 } }, [BY_GROUP]],
  ])("is asked for ten times a second, and there when that ends: %s", async (_what, said, rules) => {
    const { url, storage } = await open();
    await storage.limits.define(rules);
    const job = keyed("return", said);
    await storage.add([job]);
    await until(
      async () => (await once(url, "SELECT FROM sluice.jobs WHERE due_at > sluice.wall()")).length === 0,
      5_000,
      "it is due",
    );
    const user = await begun(url);
    await storage.add([keyed("replace")], user);
    const waits: (number | null)[] = [];
    for (let i = 0; i < 5; i++) {
      const { jobs, more, nextInMs } = await storage.claim(anything());
      expect({ jobs, more }).toEqual({ jobs: [], more: false });
      waits.push(nextInMs);
    }
    // The time that each step takes is subtracted, and the first ones take longer.
    const longest = Math.max(...waits.map((wait) => wait ?? Infinity));
    expect(longest).toBeGreaterThan(10);
    expect(longest).toBeLessThanOrEqual(100);
    await user.query("ROLLBACK");
    expect(await storage.claim(anything())).toMatchObject({ jobs: [{ id: job.id }] });
  });
});
