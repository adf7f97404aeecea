import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { instantColumns, repairClock } from "../../../src/storages/sqlite/repair.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { playRepair } from "../repair.ts";
import { temporaryDatabase } from "./support.ts";

/** Numbers that are no instants by the clock of the storage. A new column belongs here, or is named as instants are. */
const OTHERS = [
  "sluice_jobs.priority",
  "sluice_jobs.timeout",
  "sluice_jobs.keep_for",
  "sluice_jobs.due_wall",
  "sluice_jobs.deadline_wall",
  "sluice_lanes.priority",
  "sluice_gates.priority",
  "sluice_limit_changes.at_wall",
  "sluice_limits.called_in",
  "sluice_limits.remaining",
  "sluice_limits.window_ms",
  "sluice_limits.used",
  "sluice_limits.longest",
  "sluice_slots.slots",
  "sluice_starts.n",
  "sluice_starts.spent",
];

describe("the repair of the clock", () => {
  test("the repair knows for every column of numbers whether it holds instants", async () => {
    const path = temporaryDatabase();
    const storage = new SqliteStorage(path);
    await storage.setup();
    const connection = new DatabaseSync(path);
    const tables = connection
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'sluice_*' AND name <> 'sluice_meta'")
      .all() as { name: string }[];
    const all = tables.flatMap(({ name }) =>
      (connection.prepare(`PRAGMA table_info(${name})`).all() as { name: string; type: string }[])
        .filter(({ type }) => type === "REAL")
        .map((column) => `${name}.${column.name}`),
    );
    const moved = new Set(
      instantColumns(connection).flatMap(({ table, columns }) => columns.map((one) => `${table}.${one}`)),
    );
    expect(all.filter((column) => !moved.has(column)).toSorted()).toEqual(OTHERS.toSorted());
    connection.close();
    await storage.close();
  });

  test("the repair changes no decision, while processes are at work", async () => {
    const clock = new FakeClock();
    const path = temporaryDatabase();
    const storages = [new SqliteStorage(path, { clock }), new SqliteStorage(path, { clock })];
    const connection = new DatabaseSync(path);
    await playRepair(storages, clock, async () => repairClock(connection));
    expect(connection.prepare("SELECT skew FROM sluice_meta").get()).toEqual({ skew: 0 });
    connection.close();
    for (const storage of storages) await storage.close();
  });
});
