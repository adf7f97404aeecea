import { hostname } from "node:os";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { ChildOf } from "./child.ts";
import { newJob } from "./jobs.ts";
import { once, temporaryDatabase as temporaryServerDatabase } from "./postgres/server.ts";
import { temporaryDatabase } from "./sqlite/support.ts";

/** Longer than a registration lasts. */
const LATER_MS = 46_000;

interface Place {
  readonly name: string;
  readonly make: () => Promise<string>;
  readonly open: (place: string) => JobStorage;
  /** The same, as it is so much later. */
  readonly later: (place: string) => Promise<JobStorage>;
}

const PLACES: readonly Place[] = [
  {
    name: "SQLite",
    make: async () => temporaryDatabase(),
    open: (path) => new SqliteStorage(path),
    later: async (path) =>
      new SqliteStorage(path, { clock: { ...systemClock, wall: () => systemClock.wall() + LATER_MS } }),
  },
  {
    name: "Postgres",
    make: temporaryServerDatabase,
    open: (url) => new PostgresStorage(url),
    later: async (url) => {
      await once(
        url,
        `CREATE OR REPLACE FUNCTION sluice.wall() RETURNS float8 LANGUAGE sql VOLATILE AS
          'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 + ${LATER_MS}'`,
      );
      return new PostgresStorage(url);
    },
  },
];

describe.each(PLACES)("$name", ({ make, open, later }) => {
  test("a worker that stops is gone at once, and one that is killed when its registration expires", async () => {
    const place = await make();
    const storage = open(place);
    await storage.setup();
    const children = [1, 2].map(() => new ChildOf(new URL("idle.child.ts", import.meta.url), place));
    const [killed, stopped] = children;
    const [killedId, stoppedId] = await Promise.all(children.map((child) => child.line<string>(0)));
    const shown = await storage.workers("q");
    expect(new Set(shown.map(({ id }) => id))).toEqual(new Set([killedId, stoppedId]));
    expect(shown.find(({ id }) => id === killedId)).toMatchObject({
      host: hostname(),
      pid: killed!.process.pid,
      types: ["ping"],
      concurrency: 2,
    });
    stopped!.say("stop");
    await stopped!.ended();
    killed!.process.kill("SIGKILL");
    await killed!.ended();
    expect((await storage.workers()).map(({ id }) => id)).toEqual([killedId]);
    const job = newJob({ type: "ping" });
    await storage.add([job]);
    await storage.close();
    const afterwards = await later(place);
    expect(await afterwards.workers()).toEqual([]);
    expect((await afterwards.explain(job.id))?.workers).toEqual({ live: 0, handling: 0 });
    await afterwards.close();
  }, 60_000);
});
