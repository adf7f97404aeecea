import fc from "fast-check";
import { expect, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

const SEED = 20_300_101;

/** Pieces of what has broken out of statements elsewhere. */
const PIECES = [
  "'",
  "''",
  '"',
  "\\",
  "\\'",
  ";",
  "--",
  "/*",
  "*/",
  "$$",
  "$1",
  "${x}",
  "{schema}",
  "%I",
  "%s",
  "%",
  ":",
  "-",
  "E'\\x27'",
  "'); DROP TABLE sluice.jobs; --",
  '"; DROP SCHEMA sluice CASCADE; --',
  "',''),now(),pg_sleep(9)--",
  "{1,2}",
  "NULL",
  "null",
  "(,)",
  "\n",
  "\t",
  "\u202e",
  "🚰",
  "é",
  "e\u0301",
  "ﬁ",
  "__proto__",
  "constructor",
  "pg_catalog.pg_class",
];
const hostile = fc
  .array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: "binary", maxLength: 4 })), {
    minLength: 1,
    maxLength: 6,
  })
  .map((pieces) => pieces.join("").replaceAll("\0", "").slice(0, 200))
  .filter((name) => name.length > 0 && name.isWellFormed());

/** All that there is in the database beside rows. */
async function catalog(url: string): Promise<unknown> {
  return once(
    url,
    `SELECT md5(string_agg(what, E'\\n' ORDER BY what)) AS catalog FROM (
      SELECT format('%s %s %s %s', relnamespace, relname, relkind, relowner) AS what FROM pg_class
      UNION ALL SELECT format('%s %s %s', pronamespace, proname, prosrc) FROM pg_proc
      UNION ALL SELECT nspname FROM pg_namespace
      UNION ALL SELECT rolname FROM pg_roles
      UNION ALL SELECT format('%s %s', typnamespace, typname) FROM pg_type) AS all_of_it`,
  );
}

test("names that try to break out of their statement are data: they come back as they were, and nothing else changes", async () => {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  const before = await catalog(url);
  const names = fc.record({
    queue: hostile,
    type: hostile,
    group: hostile,
    key: hostile,
    limit: hostile,
    own: hostile,
  });
  const live = async ({
    queue,
    type,
    group,
    key,
    limit,
    own,
  }: Record<"queue" | "type" | "group" | "key" | "limit" | "own", string>) => {
    const window = { max: 5, windowMs: 60_000 };
    const about = {
      queues: [queue],
      types: [type],
      byGroup: true,
      groups: { [group]: { max: 4 } },
      weight: key,
      estimate: 1,
    };
    await storage.limits.define([rule(limit, { ...window, concurrency: 3 }, about)]);
    const job = newJob({
      queue,
      type,
      group,
      weights: { [key]: 2 },
      data: JSON.stringify({ [key]: own }),
      idempotency: { key, fingerprint: own, ttlMs: 60_000, onDuplicate: "return" },
    });
    expect(await storage.add([job])).toEqual([{ id: job.id, created: true }]);
    const limits = own === limit ? [] : [{ key: own, ...window }];
    const { jobs } = await storage.claim(anything({ queue, worker: own, types: [type], limits }));
    expect(jobs).toMatchObject([
      { id: job.id, queue, type, group, data: job.data, worker: own, weights: { [key]: 2 } },
    ]);
    const lease = { id: job.id, token: jobs[0]!.token };
    const [state] = await storage.limits.read({ name: limit, group });
    expect(state).toMatchObject({ rule: { name: limit, weight: key }, states: [{ group, used: 2, held: 1 }] });
    expect(await storage.explain(job.id)).toMatchObject({ job: { id: job.id } });
    expect((await storage.backlog(queue)).types).toMatchObject([{ type, active: 1 }]);
    expect(await storage.report([{ ...lease, log: [own], progress: { percent: 1, message: key } }])).toEqual([]);
    const error = { name: type, message: own, code: key };
    expect(await storage.settle([{ ...lease, to: "dead", error }])).toEqual([]);
    expect(await storage.history(job.id)).toMatchObject({ attempts: [{ error }], log: [{ text: own }] });
    await storage.setPaused(queue, type, true);
    expect(await storage.overview(queue)).toMatchObject([{ queue, pausedTypes: [type] }]);
    await storage.setPaused(queue, type, false);
    const { granted } = await storage.rates.tryRecordExecution(own, { maxExecutions: 5, windowMs: 60_000 });
    expect(granted).toBe(true);
    await storage.rates.clear(own);
    expect(await storage.change({ action: "remove", queue, ids: [job.id] })).toEqual([job.id]);
    expect(await storage.limits.remove(limit)).toBe(true);
  };
  await fc.assert(
    fc
      .asyncProperty(names, (said) => live(said))
      .afterEach(async () => {
        // A life that ended early leaves nothing for the next.
        await once(
          url,
          "DELETE FROM sluice.jobs; DELETE FROM sluice.rules; DELETE FROM sluice.limits; DELETE FROM sluice.starts; DELETE FROM sluice.slots; DELETE FROM sluice.keys; DELETE FROM sluice.pauses; DELETE FROM sluice.lanes",
        );
      }),
    { numRuns: 60, seed: SEED },
  );
  expect(await catalog(url)).toEqual(before);
  await storage.close();
});

test("names of schemas that would have to be quoted are refused before anything is sent", () => {
  const refused = [
    "",
    " ",
    "a b",
    'a"b',
    "a;b",
    "A",
    "é",
    "1a",
    "pg_mine",
    "a".repeat(64),
    "a\0b",
    "a-b",
    "a.b",
    7,
    null,
    {},
  ];
  for (const schema of refused) {
    expect(
      () => new PostgresStorage("postgres://127.0.0.1/x", { schema: schema as string }),
      JSON.stringify(schema),
    ).toThrow(/`schema`/);
  }
  fc.assert(
    fc.property(hostile, (schema) => {
      if (/^[a-z_][a-z0-9_]{0,47}$/.test(schema)) return;
      expect(() => new PostgresStorage("postgres://127.0.0.1/x", { schema })).toThrow(/`schema`/);
    }),
    { seed: SEED },
  );
});
