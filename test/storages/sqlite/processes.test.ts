import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { Child, newJob, temporaryDatabase } from "./support.ts";

interface Start {
  readonly id: string;
  readonly startedAt: number;
  readonly token: number;
}

const isStart = (line: unknown): line is Start => (line as Partial<Start>).startedAt !== undefined;

function integrity(path: string): unknown {
  const database = new DatabaseSync(path);
  try {
    return database.prepare("PRAGMA integrity_check").get();
  } finally {
    database.close();
  }
}

/** How many jobs wait, by what the lanes say and by what the jobs say: they must agree. */
function waitingTwice(path: string): readonly [number, number] {
  const database = new DatabaseSync(path);
  try {
    const lanes = database.prepare("SELECT total(waiting) AS n FROM sluice_lanes").get() as { n: number };
    const jobs = database.prepare("SELECT count(*) AS n FROM sluice_jobs WHERE state = 'waiting'").get() as {
      n: number;
    };
    return [lanes.n, jobs.n];
  } finally {
    database.close();
  }
}

test("eight processes that start together set up a new database once", async () => {
  const path = temporaryDatabase();
  const children = Array.from({ length: 8 }, () => new Child("starter", path));
  await Promise.all(children.map((child) => child.line(0)));
  for (const child of children) child.say("go");
  for (const child of children) expect(await child.ended()).toEqual(["ready", "set up"]);
  const database = new DatabaseSync(path);
  expect(database.prepare("SELECT count(*) AS n FROM sluice_meta").get()).toEqual({ n: 1 });
  database.close();
});

test("eight processes claim 4,000 jobs: none twice, none lost", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  const jobs = Array.from({ length: 4_000 }, (_, i) => newJob({ group: i % 3 === 0 ? null : `g${i % 50}` }));
  await storage.add(jobs);
  const children = Array.from({ length: 8 }, (_, i) => new Child("claimer", path, `w${i}`, "7"));
  const lines = (await Promise.all(children.map((child) => child.ended()))).flat();
  const starts = lines.filter(isStart);
  expect(starts).toHaveLength(4_000);
  expect(new Set(starts.map(({ id }) => id)).size).toBe(4_000);
  expect(new Set(starts.map(({ token }) => token)).size).toBe(4_000);
  expect(lines.filter((line) => Object.hasOwn(line as object, "stale"))).toEqual([]);
  expect((await storage.overview("q"))[0]?.counts).toMatchObject({ completed: 4_000, waiting: 0, active: 0 });
  expect(waitingTwice(path)).toEqual([0, 0]);
  await storage.close();
});

test("eight processes keep two limits exactly, and use them", async () => {
  const path = temporaryDatabase();
  const storage = new SqliteStorage(path);
  await storage.add(Array.from({ length: 260 }, () => newJob()));
  const limits = [
    { key: "short", max: 10, windowMs: 100 },
    { key: "long", max: 60, windowMs: 1_000 },
  ];
  const args = [path, "3", JSON.stringify(limits)] as const;
  const children = Array.from({ length: 8 }, (_, i) => new Child("claimer", args[0], `w${i}`, args[1], args[2]));
  const lines = (await Promise.all(children.map((child) => child.ended()))).flat();
  const starts = lines
    .filter(isStart)
    .map(({ startedAt }) => startedAt)
    .toSorted((a, b) => a - b);
  expect(starts).toHaveLength(260);
  for (const { max, windowMs } of limits) {
    const over = starts.filter((at, i) => i >= max && at - starts[i - max]! < windowMs);
    expect(over, `windows of ${windowMs} ms with more than ${max} starts`).toEqual([]);
  }
  // When the next slot is available, some process takes it.
  const late = starts
    .map((at, i) => Math.min(...limits.map(({ max, windowMs }) => at - (starts[i - max] ?? Number.NaN) - windowMs)))
    .filter((ms) => !Number.isNaN(ms))
    .toSorted((a, b) => a - b);
  expect(late[Math.floor(late.length / 2)]).toBeLessThan(20);
  await storage.close();
});

test("kill -9 at any moment leaves a sound file with everything that was acknowledged", async () => {
  const path = temporaryDatabase();
  const acknowledged: string[] = [];
  for (let round = 0; round < 6; round++) {
    const children = [0, 1].map((i) => new Child("churner", path, `r${round}c${i}`));
    await Promise.all(children.map((child) => child.line(10 + round * 7)));
    for (const child of children) child.process.kill("SIGKILL");
    for (const child of children) acknowledged.push(...((await child.ended()) as string[][]).flat());
  }
  expect(integrity(path)).toEqual({ integrity_check: "ok" });
  const [lanes, jobs] = waitingTwice(path);
  expect(lanes).toBe(jobs);
  const storage = new SqliteStorage(path);
  const found = await storage.find(acknowledged);
  expect(found.filter((job) => job === undefined)).toEqual([]);
  const states = new Set(found.map((job) => job!.state));
  expect(states.has("completed")).toBe(true);
  await storage.close();
});
