import { expect, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { SCHEMA_VERSION } from "../../../src/storages/postgres/migrations.ts";
import { anything } from "../jobs.ts";
import { Child } from "./children.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

const refused = (message: RegExp) => ({ code: "SLUICE_STORAGE", message: expect.stringMatching(message) as string });

test("a hundred storages that start together set up a new database once", async () => {
  const url = await temporaryDatabase();
  // Some of them in processes of their own.
  const children = Array.from({ length: 2 }, (_, i) => new Child("worker", url, `child${i}`, "1"));
  const storages = Array.from({ length: 100 }, () => new PostgresStorage(url, { connections: 1 }));
  await Promise.all(storages.map((storage) => storage.setup()));
  const versions = Array.from({ length: SCHEMA_VERSION }, (_, i) => ({ version: i + 1 }));
  expect(await once(url, "SELECT version FROM sluice.migrations ORDER BY version")).toEqual(versions);
  expect(await once(url, "SELECT count(*)::int AS n FROM sluice.meta")).toEqual([{ n: 1 }]);
  // All of them work.
  await Promise.all(storages.map((storage) => storage.add([newJob()])));
  await Promise.all(children.map((child) => child.ended()));
  const { jobs } = await storages[7]!.list({
    queue: "q",
    states: ["waiting"],
    type: null,
    group: null,
    since: null,
    until: null,
    limit: 1_000,
    cursor: null,
  });
  expect(jobs.length).toBeLessThanOrEqual(100);
  expect((await storages[8]!.overview("q"))[0]?.counts.waiting).toBe(jobs.length);
  await Promise.all(storages.map((storage) => storage.close()));
});

test("a schema of a later version is refused, and both versions are named", async () => {
  const url = await temporaryDatabase();
  const first = new PostgresStorage(url);
  await first.setup();
  await once(url, "INSERT INTO sluice.migrations (version) VALUES (99)");
  const later = new PostgresStorage(url);
  await expect(later.setup()).rejects.toMatchObject(refused(new RegExp(`\\b99\\b.*\\b${SCHEMA_VERSION}\\b`)));
  await expect(later.add([newJob()])).rejects.toMatchObject(refused(/\b99\b/));
  await Promise.all([first.close(), later.close()]);
});

test("a schema is not made where that is turned off; once another storage has made it, the first one works", async () => {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url, { migrate: false });
  await expect(storage.add([newJob()])).rejects.toMatchObject(refused(/migrate/));
  const other = new PostgresStorage(url);
  await other.setup();
  await other.close();
  expect(await storage.add([newJob()])).toMatchObject([{ created: true }]);
  await storage.close();
});

test("two schemas of one database have nothing in common", async () => {
  const url = await temporaryDatabase();
  const [one, two] = ["one", "two"].map((schema) => new PostgresStorage(url, { schema })) as [
    PostgresStorage,
    PostgresStorage,
  ];
  await one.add([newJob({ id: "j" })]);
  await two.add([newJob({ id: "j", type: "other" })]);
  const limits = [{ key: "l", max: 1, windowMs: 60_000 }];
  expect((await one.claim(anything({ limits }))).jobs).toMatchObject([{ id: "j", type: "t" }]);
  expect((await two.claim(anything({ limits }))).jobs).toMatchObject([{ id: "j", type: "other" }]);
  await Promise.all([one.close(), two.close()]);
});
