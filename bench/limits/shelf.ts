import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JobStorage } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { type Backlog, inMemory, onSqlite } from "../queue/backlog.ts";
import type { StorageKind } from "./storages.ts";

/** Storages with jobs that wait in them, open until everything has been measured. */
export interface Shelf {
  /** A storage with such a backlog, used by one contender alone. */
  put(backlog: Backlog): Promise<JobStorage>;
}

export async function withShelf<T>(kind: StorageKind, use: (shelf: Shelf) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const open: JobStorage[] = [];
  const made = new Map<string, string>();
  /** A backlog is written once, and copied as a file for each contender. */
  const copied = async (backlog: Backlog): Promise<JobStorage> => {
    const key = `${backlog.jobs}-${backlog.groups}`;
    let original = made.get(key);
    if (original === undefined) {
      original = join(folder, `${key}.db`);
      await (await onSqlite(original, backlog)).close();
      made.set(key, original);
    }
    const file = join(folder, `${key}-${open.length}.db`);
    copyFileSync(original, file);
    return new SqliteStorage(file);
  };
  try {
    return await use({
      async put(backlog) {
        const storage = await (kind.name === "SqliteStorage" ? copied(backlog) : inMemory(backlog));
        open.push(storage);
        return storage;
      },
    });
  } finally {
    for (const storage of open) await storage.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
