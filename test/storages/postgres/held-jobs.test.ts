import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { NewJob } from "../../../src/storage/job-storage.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

/*
 * Jobs that a transaction of the user replaces are locked until it ends. Claims pass over them, and start what waits behind them.
 */

const GROUPS = (n: number) => ({ group: `g${n}` });
const PRIORITIES = (n: number) => ({ group: "g", priority: n });

async function open(rules: Parameters<PostgresStorage["limits"]["define"]>[0]) {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  onTestFinished(() => storage.close());
  await storage.setup();
  await storage.limits.define(rules);
  const user = new pg.Client({ connectionString: url });
  await user.connect();
  onTestFinished(() => user.end());
  await user.query("BEGIN");
  return { storage, user, url };
}

/** The n-th of these jobs, which a later one with the same key replaces. */
const keyed = (n: number, said: Partial<NewJob>, fingerprint: string) =>
  newJob({ ...said, idempotency: { key: `k${n}`, fingerprint, ttlMs: 3_600_000, onDuplicate: "replace" } });

/** Adds so many jobs, and replaces them in the transaction. */
async function hold(storage: PostgresStorage, user: pg.Client, count: number, of: (n: number) => Partial<NewJob>) {
  const all = Array.from({ length: count }, (_, n) => n);
  await storage.add(all.map((n) => keyed(n, of(n), "before")));
  await storage.add(
    all.map((n) => keyed(n, of(n), "after")),
    user,
  );
}

describe("jobs that a transaction of the user replaces", () => {
  const cases = [
    ["without limits", []],
    ["under a window", [rule("k", { max: 100, windowMs: 1_000 })]],
    ["under slots by group", [rule("k", { concurrency: 3 }, { byGroup: true })]],
  ] as const;

  test.each(
    cases.flatMap(([limits, rules]) =>
      (
        [
          ["groups", GROUPS],
          ["priorities of a group", PRIORITIES],
        ] as const
      ).flatMap(([what, of]) => [1, 30].map((max) => [limits, what, max, rules, of] as const)),
    ),
  )("keep no other jobs waiting: %s, in %s, with claims of %d", async (_limits, _what, max, rules, of) => {
    const { storage, user } = await open(rules);
    await hold(storage, user, 30, of);
    await storage.add([newJob({ id: "free", group: "other", priority: -1 })]);
    const { jobs, more, nextInMs } = await storage.claim(anything({ max }));
    expect(jobs.map(({ id }) => id)).toEqual(["free"]);
    expect([more, nextInMs! > 0]).toEqual([false, true]);
    await user.query("ROLLBACK");
    expect((await storage.claim(anything({ max: 100 }))).jobs.length).toBeGreaterThan(0);
  });

  test("a claim that finds only such jobs says when to look again, and never that more can start", async () => {
    const { storage, user } = await open([]);
    await hold(storage, user, 5, () => ({ group: "g" }));
    for (let i = 0; i < 4; i++)
      expect(await storage.claim(anything({ max: 1 }))).toMatchObject({ jobs: [], more: false, nextInMs: 100 });
  });

  test("three thousand of them under a limit cost a claim a few looks, not one for each", async () => {
    const { storage, user } = await open([
      rule("k", { max: 1_000, windowMs: 1_000 }),
      rule("tenant", { concurrency: 5 }, { byGroup: true }),
    ]);
    await hold(storage, user, 3_000, () => ({ group: "g" }));
    // With one look for each the claim does not end before its deadline.
    expect(await storage.claim(anything({ max: 1 }))).toMatchObject({ jobs: [], more: false });
  });

  test("a heavy head that is replaced leaves its limit to the jobs that wait behind it", async () => {
    const { storage, user } = await open([rule("k", { concurrency: 10 }, { weight: "n" })]);
    const of = (type: string) => anything({ types: [type] });
    await storage.add([newJob({ type: "light", weights: { n: 3 } })]);
    expect((await storage.claim(of("light"))).jobs).toHaveLength(1);
    await storage.add([keyed(0, { type: "heavy", group: "g", weights: { n: 8 } }, "before")]);
    expect((await storage.claim(of("heavy"))).jobs).toEqual([]);
    await storage.add([newJob({ id: "behind", type: "light", group: "h", weights: { n: 1 } })]);
    expect((await storage.claim(of("light"))).jobs).toEqual([]);
    await storage.add([keyed(0, { type: "other", group: "g", weights: { n: 1 } }, "after")], user);
    await user.query("COMMIT");
    expect((await storage.claim(of("light"))).jobs.map(({ id }) => id)).toEqual(["behind"]);
  });

  test("are looked for with a lock only under a limit, whose lock keeps others from the later jobs of a lane meanwhile", async () => {
    const { storage, user, url } = await open([rule("k", { max: 9, windowMs: 1_000 }, { types: ["limited"] })]);
    await hold(storage, user, 2, (n) => ({ group: "g", type: n === 0 ? "limited" : "free" }));
    expect((await storage.claim(anything({ max: 1 }))).jobs).toEqual([]);
    const found = await once(
      url,
      `SELECT f.taken <> '{}' AS looked, f.counts FROM sluice.lanes l, sluice.free_jobs('q', ARRAY[l.id], '{1}',
        ARRAY(SELECT r.fields FROM sluice.rules r), 0) f ORDER BY l.type DESC`,
    );
    expect(found).toEqual([
      { looked: true, counts: [0] },
      { looked: false, counts: [1] },
    ]);
  });
});
