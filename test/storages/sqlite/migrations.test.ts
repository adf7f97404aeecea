import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { StorageError } from "../../../src/core/errors.ts";
import { type SqliteConnection, SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { SCHEMA_VERSION } from "../../../src/storages/sqlite/migrations.ts";
import { SCHEMA_1 } from "../../../src/storages/sqlite/schema-1.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import {
  answersAsBefore,
  drainsWithinLimits,
  keptOf,
  type Migrated,
  sqliteDump,
  takesTokensOfBefore,
} from "../fixtures/version-1/kept.ts";
import { Child, claimOf, newJob, temporaryDatabase } from "./support.ts";

/** A file that version 1 has left. */
function oldFile(): string {
  const path = temporaryDatabase();
  const database = new DatabaseSync(path);
  database.exec(`PRAGMA journal_mode = WAL; BEGIN; ${sqliteDump()} COMMIT`);
  database.close();
  return path;
}

function opened(target: string | SqliteConnection, options: { readonly migrate?: boolean } = {}): Migrated {
  const kept = keptOf("sqlite");
  const clock = new FakeClock(kept.wall);
  const storage = new SqliteStorage(target, { clock, ...options });
  onTestFinished(() => storage.close());
  return { storage, kept, advance: (ms) => clock.advance(ms) };
}

function connected(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  onTestFinished(() => {
    if (database.isOpen) database.close();
  });
  return database;
}

const schemaOf = (database: DatabaseSync) =>
  database.prepare("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").all();

const rowsOf = (database: DatabaseSync): Readonly<Record<string, unknown>> => {
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all() as {
    name: string;
  }[];
  return Object.fromEntries(tables.map(({ name }) => [name, database.prepare(`SELECT * FROM ${name}`).all()]));
};

/** How a process of version 1 begins every transaction. */
const OLD_META = `SELECT last, skew, sequence, rules,
    (SELECT max(until) FROM sluice_listeners WHERE origin <> ?) AS others,
    (SELECT max(until) FROM sluice_listeners WHERE origin <> ? AND events = 1) AS hearing
  FROM sluice_meta`;

/** Tables and columns that have another name in version 2. */
const RENAMED: Readonly<Record<string, string>> = {
  sluice_holds: "sluice_slots",
  pause_until: "held_until",
  told_left: "remaining",
  told_until: "remaining_until",
};

