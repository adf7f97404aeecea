import { type JobStorage, MemoryStorage } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";

/** Where the jobs and the limits are kept. */
export interface Place {
  readonly name: "SqliteStorage" | "MemoryStorage";
  /** `file`: where the database is, if there is one. */
  readonly open: (file: string) => JobStorage;
}

export const sqlite: Place = { name: "SqliteStorage", open: (file) => new SqliteStorage(file) };
export const memory: Place = { name: "MemoryStorage", open: () => new MemoryStorage() };

export const places: readonly Place[] = [sqlite, memory];
