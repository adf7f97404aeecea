import { expect, test } from "vitest";
import { Seeded } from "../../../chaos/conductor/seeded.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

const KEYS = 300;

/** A new job under a key of `q`. */
const keyed = (key: string, onDuplicate: "return" | "reject") =>
  newJob({ idempotency: { key, fingerprint: "f", ttlMs: 3_600_000, onDuplicate } });

test("sixteen storages that add the same keys in any order, with some calls rolled back, add exactly one job for each key", async () => {
  const url = await temporaryDatabase();
  const storages = Array.from({ length: 16 }, () => new PostgresStorage(url, { connections: 2 }));
  await storages[0]!.add([keyed("taken", "reject")]);
  let undone = 0;
  const idsByKey = new Map<string, Set<string>>();
  await Promise.all(
    storages.map(async (storage, i) => {
      const random = new Seeded(i + 1);
      const keys = Array.from({ length: KEYS }, (_, n) => ({ key: `k${n}`, rank: random.next() }))
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ key }) => key);
      while (keys.length > 0) {
        const some = keys.slice(0, random.integer(1, 12));
        const jobs = some.map((key) => keyed(key, "return"));
        // A refused job rolls back the others of its call; then they are added again, without it.
        const refused = random.chance(0.2);
        try {
          const added = await storage.add(refused ? [...jobs, keyed("taken", "reject")] : jobs);
          for (const [n, { id }] of added.entries())
            idsByKey.set(some[n]!, (idsByKey.get(some[n]!) ?? new Set()).add(id));
          keys.splice(0, some.length);
        } catch (error) {
          expect(error).toMatchObject({ code: "SLUICE_DUPLICATE" });
          undone += 1;
        }
      }
    }),
  );
  expect(undone).toBeGreaterThan(100);
  // All calls returned the same job for a key, and that job exists.
  expect([...idsByKey].filter(([, ids]) => ids.size !== 1)).toEqual([]);
  const ids = [...idsByKey.values()].flatMap((one) => Array.from(one));
  expect((await storages[0]!.find(ids)).filter((job) => job === undefined)).toEqual([]);
  expect(await once(url, "SELECT count(*)::int AS n FROM sluice.jobs")).toEqual([{ n: KEYS + 1 }]);
  await Promise.all(storages.map((storage) => storage.close()));
});
