import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { ClaimRequest } from "../../../src/storage/job-storage.ts";
import type { SqliteConnection } from "../../../src/storages/sqlite/index.ts";

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

/** A process of its own that runs `<name>.child.ts`. What it prints, line by line, is JSON. */
export class Child {
  readonly process: ChildProcess;
  readonly lines: unknown[] = [];
  readonly #readers: (() => void)[] = [];
  readonly #closed: Promise<unknown>;

  constructor(name: string, ...args: string[]) {
    const file = fileURLToPath(new URL(`${name}.child.ts`, import.meta.url));
    this.process = spawn(process.execPath, [file, ...args], { stdio: ["pipe", "pipe", "inherit"] });
    this.#closed = once(this.process, "close");
    createInterface({ input: this.process.stdout! }).on("line", (line) => {
      this.lines.push(JSON.parse(line));
      for (const read of this.#readers.splice(0)) read();
    });
    this.process.on("close", () => {
      for (const read of this.#readers.splice(0)) read();
    });
    onTestFinished(() => void this.process.kill("SIGKILL"));
  }

  /** The line at this place, once it was printed. */
  async line<T>(index: number): Promise<T> {
    while (this.lines.length <= index) {
      if (this.process.exitCode !== null) throw new Error(`the child ended with ${this.process.exitCode}`);
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
    return this.lines[index] as T;
  }

  say(text: string): void {
    this.process.stdin!.write(`${text}\n`);
  }

  /** All it printed, once it has ended. */
  async ended(): Promise<readonly unknown[]> {
    await this.#closed;
    return this.lines;
  }
}
