import { expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { Child } from "./children.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

interface Start {
  readonly id: string;
  readonly token: number;
}

const isStart = (line: unknown): line is Start => Object.hasOwn(line as object, "token");
const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));

test("four processes claim 2,000 jobs: none twice, none lost", async () => {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.add(Array.from({ length: 2_000 }, (_, i) => newJob({ group: i % 3 === 0 ? null : `g${i % 50}` })));
  const children = Array.from({ length: 4 }, (_, i) => new Child("worker", url, `w${i}`, "17"));
  const lines = (await Promise.all(children.map((child) => child.ended()))).flat();
  const starts = lines.filter(isStart);
  expect(starts).toHaveLength(2_000);
  expect(new Set(starts.map(({ id }) => id)).size).toBe(2_000);
  expect(new Set(starts.map(({ token }) => token)).size).toBe(2_000);
  expect(lines.filter((line) => !isStart(line))).toEqual([]);
  expect((await storage.overview("q"))[0]?.counts).toMatchObject({ completed: 2_000, waiting: 0, active: 0 });
  await storage.close();
});

test("processes that are killed all the time exceed no window and no concurrency, and their slots come back", async () => {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  const [max, windowMs, concurrency] = [10, 1_000, 3];
  await storage.limits.define([rule("rate", { max, windowMs }), rule("slots", { concurrency })]);
  const jobs = Array.from({ length: 45 }, (_, i) => newJob({ maxAttempts: 100, group: i % 2 === 0 ? null : "g" }));
  await storage.add(jobs);
  let made = 0;
  const start = () => new Child("worker", url, `w${made++}`, "2", "60", "700");
  const fleet = Array.from({ length: 4 }, start);
  /** Resolves with the number of the next process that reports a claimed job. */
  const claimed = () =>
    new Promise<number>((resolve) => {
      for (const [i, child] of fleet.entries()) {
        child.line(child.lines.length).then(
          () => resolve(i),
          () => {},
        );
      }
    });
  for (let kills = 0; kills < 6; kills++) {
    const victim = await claimed();
    // In the middle of it.
    fleet[victim]!.process.kill("SIGKILL");
    fleet[victim] = start();
  }
  while (((await storage.overview("q"))[0]?.counts.completed ?? 0) < jobs.length) {
    expect(fleet.map((child) => child.process.exitCode).filter((code) => code !== null && code !== 0)).toEqual([]);
    await after(50);
  }
  for (const child of fleet) child.process.kill("SIGKILL");

  const runs = (await once(
    url,
    `SELECT a.started_at AS from, a.ended_at AS to FROM sluice.attempts a
      UNION ALL SELECT started_at, finished_at FROM sluice.jobs ORDER BY 1`,
  )) as { from: number; to: number }[];
  expect(runs.length).toBeGreaterThan(jobs.length);
  const over = runs.filter(({ from }, i) => i >= max && from - runs[i - max]!.from < windowMs);
  expect(over, "starts that are one too many in their window").toEqual([]);
  const most = Math.max(...runs.map(({ from }) => runs.filter((run) => run.from <= from && from < run.to).length));
  expect(most).toBeLessThanOrEqual(concurrency);

  const [slots] = await storage.limits.read({ name: "slots", group: null });
  expect(slots?.states[0]?.held).toBe(0);
  const taken = await Promise.all(
    Array.from({ length: 5 }, () => storage.limits.take({ name: "slots", group: null, weight: 1, ttlMs: 60_000 })),
  );
  expect(taken.filter(({ granted }) => granted)).toHaveLength(concurrency);
  await storage.close();
});
