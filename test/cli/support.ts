import { execFile, type ExecFileException } from "node:child_process";
import { chmodSync, cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../src/core/clock.ts";
import { type Io, plain } from "../../src/cli/io.ts";
import { run } from "../../src/cli/run.ts";
import { Queue } from "../../src/queue/queue.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { liveWorker } from "../live-worker.ts";

export const MAIN = resolve("src/cli/main.ts");

export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the binary as a process of its own. */
export function sluice(args: readonly string[], env?: Record<string, string>): Promise<Ended> {
  return program(MAIN, args, env);
}

/** Runs a file as a process of its own. Nothing of the environment of the tests reaches it, but for its PATH. */
export function program(file: string, args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      [file, ...args],
      { env: { PATH: process.env["PATH"], ...env }, timeout: 150_000 },
      (error: ExecFileException | null, out, err) => done({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });
}

/** Runs a command in this process, as if at a terminal if so wanted. */
export async function inProcess(args: readonly string[], io: Partial<Io> = {}): Promise<Ended> {
  return intoTexts((all) => run(args, all), io);
}

/** What `command` answers and says to an outside world that holds nothing. */
export async function intoTexts(command: (io: Io) => Promise<number>, io: Partial<Io> = {}): Promise<Ended> {
  let out = "";
  let err = "";
  const code = await command({
    env: {},
    clock: systemClock,
    paint: plain,
    paintError: plain,
    terminal: false,
    interactive: false,
    columns: () => undefined,
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    interrupted: () => new AbortController().signal,
    ...io,
  });
  return { code, out, err };
}

/**
 * A folder for the files of one test file, which other users may enter too. Not in the checkout, which may be closed to them:
 * a Postgres server that root starts runs as another user.
 */
export function folderFor(name: string): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `sluice-cli-${name}-`));
  chmodSync(path, 0o755);
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** The ids of the jobs in a filled database, by what they are for. */
export type Filled = Readonly<
  Record<"waiting" | "scheduled" | "active" | "completed" | "dead" | "cancelled" | "awaiting" | "other", string>
>;

export const SECRET = "hunter2";
const ESCAPE = "\u001b[31m";

/** Makes a database with a job in every state in the queue `mail`, and one in `other`. */
export async function fill(path: string): Promise<Filled> {
  const storage = new SqliteStorage(path);
  const ids = await fillStorage(storage);
  await storage.close();
  // No flow has been built yet that would make such a job.
  tamper(path, `UPDATE sluice_jobs SET state = 'awaiting' WHERE id = '${ids.awaiting}'`);
  return ids;
}

/** The same in any storage, but that the job that is to wait for others is still scheduled. */
export async function fillStorage(storage: JobStorage): Promise<Filled> {
  const mail = new Queue("mail", { storage });
  const take = async (type: string) => {
    const claim = { queue: "mail", worker: "worker-1", max: 1, types: [type], leaseMs: 60_000, settle: [] };
    const limits = [{ key: "queue:mail", max: 100, windowMs: 60_000 }];
    const { jobs } = await storage.claim({ ...claim, limits });
    return { id: jobs[0]!.id, token: jobs[0]!.token };
  };
  const data = { to: "ann@example.org", password: SECRET };

  const completed = await mail.add("send_email", data, { group: "acme", priority: 3, idempotencyKey: "key-1" });
  const done = await take("send_email");
  await storage.report([{ ...done, progress: { percent: 40, message: "half way", details: { at: SECRET } } }]);
  await storage.report([{ ...done, log: [`first ${ESCAPE}line`, "second\nthird"] }]);
  await storage.settle([{ ...done, to: "completed", result: JSON.stringify({ sent: SECRET }) }]);

  const dead = await mail.add("flaky", data, { maxAttempts: 2, timeout: "5s" });
  const error = {
    name: "Error",
    message: `it broke ${ESCAPE}badly`,
    stack: "Error: it broke\n    at there (file.js:1:2)",
  };
  await storage.settle([{ ...(await take("flaky")), to: "retry", inMs: 0, error }]);
  await storage.settle([{ ...(await take("flaky")), to: "dead", error: { ...error, code: "E_LAST" } }]);

  const active = await mail.add("slow", [1, 2, 3]);
  await take("slow");
  const cancelled = await mail.add("send_email", data);
  await mail.cancel(cancelled.id);
  const waiting = await mail.add("send_email", data, { group: "acme" });
  const scheduled = await mail.add("send_digest", data, { delay: "2h" });
  const awaiting = await mail.add("step", data, { delay: "2h" });
  const other = await new Queue("other", { storage }).add("ping", null);
  await liveWorker(storage, "mail", { id: "worker-1", host: "machine", pid: 12, concurrency: 3, limits: ["api"] });
  await liveWorker(storage, "other", { types: ["ping"] });
  const jobs = { waiting, scheduled, active, completed, dead, cancelled, awaiting, other };
  return Object.fromEntries(Object.entries(jobs).map(([name, { id }]) => [name, id])) as Filled;
}

/** A copy to change. */
export function copyOf(database: string, name: string): string {
  const copy = join(database, "..", `${name}.db`);
  cpSync(database, copy);
  return copy;
}

/** Does something to the tables that no storage would do. */
export function tamper(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  database.exec(sql);
  database.close();
}
