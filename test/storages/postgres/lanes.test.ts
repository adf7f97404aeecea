import pg from "pg";
import { describe, expect, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { temporaryDatabase } from "./server.ts";
import { type EmptyStorage, emptyStorages, newJob, rule } from "./support.ts";

/** Another transaction holds the row lock of this job while `meanwhile` runs. */
async function withRowLocked({ pool }: EmptyStorage, id: string, meanwhile: () => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query("SELECT FROM sluice.jobs WHERE id = $1 FOR UPDATE", [id]);
    await meanwhile();
  } finally {
    await client.query("ROLLBACK");
    client.release();
  }
}

describe("a job whose row another transaction has locked", () => {
  const open = emptyStorages();
  const kinds = { "in a group": "g", "without a group": null };
  const rules = {
    "by group": rule("k", { max: 100, windowMs: 1_000 }, { byGroup: true }),
    "by weight": rule("k", { concurrency: 100 }, { weight: "n" }),
  };
  for (const [where, group] of Object.entries(kinds)) {
    for (const [how, limit] of Object.entries(rules)) {
      test(`is passed over, asked for again soon, and started then: ${where}, under a limit ${how}`, async () => {
        const opened = await open();
        const { storage } = opened;
        await storage.limits.define([limit]);
        await storage.add(["a", "b", "c"].map((id) => newJob({ id, group })));
        await withRowLocked(opened, "a", async () => {
          const { jobs, more, nextInMs } = await storage.claim(anything());
          expect(jobs.map(({ id }) => id)).toEqual(["b", "c"]);
          expect([more, nextInMs !== null && nextInMs <= 10]).toEqual([false, true]);
          expect((await storage.limits.read({ name: "k", group }))[0]!.states[0]).toMatchObject(
            limit.byGroup ? { used: 2 } : { held: 2 },
          );
        });
        const { jobs, nextInMs } = await storage.claim(anything());
        expect([jobs.map(({ id }) => id), nextInMs]).toEqual([["a"], null]);
      });
    }
  }
});

describe("lanes of groups that have just got jobs", () => {
  const open = emptyStorages();
  const idsOf = async (storage: PostgresStorage, said: Parameters<typeof anything>[0]) =>
    (await storage.claim(anything(said))).jobs.map(({ id }) => id);

  test("lanes are served by priority, however many of them no claim has seen yet", async () => {
    const { storage } = await open();
    await storage.add(Array.from({ length: 1_500 }, (_, n) => newJob({ group: `g${n}` })));
    await storage.add([newJob({ id: "late", group: "late", priority: 1 })]);
    expect(await idsOf(storage, { max: 1 })).toEqual(["late"]);
  });

  test("the first claim adds the lanes of all arrivals", async () => {
    const { storage, pool } = await open();
    await storage.add(["a", "b"].map((group) => newJob({ group })));
    await storage.claim(anything({ max: 0 }));
    expect((await pool.query("SELECT FROM sluice.arrivals")).rowCount).toBe(0);
  });

  test("claims serve the lanes of all arrivals without any other step", async () => {
    const { storage, pool } = await open();
    const jobs = Array.from({ length: 1_200 }, (_, n) => newJob({ group: `g${n}`, type: n % 3 === 0 ? "t" : "u" }));
    await storage.add(jobs);
    const started: string[] = [];
    for (let more = true; more;) {
      const claim = await storage.claim(anything({ max: 40 }));
      started.push(...claim.jobs.map(({ id }) => id));
      more = claim.more;
    }
    expect(started.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
    expect((await pool.query("SELECT FROM sluice.arrivals")).rowCount).toBe(0);
  });

  test("a claim asks to be repeated at once where all arrivals that it read are of empty lanes", async () => {
    const { storage } = await open();
    const jobs = Array.from({ length: 600 }, (_, n) => newJob({ id: `${n}`, group: `g${n}` }));
    await storage.add(jobs);
    const ids = jobs.slice(0, 500).map(({ id }) => id);
    expect(await storage.change({ action: "cancel", queue: "q", ids, states: null })).toHaveLength(500);
    for (;;) {
      const { jobs: started, more } = await storage.claim(anything({ max: 1 }));
      if (started.length > 0) break;
      expect(more).toBe(true);
    }
  });

  test("a claim sees an arrival once the transaction that wrote it has ended, although other claims ran meanwhile", async () => {
    const { storage, pool } = await open();
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await storage.add([newJob({ id: "slow", group: "g" })], client);
      await storage.add([newJob({ id: "quick", group: "g" })]);
      expect(await idsOf(storage, {})).toEqual(["quick"]);
      expect(await idsOf(storage, {})).toEqual([]);
      await client.query("COMMIT");
    } finally {
      client.release();
    }
    expect(await idsOf(storage, {})).toEqual(["slow"]);
  });

  test("the sweep bounds the number of arrivals of a queue that no worker claims from", async () => {
    const { storage, pool } = await open();
    for (let i = 0; i < 3; i++) {
      await storage.add(Array.from({ length: 900 }, (_, n) => newJob({ id: `${i} ${n}`, group: `g${n}` })));
    }
    while ((await storage.sweep()).more);
    expect((await pool.query("SELECT FROM sluice.arrivals")).rowCount).toBeLessThanOrEqual(1_000);
    expect(await idsOf(storage, { max: 3 })).toEqual(["0 0", "0 1", "0 2"]);
  });

  test("a lane behind a head that was too heavy is looked at again, though a claim of other types saw its arrival first", async () => {
    const { storage } = await open();
    await storage.limits.define([rule("k", { max: 3, windowMs: 60_000 }, { weight: "n", types: ["b"] })]);
    const heavy = (id: string, n: number) => newJob({ id, type: "b", group: "g", weights: { n } });
    await storage.add([heavy("first", 1), heavy("second", 1)]);
    const { jobs } = await storage.claim(anything({ types: ["b"] }));
    expect(jobs.map(({ id }) => id)).toEqual(["first", "second"]);
    await storage.add([heavy("third", 2)]);
    expect(await idsOf(storage, { types: ["b"] })).toEqual([]);
    const { id, token } = jobs[0]!;
    await storage.settle([{ id, token, to: "retry", inMs: 0, error: { name: "Error", message: "no" } }]);
    await storage.add([newJob({ id: "other", type: "a", group: "x" })]);
    expect(await idsOf(storage, { types: ["a"] })).toEqual(["other"]);
    expect(await idsOf(storage, { types: ["b"] })).toEqual(["first"]);
  });
});

