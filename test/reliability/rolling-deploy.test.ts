import { expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { type JobStorage, Limits, Queue } from "../../src/index.ts";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { ChildOf } from "../storages/child.ts";
import { temporaryDatabase as temporaryServerDatabase } from "../storages/postgres/server.ts";
import { temporaryDatabase as temporaryFile } from "../storages/sqlite/support.ts";

const WINDOW_MS = 200;
const api = (max: number) => ({ max, per: WINDOW_MS, all: true });
const OLD = { version: 1, limits: { api: api(10), legacy: { concurrency: 50, all: true } } };
const NEW = { version: 2, limits: { api: api(5) } };
const JOBS = 60;

const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));

interface Place {
  readonly place: string;
  readonly storage: JobStorage & AsyncDisposable;
}

const PLACES: readonly { readonly name: string; readonly open: () => Promise<Place> }[] = [
  {
    name: "SQLite",
    open: async () => {
      const place = temporaryFile();
      return { place, storage: new SqliteStorage(place) };
    },
  },
  {
    name: "Postgres",
    open: async () => {
      const place = await temporaryServerDatabase();
      return { place, storage: new PostgresStorage(place) };
    },
  },
];

/** So many windows have more than `max` calls, by stamps in whole milliseconds. */
function over(calls: readonly number[], max: number): number {
  const inOrder = calls.toSorted((a, b) => a - b);
  return inOrder.filter((at, i) => i >= max && at - inOrder[i - max]! < WINDOW_MS - 1).length;
}

test.each(PLACES)(
  "processes of an old and a new version, killed and started again: the higher version holds, on $name",
  async ({ open }) => {
    const { place, storage } = await open();
    const queue = new Queue("q", { storage, defaults: { maxAttempts: 100 } });
    const started: ChildOf[] = [];
    const start = async ({ version, limits }: typeof OLD | typeof NEW): Promise<ChildOf> => {
      const child = new ChildOf(
        new URL("deploy.child.ts", import.meta.url),
        place,
        String(version),
        JSON.stringify(limits),
      );
      started.push(child);
      for (let i = 0; (await child.line(i)) !== "ready"; i++);
      return child;
    };
    const kill = async (child: ChildOf): Promise<void> => {
      child.process.kill("SIGKILL");
      await child.ended().catch(() => {});
    };
    const outcomes = (child: ChildOf) => child.lines.filter((line) => Object.hasOwn(line as object, "outcome"));

    const add = () => queue.addBulk(Array.from({ length: JOBS }, (_, data) => ({ type: "t", data })));

    await add();
    const old = [await start(OLD), await start(OLD)];
    const fleet = [await start(NEW)];
    expect(outcomes(fleet[0]!)).toEqual([
      { outcome: "changed", limit: "api" },
      { outcome: "changed", limit: "legacy" },
    ]);
    // A process of the old version that crashes before it is replaced starts again, and goes on under the new limits.
    for (const one of old) {
      await kill(one);
      const again = await start(OLD);
      expect(outcomes(again)).toEqual([
        { outcome: "kept", limit: "api" },
        { outcome: "kept", limit: "legacy" },
      ]);
      await kill(again);
      fleet.push(await start(NEW));
    }
    const deployedAt = Date.now();
    await add();
    while ((await queue.counts()).completed < 2 * JOBS) await after(20);
    for (const child of fleet) child.say("stop");
    await Promise.all(fleet.map((child) => child.ended()));

    const lines = started.flatMap((child) => child.lines);
    const calls = lines.flatMap((line) => (Object.hasOwn(line as object, "called") ? [(line as Called).called] : []));
    // On a busy machine a worker reports that its event loop was blocked, rightly.
    const errors = lines.flatMap((line) => (line as { readonly error?: string }).error ?? []);
    expect(errors.filter((error) => !error.includes("the event loop was blocked"))).toEqual([]);
    expect(calls.length).toBeGreaterThanOrEqual(2 * JOBS);
    expect(over(calls, 10), "windows over the larger of the two").toBe(0);
    const since = calls.filter((at) => at > deployedAt);
    expect(over(since, 5), "windows over the new one since all processes are new").toBe(0);

    const limits = new Limits(storage);
    expect(await limits.list()).toMatchObject([{ name: "api", max: 5, version: 2, owners: ["mailer"], revision: 2 }]);
    expect((await limits.history()).map(({ limit, kind, version }) => [limit, kind, version])).toEqual([
      ["legacy", "removed", 2],
      ["api", "declared", 2],
      ["legacy", "declared", 1],
      ["api", "declared", 1],
    ]);
    await storage[Symbol.asyncDispose]();
  },
);

interface Called {
  readonly called: number;
}
