import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";
import type { ClaimRequest } from "../../../src/storage/job-storage.ts";
import type { SqliteConnection } from "../../../src/storages/sqlite/index.ts";
import { ChildOf } from "../child.ts";

const BetterSqlite = createRequire(import.meta.url)("better-sqlite3") as new (path: string) => SqliteConnection;

/** Both kinds of connections that users may bring. */
export const DRIVERS: readonly { readonly driver: string; readonly connect: (path: string) => SqliteConnection }[] = [
  { driver: "node:sqlite", connect: (path) => new DatabaseSync(path) },
  { driver: "better-sqlite3", connect: (path) => new BetterSqlite(path) },
];

/** A path for a database that is gone after the test. */
export function temporaryDatabase(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "jobs.db");
}

export { rule } from "../../../src/testing/suite/limit-words.ts";
export { newJob } from "../jobs.ts";

export function claimOf(request: Partial<ClaimRequest> = {}): ClaimRequest {
  return { queue: "q", worker: "w", max: 1, types: null, leaseMs: 30_000, limits: [], settle: [], ...request };
}

/** A process of its own that runs `<name>.child.ts`. */
export class Child extends ChildOf {
  constructor(name: string, ...args: string[]) {
    super(new URL(`${name}.child.ts`, import.meta.url), ...args);
  }
}
