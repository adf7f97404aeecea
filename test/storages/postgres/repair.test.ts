import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { INSTANT_COLUMNS, isInstantColumn } from "../../../src/storage/clock-repair.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { repairClock, timeOf } from "../../../src/storages/postgres/inspect.ts";
import { playRepair } from "../repair.ts";
import { newJob } from "../jobs.ts";
import { until } from "./office.ts";
import { once, temporaryDatabase } from "./server.ts";
import { emptyStorages } from "./support.ts";

const DAY_MS = 86_400_000;

/** Numbers that are no instants by the clock of the storage. A new column belongs here, or is named as instants are. */
const OTHERS = [
  "jobs.priority",
  "jobs.timeout",
  "jobs.keep_for",
  "jobs.due_wall",
  "jobs.deadline_wall",
  "lanes.priority",
  "arrivals.priority",
  "scan_cursors.priority",
  "limit_changes.at_wall",
  "limits.remaining",
  "limits.called_in",
  "limits.window_ms",
  "limits.used",
  "limits.held",
  "limits.longest",
  "slots.slots",
  "starts.n",
  "starts.spent",
];

const COLUMNS = `SELECT c.relname || '.' || a.attname AS name, a.attname ~ '${INSTANT_COLUMNS}' AS moved
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r' AND c.relname <> 'meta'
    AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'float8'::regtype`;

describe("the repair of the clock", () => {
  const open = emptyStorages();

  test("the repair knows for every column of numbers whether it holds instants", async () => {
    const { url } = await open();
    const columns = (await once(url, COLUMNS)) as { name: string; moved: boolean }[];
    const others = columns.flatMap(({ name, moved }) => (moved ? [] : [name]));
    expect(others.toSorted()).toEqual(OTHERS.toSorted());
    for (const { name, moved } of columns) expect(isInstantColumn(name.split(".")[1]!)).toBe(moved);
  });

  test("the repair changes no decision", async () => {
    const { storage, clock, pool } = await open();
    const place = { executor: pool, schema: "sluice" };
    await playRepair([storage], clock, () => repairClock(place));
    expect((await timeOf(place)).offsetMs).toBe(0);
  });
});

describe("the repair of the clock, while others add jobs", () => {
  /** A database whose storage clock is two days fast, and a connection that repairs it in a transaction that is left open. */
  async function fastClock(): Promise<{
    readonly url: string;
    readonly storage: PostgresStorage;
    readonly client: pg.Client;
  }> {
    const url = await temporaryDatabase();
    const storage = new PostgresStorage(url);
    await storage.setup();
    await once(url, "UPDATE sluice.meta SET skew = $1", [2 * DAY_MS]);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await storage.close();
    });
    return { url, storage, client };
  }

  const WAITING = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

  test.each([
    ["one", [newJob({ due: { inMs: 60_000 } })]],
    ["uniform", [newJob({ due: { inMs: 60_000 } }), newJob({ due: { inMs: 60_000 } })]],
    [
      "with a key",
      [
        newJob({
          due: { inMs: 60_000 },
          idempotency: { key: "k", fingerprint: "f", ttlMs: 60_000, onDuplicate: "return" },
        }),
      ],
    ],
  ])("who waits for it reads the clock anew: %s", async (_, jobs) => {
    const { url, storage, client } = await fastClock();
    await client.query("BEGIN");
    await client.query("SELECT sluice.repair_clock($1)", [INSTANT_COLUMNS]);
    const added = storage.add(jobs);
    await until(async () => (await once(url, WAITING)).length > 0, 60_000, "an add waits");
    await client.query("COMMIT");
    await added;
    const late =
      "SELECT FROM sluice.jobs WHERE due_at > sluice.wall() + 3600000 OR created_at > sluice.wall() + 3600000";
    expect(await once(url, late)).toEqual([]);
  });

  test("a transaction that stays open blocks the repair, which gives up", async () => {
    const { url, storage, client } = await fastClock();
    await client.query("BEGIN");
    await storage.add([newJob()], client);
    await expect(once(url, "SELECT sluice.repair_clock($1)", [INSTANT_COLUMNS])).rejects.toMatchObject({
      code: "55P03",
    });
    await client.query("COMMIT");
    expect(await once(url, "SELECT sluice.repair_clock($1) AS by", [INSTANT_COLUMNS])).toEqual([{ by: 2 * DAY_MS }]);
  });
});
