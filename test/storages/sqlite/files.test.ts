import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Queue, StorageError, Worker } from "../../../src/index.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { DRIVERS, newJob, temporaryDatabase } from "./support.ts";

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** Two storages over the file that notify each other of jobs, so that there is a hint file if there can be one. */
async function busy(path: string): Promise<void> {
  const [one, other] = [new SqliteStorage(path), new SqliteStorage(path)];
  onTestFinished(async () => void (await Promise.all([one.close(), other.close()])));
  const woken = new Promise<void>((resolve) => other.subscribe({ queue: "q", wake: () => resolve() }));
  await one.setup();
  // A subscriber is registered in the database a moment later; until then no notification is sent.
  await vi.waitFor(async () => {
    await one.add([newJob()]);
    expect(listeners(path)).toBe(1);
  });
  await one.add([newJob({ queue: "q" })]);
  await woken;
}

function listeners(path: string): number {
  const database = new DatabaseSync(path);
  const { n } = database.prepare("SELECT count(*) AS n FROM sluice_processes").get() as { n: number };
  database.close();
  return n;
}

describe.skipIf(process.platform === "win32")("the files of a database", () => {
  test("new files are for their owner alone", async () => {
    const path = temporaryDatabase();
    await busy(path);
    await vi.waitFor(() => expect(existsSync(`${path}-hint`)).toBe(true));
    const modes = ["", "-wal", "-shm", "-hint"].map((end) => [end, modeOf(`${path}${end}`)]);
    expect(modes).toEqual(["", "-wal", "-shm", "-hint"].map((end) => [end, "600"]));
  });

  test.each([
    ["file:", (path: string) => `file:${path}`],
    ["file://", (path: string) => `file://${path}`],
    ["file://localhost", (path: string) => `file://localhost${path}`],
    ["file: with parameters", (path: string) => `file:${path}?mode=rwc&cache=private#x`],
    ["file: with escapes", (path: string) => `file:${path.replace(/jobs/, "%6Aobs").replaceAll(".", "%2e")}`],
  ])("are for their owner alone where they are new, and named by %s", async (_, uriOf) => {
    const path = temporaryDatabase();
    const storage = new SqliteStorage(uriOf(path));
    onTestFinished(() => storage.close());
    await storage.setup();
    expect(["", "-wal", "-shm"].map((end) => modeOf(`${path}${end}`))).toEqual(["600", "600", "600"]);
  });

  test("the files are not created where the URI says so", async () => {
    const path = temporaryDatabase();
    for (const uri of [`file:${path}?mode=rw`, `file:${path}?mode=ro`, `file:${path}?mode=memory`]) {
      const storage = new SqliteStorage(uri);
      await storage.setup().catch(() => {});
      await storage.close();
      expect(existsSync(path)).toBe(false);
    }
  });

  test("new files have the mode of the database where that is there", async () => {
    const path = temporaryDatabase();
    writeFileSync(path, "");
    chmodSync(path, 0o640);
    writeFileSync(`${path}-hint`, "!");
    chmodSync(`${path}-hint`, 0o666);
    await busy(path);
    await vi.waitFor(() => expect(modeOf(`${path}-hint`)).toBe("640"));
    expect(["", "-wal", "-shm"].map((end) => modeOf(`${path}${end}`))).toEqual(["640", "640", "640"]);
  });

  test.each([
    ["a symbolic link", symlinkSync],
    ["a hard link", linkSync],
  ])("are not written through %s", async (_, link) => {
    const path = temporaryDatabase();
    const victim = join(dirname(path), "victim");
    writeFileSync(victim, "precious", { mode: 0o644 });
    chmodSync(victim, 0o644);
    link(victim, `${path}-hint`);
    await busy(path);
    expect(readFileSync(victim, "utf8")).toBe("precious");
    expect(modeOf(victim)).toBe("644");
  });

  test("the files are not created where a link leads to nothing", async () => {
    const path = temporaryDatabase();
    const nothing = join(dirname(path), "nothing");
    symlinkSync(nothing, `${path}-hint`);
    await busy(path);
    expect(existsSync(nothing)).toBe(false);
  });

  test("the files are beside the real file where the path is a link to it", async () => {
    const path = temporaryDatabase();
    const real = join(dirname(path), "real", "jobs.db");
    mkdirSync(dirname(real));
    symlinkSync(real, path);
    await busy(path);
    await vi.waitFor(() => expect(existsSync(`${real}-hint`)).toBe(true));
    expect([lstatSync(path).isSymbolicLink(), existsSync(`${path}-hint`), modeOf(real)]).toEqual([true, false, "600"]);
  });
});

describe.skipIf(process.platform === "win32")("a database whose file is gone", () => {
  test.each(DRIVERS)(
    "the loss is noticed, and the file is used again when it is back: $driver",
    async ({ connect }) => {
      const path = temporaryDatabase();
      const clock = new FakeClock();
      const connection = connect(path);
      const storage = new SqliteStorage(connection, { clock });
      onTestFinished(() => void connection.close());
      await storage.add([newJob({ id: "before" })]);
      renameSync(path, `${path}.away`);
      await clock.advance(1_000);
      const deleted = expect.objectContaining({ message: expect.stringMatching(/jobs\.db was deleted or moved/) });
      for (const call of [storage.add([newJob()]), storage.overview(), storage.sweep()]) {
        await expect(call).rejects.toBeInstanceOf(StorageError);
      }
      await expect(storage.overview()).rejects.toEqual(deleted);
      writeFileSync(path, "");
      await expect(storage.overview()).rejects.toThrow(/was replaced by another file/);
      renameSync(`${path}.away`, path);
      expect((await storage.find(["before"]))[0]?.state).toBe("waiting");
      await storage.close();
    },
  );

  test("the loss is reported to onError of a worker", async () => {
    const path = temporaryDatabase();
    const clock = new FakeClock();
    const storage = new SqliteStorage(path, { clock });
    const queue = new Queue("q", { storage, clock });
    const errors: unknown[] = [];
    const worker = new Worker("q", async () => {}, { storage, clock, onError: (error) => errors.push(error) });
    const job = await queue.add("t", null);
    await clock.advance(100);
    expect(await job.info()).toMatchObject({ state: "completed" });
    expect(errors).toEqual([]);
    renameSync(path, `${path}.away`);
    await clock.advance(60_000);
    expect(errors[0]).toBeInstanceOf(StorageError);
    expect((errors[0] as Error).message).toMatch(/was deleted or moved/);
    renameSync(`${path}.away`, path);
    await clock.advance(60_000);
    const later = await queue.add("t", null);
    await clock.advance(10_000);
    expect(await later.info()).toMatchObject({ state: "completed" });
    await Promise.all([worker.stop(), clock.advance(1_000)]);
    await storage.close();
  });
});
