import fc from "fast-check";
import type pg from "pg";
import { describe, expect, test } from "vitest";
import { valueOf } from "../../../src/limits/rule.ts";
import { textOfKeys } from "../../../src/storage/kept.ts";
import { stateGrpOf } from "../../../src/storages/postgres/limits/groups.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
const BY_MODEL = { byGroup: true, by: ["model"] } as const;

/** The versions of all lanes: those that were written since have another one. */
async function versions(pool: pg.Pool): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ version: string }>("SELECT concat(id, ' ', xmin) AS version FROM sluice.lanes");
  return new Set(rows.map(({ version }) => version));
}

describe("lanes that wait for one key of a limit", () => {
  const LANES = 1_500;
  for (const [what, quota] of Object.entries({
    "a window": { max: 1, windowMs: 1_000 },
    slots: { concurrency: 1 },
  })) {
    test(`lanes stay at their gate when it opens, and as few are written as jobs are wanted: ${what}`, async () => {
      const { storage, pool, clock } = await open();
      await storage.limits.define([rule("k", quota, BY_MODEL)]);
      await storage.add(
        Array.from({ length: LANES }, (_, n) => newJob({ id: `j${n}`, keys: { tenant: `t${n}`, model: "large" } })),
      );
      let claim = await storage.claim(anything({ max: 1 }));
      const [first] = claim.jobs;
      expect(first?.id).toBe("j0");
      // Arrivals are folded a hundred at a time.
      for (let n = 0; n < 100 && (claim.jobs.length > 0 || claim.more || claim.nextInMs === 100); n++) {
        claim = await storage.claim(anything({ max: 1 }));
      }
      expect(claim).toMatchObject({ jobs: [], more: false, blockedBy: "k[large]" });
      const waiting = await pool.query("SELECT FROM sluice.lanes WHERE blocked_until IS NOT NULL");
      expect(waiting.rowCount).toBe(LANES - 1);

      const before = await versions(pool);
      if (quota.concurrency === undefined) await clock.advance(1_000);
      const settle = quota.concurrency === undefined ? [] : [{ ...first!, to: "completed", result: null } as const];
      const next = await storage.claim(anything({ max: 1, settle }));
      expect(next.jobs.map(({ id }) => id)).toEqual(["j1"]);
      expect(next.more).toBe(false);
      const written = [...(await versions(pool))].filter((version) => !before.has(version));
      expect(written.length).toBeLessThan(10);
    });
  }

  test("lanes that are gone leave no gate behind", async () => {
    const { storage, pool, clock } = await open();
    await storage.limits.define([rule("k", { max: 1, windowMs: 1_000 }, BY_MODEL)]);
    await storage.add(["a", "b", "c"].map((tenant) => newJob({ keys: { tenant, model: "large" } })));
    for (let n = 0; n < 3; n++) {
      expect((await storage.claim(anything())).jobs).toHaveLength(1);
      await clock.advance(1_000);
    }
    await storage.claim(anything());
    expect((await pool.query("SELECT FROM sluice.gates")).rowCount).toBe(0);
  });

  test("lanes leave their gate when the limit is removed", async () => {
    const { storage, pool } = await open();
    await storage.limits.define([rule("k", { concurrency: 1 }, BY_MODEL)]);
    await storage.add(["a", "b", "c"].map((tenant) => newJob({ keys: { tenant, model: "large" } })));
    expect((await storage.claim(anything())).jobs).toHaveLength(1);
    await storage.limits.remove("k");
    expect((await storage.claim(anything())).jobs).toHaveLength(2);
    await storage.sweep();
    expect((await pool.query("SELECT FROM sluice.gates")).rowCount).toBe(0);
  });
});

test("the state of a limit that counts a job is read from the database as from other storages", async () => {
  const { storage, pool } = await open();
  await storage.setup();
  const text = fc.oneof(
    fc.constantFrom("a", ",", "\\", "a,", ",a", "\\,", "a\\", "&", "\\&", '"', "'", "$1"),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 3 }).filter((one) => !one.includes("\u0000")),
  );
  const name = fc.constantFrom("group", "tenant", "model", "1", "constructor", '"', ",");
  const keys = fc.dictionary(
    name.filter((one) => one !== "group"),
    text,
    { maxKeys: 4, noNullPrototype: true },
  );
  const cases = fc.sample(
    fc.tuple(fc.uniqueArray(name, { minLength: 1, maxLength: 3 }), fc.option(text), keys, fc.boolean()),
    { numRuns: 500, seed: 20_300_101 },
  );
  const asked = cases.map(([by, group, own, byKeys]) => {
    const said = rule("k", { concurrency: 1 }, { byGroup: true, ...(byKeys && { by }) });
    const kept = Object.keys(own).length === 0 ? undefined : own;
    return {
      rule: said,
      grp: group,
      keys: kept === undefined ? null : textOfKeys(kept),
      expected: stateGrpOf(said, valueOf(said, { group, keys: kept })),
    };
  });
  const { rows } = await pool.query<{ state: string }>(
    `SELECT sluice.state_of(sluice.read_rule(a.rule), a.grp, a.keys) AS state
    FROM ROWS FROM (jsonb_to_recordset($1) AS (rule jsonb, grp text, keys text)) WITH ORDINALITY AS a (rule, grp, keys, no) ORDER BY a.no`,
    [JSON.stringify(asked)],
  );
  expect(rows.map(({ state }) => state)).toEqual(asked.map(({ expected }) => expected));
});
