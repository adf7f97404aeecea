import { mkdirSync } from "node:fs";
import { expect, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { Child, claimOf, newJob, temporaryDatabase } from "./support.ts";

type Line = { wake?: string; cancelled?: string[]; event?: { event: string; id?: string } };

/** The first line from this one on that fits. */
async function lineThat(child: Child, fits: (line: Line) => boolean, from = 0): Promise<Line> {
  for (let i = from; ; i++) {
    const line = await child.line<Line>(i);
    if (fits(line)) return line;
  }
}

test("another process is woken up at once, and receives events and requests to stop", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  const child = new Child("listener", path);
  await child.line(0);
  const late: number[] = [];
  for (let i = 0; i < 20; i++) {
    const from = child.lines.length;
    await storage.add([newJob()]);
    const added = process.hrtime.bigint();
    const { wake } = await lineThat(child, (line) => line.wake !== undefined, from);
    late.push(Number(BigInt(wake!) - added) / 1e6);
  }
  expect(late.toSorted((a, b) => a - b)[10]).toBeLessThan(100);

  const { jobs } = await storage.claim(claimOf());
  const { id } = jobs[0]!;
  await lineThat(child, ({ event }) => event?.event === "started" && event.id === id);
  await storage.change({ action: "cancel", queue: "q", ids: [id] });
  await lineThat(child, ({ cancelled }) => cancelled?.includes(id) ?? false);
  await storage.close();
});

test("another process is woken up within a second or so without a file to watch", async () => {
  const path = temporaryDatabase();
  // No process can open this as a file.
  mkdirSync(`${path}-hint`);
  const storage = new SqliteStorage(path);
  const child = new Child("listener", path);
  await child.line(0);
  await storage.add([newJob()]);
  const added = process.hrtime.bigint();
  const { wake } = await lineThat(child, (line) => line.wake !== undefined);
  expect(Number(BigInt(wake!) - added) / 1e6).toBeLessThan(1_500);
  await storage.close();
});

test("a request to stop from another storage reaches the storage whose worker has the job", async () => {
  const path = temporaryDatabase();
  const mine = new SqliteStorage(path);
  const other = new SqliteStorage(path);
  await mine.add([newJob({ id: "j" })]);
  await mine.claim(claimOf());
  const stopped = new Promise<readonly string[]>((resolve) => mine.subscribe({ queue: "q", cancelled: resolve }));
  await other.change({ action: "cancel", queue: "q", ids: ["j"] });
  expect(await stopped).toEqual(["j"]);
  await mine.close();
  await other.close();
});

test("no events are kept and no file is written while no other process listens", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  const events: string[] = [];
  storage.subscribe({ queue: null, event: ({ event }) => void events.push(event) });
  await storage.add([newJob()]);
  await storage.claim(claimOf());
  expect(events).toEqual(["added", "started"]);
  await storage.close();
  const later = new SqliteStorage(path);
  const seen: string[] = [];
  later.subscribe({ queue: null, event: ({ event }) => void seen.push(event) });
  await later.setup();
  expect(seen).toEqual([]);
  await later.close();
});

test("a new subscriber receives later events, and none from before", async () => {
  const path = temporaryDatabase();
  const mine = new SqliteStorage(path);
  const other = new SqliteStorage(path);
  await mine.setup();
  mine.subscribe({ queue: "q", wake: () => {} });
  mine.subscribe({ queue: "q", event: () => {} })();
  const unsubscribe = other.subscribe({ queue: null, event: () => {} });
  await mine.add([newJob({ id: "before" })]);
  await other.add([newJob({ id: "long before" })]);
  const received: string[] = [];
  const last = new Promise<void>((resolve) => {
    mine.subscribe({
      queue: "q",
      event: (event) => {
        if (!("id" in event)) return;
        received.push(event.id);
        if (event.id === "last") resolve();
      },
    });
  });
  await other.add([newJob({ id: "last" })]);
  await last;
  expect(received).toEqual(["last"]);
  unsubscribe();
  await mine.close();
  await other.close();
});
