import { type JobStorage, MemoryStorage } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";

/** Where the jobs and the limits are kept. */
export interface StorageKind {
  readonly name: "SqliteStorage" | "MemoryStorage";
  /** `file`: where the database is, if there is one. */
  readonly open: (file: string) => JobStorage;
}

export const sqlite: StorageKind = { name: "SqliteStorage", open: (file) => new SqliteStorage(file) };
export const memory: StorageKind = { name: "MemoryStorage", open: () => new MemoryStorage() };

export const storageKinds: readonly StorageKind[] = [sqlite, memory];