/** How many groups there are, with how many jobs each. */
const GROUPS = 3_000;
const EACH = 3;

interface Plan {
  readonly "Node Type": string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Join Filter"?: number;
  readonly Plans?: readonly Plan[];
}

/** The most rows that any part of a plan has looked at. */
function most(plan: Plan): number {
  const removed = (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Join Filter"] ?? 0);
  const own = (plan["Actual Rows"] + removed) * plan["Actual Loops"];
  return Math.max(own, ...(plan.Plans ?? []).map(most));
}

test("what a claim reads does not depend on the number of groups", async () => {
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.limits.define([
    rule("all", { max: 1_000_000, windowMs: 60_000 }, { weight: "n" }),
    rule("each", { max: 2, windowMs: 60_000, concurrency: 2 }, { byGroup: true }),
  ]);
  for (let i = 0; i < EACH; i++) {
    await storage.add(
      Array.from({ length: GROUPS }, (_, n) => newJob({ group: `g${n}`, type: n % 2 === 0 ? "t" : "u" })),
    );
  }
  await storage.close();
  const looked: { readonly rows: number; readonly text: string }[] = [];
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  pool.on("error", () => {});
  pool.on("connect", (client) => {
    client.on("notice", ({ message = "" }) => {
      const from = message.indexOf("{");
      if (!message.startsWith("duration:") || from < 0) return;
      const { "Query Text": text, Plan: plan } = JSON.parse(message.slice(from)) as {
        "Query Text": string;
        Plan: Plan;
      };
      looked.push({ rows: most(plan), text });
    });
  });
  const claiming = new PostgresStorage(pool, { connections: 0 });
  try {
    const claim = async (types: readonly string[] | null) =>
      (await claiming.claim(anything({ max: 20, types }))).jobs.length;
    // Until all of them have come in.
    do expect(await claim(null)).toBe(20);
    while ((await pool.query("SELECT FROM sluice.arrivals LIMIT 1")).rowCount !== 0);
    await pool.query(`LOAD 'auto_explain'; SET client_min_messages = log;
      SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
      SET auto_explain.log_timing = off; SET auto_explain.log_format = json`);
    for (const types of [null, ["t"], ["t", "u"]]) expect(await claim(types)).toBe(20);
    expect(looked.length).toBeGreaterThan(0);
    expect(looked.filter(({ rows }) => rows > GROUPS / 4)).toEqual([]);
  } finally {
    await claiming.close();
    await pool.end();
  }
});
