import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { SqliteRateLimiterStorage, SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { isOlder } from "../../../src/storages/sqlite/connection.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, DRIVERS, newJob, temporaryDatabase } from "./support.ts";

const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));

test("a lock that another process holds for a while causes no error", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  await storage.setup();
  const foreign = new DatabaseSync(path);
  foreign.exec("BEGIN IMMEDIATE");
  let turns = 0;
  let holding = true;
  const adds = Array.from({ length: 20 }, async () => {
    const added = await storage.add([newJob()]);
    expect(holding).toBe(false);
    return added;
  });
  const claims = storage.claim(claimOf({ max: 20 }));
  // The event loop goes round meanwhile: the wait does not block it.
  for (const until = systemClock.now() + 1_500; systemClock.now() < until; turns++) await after(5);
  expect(turns).toBeGreaterThan(15);
  holding = false;
  foreign.exec("COMMIT");
  foreign.close();
  expect((await Promise.all(adds)).flat().every(({ created }) => created)).toBe(true);
  expect(await claims).toBeDefined();
  expect((await storage.overview("q"))[0]?.counts.waiting).toBe(20);
  await storage.close();
});

test("a lock that is never released fails the call in time, with an error that says so", async () => {
  const path = temporaryDatabase();
  const clock = new FakeClock();
  // A connection that does not wait by itself, so that only the clock moved by hand counts.
  const storage = new SqliteStorage(new DatabaseSync(path), { clock });
  await storage.setup();
  const foreign = new DatabaseSync(path);
  foreign.exec("BEGIN IMMEDIATE");
  const failed = expect(storage.add([newJob()])).rejects.toThrow(/locked for 30 s/);
  await clock.advance(31_000);
  await failed;
  foreign.close();
  await storage.close();
});

describe.each(DRIVERS)("a connection of the user's own ($driver)", ({ connect }) => {
  test("the connection is left alone while a transaction is open on it, and is never closed", async () => {
    const path = temporaryDatabase();
    const connection = connect(path);
    const storage = new SqliteStorage(connection);
    await storage.setup();
    connection.exec("CREATE TABLE mine (n INTEGER)");
    connection.exec("BEGIN");
    connection.exec("INSERT INTO mine VALUES (1)");
    let added = false;
    const adding = storage.add([newJob()]).then(() => (added = true));
    const counting = storage.overview("q");
    await after(30);
    expect(added).toBe(false);
    connection.exec("ROLLBACK");
    await adding;
    await counting;
    expect(connection.prepare("SELECT count(*) AS n FROM mine").get()).toEqual({ n: 0 });
    expect((await storage.overview("q"))[0]?.counts.waiting).toBe(1);
    await storage.close();
    expect(connection.prepare("SELECT 1 AS n").get()).toEqual({ n: 1 });
    connection.close();
  });

  test("the connection serves a storage and a limiter storage together, on one log", async () => {
    const connection = connect(":memory:");
    const storage = new SqliteStorage(connection);
    const limiter = new SqliteRateLimiterStorage(connection);
    await storage.add([newJob(), newJob()]);
    await limiter.recordExecution("l");
    const limits = [{ key: "l", max: 2, windowMs: 60_000 }];
    const { jobs, blockedBy } = await storage.claim(claimOf({ max: 2, limits }));
    expect(jobs).toHaveLength(1);
    expect(blockedBy).toBe("l");
    expect(await limiter.tryRecordExecution("l", { maxExecutions: 2, windowMs: 60_000 })).toMatchObject({
      granted: false,
    });
    await storage.close();
  });
});

test("settings of the connection that change how it answers have no effect", async () => {
  const connection = new DatabaseSync(":memory:", { readBigInts: true, returnArrays: true });
  const storage = new SqliteStorage(connection);
  await storage.add([newJob({ id: "j" })]);
  const { jobs } = await storage.claim(claimOf());
  expect(jobs).toMatchObject([{ id: "j", token: 1, attempt: 1 }]);
  await storage.close();
});

describe("tables of the storage", () => {
  test("tables of a later version are refused, and both versions are named", async () => {
    const path = temporaryDatabase();
    const first = new SqliteStorage(path);
    await first.setup();
    await first.close();
    const database = new DatabaseSync(path);
    database.exec("UPDATE sluice_meta SET version = 99");
    database.close();
    const later = new SqliteStorage(path);
    await expect(later.setup()).rejects.toMatchObject({
      code: "SLUICE_STORAGE",
      message: expect.stringMatching(/version 99.*knows 2/) as string,
    });
    await later.close();
  });

  test("tables are not created where that is turned off", async () => {
    const path = temporaryDatabase();
    const storage = new SqliteStorage(path, { migrate: false });
    await expect(storage.add([newJob()])).rejects.toMatchObject({ code: "SLUICE_STORAGE" });
    const other = new SqliteStorage(path);
    await other.setup();
    await other.close();
    expect(await storage.add([newJob()])).toMatchObject([{ created: true }]);
    await storage.close();
  });
});

test("a closed storage refuses every call, and completes the calls before it", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  const added = storage.add([newJob()]);
  await storage.close();
  expect(await added).toMatchObject([{ created: true }]);
  const refused = { code: "SLUICE_STORAGE", message: expect.stringContaining("closed") as string };
  await expect(storage.add([newJob()])).rejects.toMatchObject(refused);
  await expect(storage.claim(claimOf())).rejects.toMatchObject(refused);
  await expect(storage.sweep()).rejects.toMatchObject(refused);
  await expect(storage.rates.recordExecution("l")).rejects.toMatchObject(refused);
  expect(() => storage.subscribe({ queue: null })).toThrow(/closed/);
  await storage.close();
});

test("invalid options are refused by name", () => {
  expect(() => new SqliteStorage("")).toThrow(/`database`/);
  expect(() => new SqliteStorage({} as never)).toThrow(/`database`/);
  expect(() => new SqliteStorage(":memory:", { migrat: true } as never)).toThrow(/did you mean `migrate`/);
  expect(() => new SqliteStorage(":memory:", { synchronous: "off" as never })).toThrow(/"normal" or "full"/);
});

test("versions of SQLite are compared as numbers", () => {
  expect(isOlder("3.51.2", [3, 51, 3])).toBe(true);
  expect(isOlder("3.9.0", [3, 51, 3])).toBe(true);
  expect(isOlder("3.51.3", [3, 51, 3])).toBe(false);
  expect(isOlder("3.100.0", [3, 51, 3])).toBe(false);
  expect(isOlder("4.0.0", [3, 51, 3])).toBe(false);
});

test("a connection that the user has closed fails every call, and the process goes on", async () => {
  const db = new DatabaseSync(temporaryDatabase());
  const clock = new FakeClock();
  const storage = new SqliteStorage(db, { clock });
  storage.subscribe({ queue: "q", wake: () => {}, event: () => {} });
  await storage.add([newJob()]);
  db.close();
  await clock.advance(5_000);
  await expect(storage.add([newJob()])).rejects.toThrow(/SQLite/);
  await storage.close();
});

test("close waits for adds that wait for a lock", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  await storage.setup();
  const foreign = new DatabaseSync(path);
  foreign.exec("BEGIN IMMEDIATE");
  const added = storage.add([newJob({ id: "kept" })]);
  await after(20);
  const closed = storage.close();
  await after(20);
  foreign.exec("COMMIT");
  expect((await added)[0]?.created).toBe(true);
  await closed;
  foreign.close();
});