describe("a database of version 1", () => {
  it("has the tables that version 1 was released with", () => {
    const hash = createHash("sha256").update(SCHEMA_1).digest("hex");
    expect(hash, "version 1 never changes: a change of the tables is a step to a later version").toBe(
      "e42446aed55210499f9f1a6222bdcbd56d44a53af0a03adc1a5844259c016c60",
    );
  });

  it("answers as before: jobs, counts, history, limits and explanations", async () => {
    await answersAsBefore(opened(oldFile()));
  });

  it("takes the tokens of leases, permits, starts and grants that its processes were given", async () => {
    await takesTokensOfBefore(opened(oldFile()));
  });

  it("can be drained, and no window is over its limit", async () => {
    await drainsWithinLimits(opened(oldFile()));
  });

  it("keeps every column of every row that the new version has as well", async () => {
    const path = oldFile();
    const database = connected(path);
    const before = rowsOf(database) as Record<string, Record<string, unknown>[]>;
    await opened(path).storage.setup();
    const after = rowsOf(database) as Record<string, Record<string, unknown>[]>;
    for (const [table, rows] of Object.entries(before)) {
      if (["sluice_listeners", "sluice_rules", "sqlite_sequence"].includes(table)) continue;
      const dropped = new Set(["version", "blocked_until", "blocked_by", "heavy_since", "used_at"]);
      const kept = rows.map((row) =>
        Object.fromEntries(
          Object.entries(row).flatMap(([name, value]) => (dropped.has(name) ? [] : [[RENAMED[name] ?? name, value]])),
        ),
      );
      expect(after[RENAMED[table] ?? table], table).toMatchObject(kept);
    }
    expect(after["sqlite_sequence"]).toEqual(expect.arrayContaining(before["sqlite_sequence"]!));
  });

  it("becomes the same as a new one", async () => {
    const old = connected(oldFile());
    const fresh = connected(temporaryDatabase());
    for (const database of [old, fresh]) await new SqliteStorage(database).setup();
    expect(schemaOf(old)).toEqual(schemaOf(fresh));
    expect(old.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  });

  it("keeps the place of a lane whose heavy job was to be looked at again when it was migrated", async () => {
    const path = oldFile();
    const database = connected(path);
    database.exec("UPDATE sluice_lanes SET blocked_until = NULL WHERE heavy IS NOT NULL");
    const { storage } = opened(path);
    await storage.setup();
    expect(
      database
        .prepare(
          "SELECT gate.name, until, heavy_since FROM sluice_lanes JOIN sluice_gates AS gate ON front = sluice_lanes.id",
        )
        .all(),
    ).toEqual(["asked", "tokens"].map((name) => ({ name, until: null, heavy_since: 1893456001900 })));
    await storage.claim(claimOf({ types: ["chat", "ask"], max: 5 }));
    expect(database.prepare("SELECT heavy_since FROM sluice_lanes WHERE heavy IS NOT NULL").all()).toEqual([
      { heavy_since: 1893456001900 },
      { heavy_since: 1893456001900 },
    ]);
  });

  it("starts jobs of many types in their order", async () => {
    const path = oldFile();
    const database = connected(path);
    for (let n = 12; n > 0; n--) {
      database.exec(`INSERT INTO sluice_lanes (id, queue, type, priority, grp, waiting, turn, used_at)
          VALUES (${900 + n}, 'many', 't${n}', 0, '', 1, 0, 0);
        INSERT INTO sluice_jobs (id, queue, type, state, lane, priority, data, max_attempts, backoff, created_at, due_at)
          VALUES ('many ${n}', 'many', 't${n}', 'waiting', ${900 + n}, 0, 'null', 1, '{}', ${n}, ${n});`);
    }
    const { storage } = opened(path);
    const { jobs } = await storage.claim(claimOf({ queue: "many", max: 5 }));
    expect(jobs.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5].map((n) => `many ${n}`));
    expect(database.prepare("SELECT count(first_at) AS n FROM sluice_lanes WHERE queue = 'many'").get()).toEqual({
      n: 12,
    });
  });

  it("is refused where nothing may be migrated, and stays as it is", async () => {
    const path = oldFile();
    const database = connected(path);
    const before = rowsOf(database);
    const refused = opened(path, { migrate: false }).storage.setup();
    await expect(refused).rejects.toThrow(StorageError);
    await expect(refused).rejects.toThrow(`has schema version 1 and needs ${SCHEMA_VERSION}`);
    expect(rowsOf(database)).toEqual(before);
  });

  it("stays as it is where the migration fails midway", async () => {
    const path = oldFile();
    const database = connected(path);
    // What the step makes last is there already.
    database.exec("CREATE TABLE sluice_workers (n)");
    const [schema, rows] = [schemaOf(database), rowsOf(database)];
    await expect(opened(path).storage.setup()).rejects.toThrow(/sluice_workers already exists/);
    expect(schemaOf(database)).toEqual(schema);
    expect(rowsOf(database)).toEqual(rows);
    database.exec("DROP TABLE sluice_workers");
    await answersAsBefore(opened(path));
  });

  it("is migrated once by several processes that start together", async () => {
    const path = oldFile();
    const children = Array.from({ length: 4 }, () => new Child("migrator", path));
    for (const child of children) expect(await child.line(0)).toBe("ready");
    for (const child of children) child.say("go");
    for (const child of children) expect(await child.line(1)).toBe("done");
    const { storage } = opened(path);
    await storage.setup();
    expect(connected(path).prepare("SELECT version FROM sluice_meta").all()).toEqual([{ version: SCHEMA_VERSION }]);
    await answersAsBefore(opened(path));
  });

  it("stays as it is where the process that migrates it is killed", async () => {
    const path = oldFile();
    const before = rowsOf(connected(path));
    const child = new Child("migrator", path, "uncommitted");
    await child.line(0);
    child.say("go");
    expect(await child.line(1)).toBe("migrated");
    child.process.kill("SIGKILL");
    await child.ended();
    expect(rowsOf(connected(path))).toEqual(before);
    await answersAsBefore(opened(path));
  });
});

describe("a process that has the file open while another one migrates it", () => {
  it("is refused in clear words if it is of version 1, before it has changed anything", async () => {
    const path = oldFile();
    const old = connected(path);
    const meta = old.prepare(OLD_META);
    expect(meta.get("me", "me")).toMatchObject({ rules: 3 });
    await opened(path).storage.setup();
    const words = "the database has schema version 2, and this process works with version 1: update Sluice";
    expect(() => meta.get("me", "me")).toThrow(words);
    expect(() => old.prepare(OLD_META).get("me", "me")).toThrow(words);
    expect(() => old.exec("INSERT INTO sluice_listeners (origin, until, events) VALUES ('me', 1, 1)")).toThrow(
      /is a view/,
    );
  });

  it("is refused by a typed error that names both versions if it is of this one, and changes nothing", async () => {
    const path = temporaryDatabase();
    const { storage } = opened(path);
    await storage.add([newJob({ id: "before" })]);
    const later = connected(path);
    later.exec(`UPDATE sluice_meta SET version = ${SCHEMA_VERSION + 1}`);
    const words = `the database has schema version ${SCHEMA_VERSION + 1}, and this release of Sluice knows ${SCHEMA_VERSION}: update Sluice`;
    const calls = [
      () => storage.add([newJob({ id: "after" })]),
      () => storage.claim(claimOf()),
      () => storage.overview(),
      () => storage.rates.recordExecution("r"),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toThrow(StorageError);
      await expect(call()).rejects.toThrow(words);
    }
    // A later version may have taken away what this one reads.
    later.exec("ALTER TABLE sluice_meta DROP COLUMN boot");
    for (const call of calls) await expect(call()).rejects.toThrow(words);
    expect(later.prepare("SELECT id, state FROM sluice_jobs").all()).toEqual([{ id: "before", state: "waiting" }]);
  });
});
