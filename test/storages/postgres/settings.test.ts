import { describe, expect, test } from "vitest";
import type { JobRecord } from "../../../src/core/job.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

/** Settings that users have, and that change how a server answers. */
const SETTINGS: readonly Readonly<Record<string, string>>[] = [
  { timezone: "Pacific/Apia", datestyle: "SQL, DMY", intervalstyle: "sql_standard" },
  { timezone: "America/St_Johns", extra_float_digits: "-15" },
  { extra_float_digits: "0", bytea_output: "escape", quote_all_identifiers: "on" },
  { search_path: "", client_min_messages: "error" },
  { jit: "on", jit_above_cost: "0", enable_seqscan: "off" },
  { enable_indexscan: "off", enable_bitmapscan: "off", enable_nestloop: "off", plan_cache_mode: "force_generic_plan" },
];

/** The server's clock when the test began, and never far from that of this computer. */
const near = (instant: number) => Math.abs(instant - Date.now()) < 60_000;

describe.each(SETTINGS)("a database with %o", (settings) => {
  test("the storage keeps time and numbers as on any other server", async () => {
    const url = await temporaryDatabase();
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(settings)) {
      await once(url, `ALTER DATABASE ${name} SET ${setting} = '${value}'`);
    }
    const storage = new PostgresStorage(url);
    const window = { max: 3, windowMs: 3_600_000.123_456_789 };
    await storage.limits.define([rule("k", window, { types: ["t"] })]);
    const at = Date.UTC(2040, 5, 1, 12, 34, 56, 789) + 0.123;
    const keepFor = 123_456_789.012_345;
    await storage.add([
      newJob({ id: "later", due: { at }, keepFor }),
      newJob({ id: "soon", due: { inMs: 1 }, priority: 0.1 + 0.2 }),
      newJob({ id: "now", type: "u", weights: { n: 1e-7, m: 2 ** 53 - 1 } }),
    ]);
    const [later, , now] = await storage.find(["later", "soon", "now"]);
    expect(later).toMatchObject({ state: "scheduled", dueAt: at, keepFor });
    expect(now).toMatchObject({ weights: { n: 1e-7, m: 2 ** 53 - 1 } });
    expect([now!.createdAt, now!.dueAt].filter((instant) => !near(instant))).toEqual([]);
    const claimed: JobRecord[] = [];
    while (claimed.length < 2) claimed.push(...(await storage.claim(anything())).jobs);
    expect(claimed.map(({ id }) => id).toSorted()).toEqual(["now", "soon"]);
    expect(claimed.find(({ id }) => id === "soon")?.priority).toBe(0.1 + 0.2);
    for (const { startedAt, leaseUntil } of claimed) {
      expect(near(startedAt!)).toBe(true);
      expect(leaseUntil! - startedAt!).toBeCloseTo(30_000, 2);
    }
    const [limit] = await storage.limits.read({ name: "k", group: null });
    expect(limit).toMatchObject({ rule: { quota: window }, states: [{ used: 1 }] });
    const rate = { maxExecutions: 1, windowMs: 60_000 };
    expect(await storage.rates.tryRecordExecution("r", rate)).toMatchObject({ granted: true });
    const { granted, retryInMs } = await storage.rates.tryRecordExecution("r", rate);
    expect(granted).toBe(false);
    expect(retryInMs).toBeGreaterThan(50_000);
    expect(retryInMs).toBeLessThanOrEqual(60_000);
    const until = Date.UTC(2040, 0, 1);
    await storage.rates.setNextAvailableTime("r", new Date(until).toISOString());
    expect(Date.parse((await storage.rates.getNextAvailableTime("r")) ?? "") - until).toBeLessThan(1_000);
    await storage.close();
  });
});
