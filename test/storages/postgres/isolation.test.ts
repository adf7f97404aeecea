import { describe, expect, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

const CONNECTIONS = 8;
const MAX = 10;

/** Storages that each have a connection of their own, in a database where this is how transactions are by default. */
async function storagesUnder(isolation: string): Promise<readonly PostgresStorage[]> {
  const url = await temporaryDatabase();
  const name = new URL(url).pathname.slice(1);
  await once(url, `ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
  const [shown] = (await once(url, "SHOW transaction_isolation")) as { transaction_isolation: string }[];
  expect(shown!.transaction_isolation).toBe(isolation);
  const storages = Array.from({ length: CONNECTIONS }, () => new PostgresStorage(url, { connections: 1 }));
  await storages[0]!.setup();
  return storages;
}

/** Every storage repeats `work` as often as given, all at once. Returns all results. */
async function all<T>(
  storages: readonly PostgresStorage[],
  times: number,
  act: (storage: PostgresStorage, i: number) => Promise<readonly T[]>,
): Promise<T[]> {
  const got = storages.map(async (storage, i) => {
    const mine: T[] = [];
    for (let round = 0; round < times; round++) mine.push(...(await act(storage, i)));
    return mine;
  });
  return (await Promise.all(got)).flat();
}

describe.each(["repeatable read", "serializable"])("where transactions are %s by default", (isolation) => {
  test("a limit is exact, whichever path takes it", async () => {
    const storages = await storagesUnder(isolation);
    const window = { max: MAX, windowMs: 3_600_000 };
    const rules = [
      rule("k", window, { types: ["limited"] }),
      rule("g", window, { types: ["grouped"], byGroup: true }),
      rule("p", window, { types: ["none"] }),
    ];
    await storages[0]!.limits.define(rules);
    const jobs = (queue: string, type: string, group: string | null = null) =>
      storages[0]!.add(Array.from({ length: 60 }, () => newJob({ queue, type, group })));
    await jobs("shared", "limited");
    await jobs("grouped", "grouped", "one");
    await jobs("brought", "free");

    const claim = (queue: string, limits: readonly { key: string; max: number; windowMs: number }[] = []) =>
      all(
        storages,
        6,
        async (storage, i) => (await storage.claim(anything({ queue, worker: `w${i}`, max: 3, limits }))).jobs,
      );
    expect(await claim("shared")).toHaveLength(MAX);
    expect(await claim("grouped")).toHaveLength(MAX);
    expect(await claim("brought", [{ key: "own", ...window }])).toHaveLength(MAX);

    const rates = await all(storages, 6, async ({ rates: of }) => {
      const { granted } = await of.tryRecordExecution("r", { maxExecutions: MAX, windowMs: 3_600_000 });
      return granted ? [granted] : [];
    });
    expect(rates).toHaveLength(MAX);
    const permits = await all(storages, 6, async ({ limits }) => {
      const { granted } = await limits.take({ name: "p", group: null, weight: 1, ttlMs: 60_000 });
      return granted ? [granted] : [];
    });
    expect(permits).toHaveLength(MAX);
    await Promise.all(storages.map((storage) => storage.close()));
  });

  test("no job is claimed twice, and none is lost", async () => {
    const storages = await storagesUnder(isolation);
    await Promise.all(
      storages.map((storage, i) =>
        storage.add(Array.from({ length: 25 }, () => newJob({ group: i % 2 === 0 ? null : `g${i}` }))),
      ),
    );
    const claimed = await all(storages, 12, async (storage, i) => {
      const { jobs } = await storage.claim(anything({ worker: `w${i}`, max: 5 }));
      expect(await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })))).toEqual(
        [],
      );
      return jobs.map(({ id }) => id);
    });
    expect(claimed).toHaveLength(200);
    expect(new Set(claimed).size).toBe(200);
    await Promise.all(storages.map((storage) => storage.close()));
  });

  test("one key stands for one job", async () => {
    const storages = await storagesUnder(isolation);
    const added = await all(storages, 10, async (storage) =>
      storage.add([newJob({ idempotency: { key: "k", fingerprint: "f", ttlMs: 60_000, onDuplicate: "return" } })]),
    );
    expect(added.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(added.map(({ id }) => id)).size).toBe(1);
    await Promise.all(storages.map((storage) => storage.close()));
  });
});
