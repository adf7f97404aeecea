import type pg from "pg";
import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

/** Lets a millisecond pass whenever this function was called: between a decision and what comes of it. */
async function slow(pool: pg.Pool, name: string, args: string, answer: string): Promise<void> {
  const names = args.split(", ").map((arg) => arg.split(" ")[0]);
  await pool.query(`ALTER FUNCTION sluice.${name} RENAME TO quick_${name};
    CREATE FUNCTION sluice.${name}(${args}) RETURNS ${answer} LANGUAGE plpgsql AS $$
    DECLARE answer ${answer} := sluice.quick_${name}(${names.join(", ")});
    BEGIN UPDATE public.test_clock SET wall = wall + 1; RETURN answer; END $$`);
}

const open = emptyStorages();

test("a job starts at the instant at which it was taken, not at which the limit was read", async () => {
  const { storage, pool } = await open();
  const wall = async () => (await pool.query<{ wall: number }>("SELECT wall FROM public.test_clock")).rows[0]!.wall;
  await storage.setup();
  await slow(
    pool,
    "open_keys",
    "rules sluice.limit_rule[], all_count integer, grps text[], lane_keys text[], want integer, ttl float8, claimant text, now float8",
    "sluice.claim_keys",
  );
  const rules = [rule("window", { max: 3, windowMs: 1_000 }), rule("slots", { concurrency: 10 })];
  await storage.limits.define(rules);
  await storage.add([newJob({ type: "u" }), newJob(), newJob({ group: "g" }), newJob()]);
  const uniform = await storage.claim(anything({ max: 1, types: ["u"] }));
  expect(uniform.jobs.map(({ startedAt }) => startedAt)).toEqual([await wall()]);
  await storage.limits.define([rule("by group", { concurrency: 5 }, { byGroup: true })]);
  const planned = await storage.claim(anything({ max: 1 }));
  expect(planned.jobs.map(({ startedAt }) => startedAt)).toEqual([await wall()]);
  const stamps = await pool.query<{ at: number }>("SELECT DISTINCT at FROM sluice.starts ORDER BY at");
  expect(stamps.rows.map(({ at }) => at)).toEqual([uniform, planned].map(({ jobs }) => jobs[0]!.startedAt));
  expect((await storage.claim(anything({ max: 9 }))).jobs).toHaveLength(1);
  expect((await storage.claim(anything({ max: 9 }))).blockedBy).toBe("window");
});
