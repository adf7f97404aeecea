import { describe, expect, onTestFinished, test } from "vitest";
import type { Database } from "../../../src/storages/postgres/database.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { PostgresLimits } from "../../../src/storages/postgres/limits/limit-storage.ts";
import { opened } from "./client-support.ts";
import { temporaryDatabase } from "./server.ts";
import { fakeTime, rule } from "./support.ts";

const window = (max: number, windowMs: number) => ({ max, windowMs });

/** So many storages over one database, each with connections of its own. */
async function crowd(size: number): Promise<readonly PostgresStorage[]> {
  const url = await temporaryDatabase();
  const storages = Array.from({ length: size }, () => new PostgresStorage(url, { connections: 2 }));
  await storages[0]!.setup();
  return storages;
}

/** What each of them does, all at the same time. They are closed then. */
async function all<T>(
  storages: readonly PostgresStorage[],
  work: (storage: PostgresStorage, i: number) => Promise<T>,
): Promise<T[]> {
  try {
    return await Promise.all(storages.map(work));
  } finally {
    await Promise.all(storages.map((storage) => storage.close()));
  }
}

describe("limits in Postgres that many change at the same time", () => {
  test("rules that all declare are declared once", async () => {
    const storages = await crowd(6);
    const rules = Array.from({ length: 5 }, (_, i) => rule(`k${i}`, window(i + 1, 1_000)));
    const seen = await all(storages, async ({ limits }, i) => {
      await limits.define([...rules.slice(i % 5), ...rules.slice(0, i % 5)]);
      return limits.read({ name: null, group: null });
    });
    for (const states of seen) {
      expect(states.map(({ rule: { name }, revision }) => [name, revision])).toEqual(
        rules.map(({ name }) => [name, 1]),
      );
    }
  });

  test("no change is lost", async () => {
    const storages = await crowd(6);
    const [{ limits }] = storages as readonly [PostgresStorage];
    await limits.define([rule("k", window(1, 1_000), { byGroup: true })]);
    const after = await all(storages, async (storage, i) => {
      for (let j = 0; j < 5; j++) await storage.limits.change("k", { quota: { max: 7 }, group: `${i}.${j}` });
      // The last of them sees all changes.
      const [state] = await storage.limits.read({ name: "k", group: null });
      return { revision: state!.revision, groups: Object.keys(state!.rule.groups).length };
    });
    expect(Math.max(...after.map(({ revision }) => revision))).toBe(31);
    expect(Math.max(...after.map(({ groups }) => groups))).toBe(30);
  });

  test("a limit grants exactly as many permits as fit", async () => {
    const storages = await crowd(6);
    await storages[0]!.limits.define([rule("k", { concurrency: 7 }), rule("w", window(9, 60_000))]);
    const ask = (storage: PostgresStorage, name: string) =>
      storage.limits.take({ name, group: null, weight: null, ttlMs: 60_000 });
    const taken = await all(storages, async (storage) => {
      const asked = Array.from({ length: 4 }, () => [ask(storage, "k"), ask(storage, "w")]).flat();
      return Promise.all(asked);
    });
    const granted = taken.map((own) => own.map((one) => one.granted));
    const count = (which: number) => granted.flat().filter((yes, i) => yes && i % 2 === which).length;
    expect([count(0), count(1)]).toEqual([7, 9]);
  });
});

describe("what is decided before it is written", () => {
  /** Limits of which every change of rules is written half a second after it was decided. */
  async function slowly(): Promise<PostgresLimits> {
    const url = await temporaryDatabase();
    const admin = await fakeTime(url);
    onTestFinished(() => admin.end());
    const database = opened(url);
    const slow: Database = {
      check: () => database.check(),
      together: (work) => work(slow),
      call: (name, ...args) => database.call(name, ...args),
      nextNumber: () => database.nextNumber(),
      once: async (name, args, once) => {
        if (name === "write_rules") await admin.query("UPDATE test_clock SET wall = wall + 500");
        return database.once(name, args, once);
      },
    };
    return new PostgresLimits(slow);
  }

  test("a hold lasts from the moment at which it was written", async () => {
    const limits = await slowly();
    const held = async () => (await limits.read({ name: "k", group: "g" }))[0]!.states[0]!.heldForMs;
    await limits.define([rule("k", window(5, 1_000), { byGroup: true })]);
    await limits.change("k", { holdMs: 1_000, group: null });
    expect(await held()).toBe(1_000);
    // Shorter than what holds already.
    await limits.change("k", { holdMs: 100, group: null });
    expect(await held()).toBe(500);
    await limits.change("k", { quota: { max: 6 }, group: null });
    expect(await held()).toBe(0);
  });

  test("a window without a history is full from the moment at which it was written", async () => {
    const limits = await slowly();
    await limits.define([rule("k", window(5, 1_000))]);
    await limits.define([rule("k", window(5, 1_000), { byGroup: true })]);
    const [state] = await limits.read({ name: "k", group: "g" });
    expect(state!.states[0]).toMatchObject({ nextInMs: 1_000, reason: "window" });
  });
});
