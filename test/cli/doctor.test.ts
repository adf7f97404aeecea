import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Facts } from "../../src/cli/doctor/sqlite-facts.ts";
import type { Finding } from "../../src/cli/doctor/common-findings.ts";
import { findings, unreadable } from "../../src/cli/doctor/sqlite-findings.ts";
import { plain } from "../../src/cli/io.ts";
import { findingsText } from "../../src/cli/render/findings.ts";
import { readLimits } from "../../src/limits/define.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { copyOf, fill, folderFor, inProcess, sluice, tamper } from "./support.ts";

const WELL: Facts = {
  path: "/jobs.db",
  writable: true,
  bytes: 1_000_000,
  walBytes: 0,
  hintBytes: 3,
  sqlite: "3.53.4",
  journal: "wal",
  pageBytes: 4_096,
  pages: 244,
  freePages: 0,
  broken: [],
  schema: { found: 1, known: 1 },
  kept: {
    rows: [
      { table: "sluice_jobs", rows: 12_345 },
      { table: "sluice_log", rows: 0 },
    ],
    expired: { jobs: 0, oldestMs: 0 },
    overdue: { jobs: 0, oldestMs: 0 },
    served: { workers: 1, stuck: [], unhandled: [], limits: 0, undeclared: null },
    fromTheFuture: 0,
    wrongLanes: 0,
    offsetMs: 0,
  },
};
const kept = (more: Partial<NonNullable<Facts["kept"]>>): Partial<Facts> => ({ kept: { ...WELL.kept!, ...more } });
const served = (more: Partial<NonNullable<Facts["kept"]>["served"]>) =>
  kept({ served: { ...WELL.kept!.served, ...more } });
const found = (facts: Partial<Facts>) => findings({ ...WELL, ...facts });

describe("findings", () => {
  it("findings are ok where nothing is wrong", () => {
    expect(found({}).map(({ status }) => status)).toEqual(found({}).map(() => "ok"));
    expect(found({})).toContainEqual({ check: "rows", status: "ok", says: "jobs 12,345" });
  });

  it.each<[Finding["check"], Finding["status"], Partial<Facts>, RegExp]>([
    ["file", "warn", { writable: false }, /read-only/],
    ["sqlite", "warn", { sqlite: "3.51.2" }, /can corrupt/],
    ["sqlite", "warn", { sqlite: "3.9.99" }, /can corrupt/],
    ["sqlite", "ok", { sqlite: "3.51.3" }, /3\.51\.3/],
    ["sqlite", "ok", { sqlite: "4.0.0" }, /4\.0\.0/],
    ["journal", "warn", { journal: "delete" }, /wait for each other/],
    ["integrity", "fail", { broken: ["row 3 missing"] }, /row 3 missing/],
    ["schema", "fail", { schema: { found: 2, known: 1 } }, /update Sluice/],
    ["schema", "warn", { schema: { found: 1, known: 2 } }, /start a worker/],
    ["schema", "fail", { schema: { found: 0, known: 1 } }, /none of Sluice's tables/],
    ["leases", "ok", kept({ expired: { jobs: 1, oldestMs: 900 } }), /next sweep/],
    ["leases", "warn", kept({ expired: { jobs: 2, oldestMs: 60_000 } }), /2 leases ran out, the first 1 m ago/],
    [
      "waiting",
      "warn",
      served({ stuck: [{ queue: "q\u001b", type: "t", waiting: 3, oldestMs: 7_200_000, lastStartMs: null }] }),
      /3 jobs q\\u001b\/t due for 2 h, none was started/,
    ],
    ["workers", "ok", served({ workers: 0 }), /none is live/],
    [
      "workers",
      "warn",
      served({ unhandled: [{ queue: "mail", type: "emial\u001b", waiting: 2, oldestMs: 61_000, lastStartMs: null }] }),
      /no live worker handles type emial\\u001b of mail: 2 jobs due for 1 m 1 s/,
    ],
    ["limits", "ok", served({ limits: 2 }), /2 shared limits, declared outside of live workers/],
    ["limits", "ok", served({ limits: 2, undeclared: [] }), /2 shared limits, all declared by live workers/],
    ["limits", "warn", served({ limits: 2, undeclared: ["old\u001b"] }), /no live worker declares old\\u001b/],
    ["lanes", "fail", kept({ wrongLanes: 1 }), /1 lane with a wrong count/],
    ["clock", "warn", kept({ offsetMs: 90_000 }), /1 m 30 s ahead of the wall clock/],
    ["clock", "warn", kept({ offsetMs: -90_000 }), /1 m 30 s behind the wall clock/],
    ["clock", "ok", kept({ offsetMs: 4_000 }), /no stamp/],
    ["clock", "warn", kept({ fromTheFuture: 4 }), /4 jobs with a stamp in the future/],
    ["keeping", "warn", kept({ overdue: { jobs: 9, oldestMs: 8_000_000 } }), /9 jobs kept longer/],
    ["size", "warn", { walBytes: 1e9 }, /log 1\.00 GB/],
    ["size", "warn", { bytes: 1e9, freePages: 200_000 }, /819 MB of it free/],
    ["hint file", "warn", { hintBytes: 5e6 }, /5\.00 MB/],
    ["hint file", "ok", { hintBytes: undefined }, /none/],
  ])("%s: %s", (check, status, facts, says) => {
    const one = found(facts).find((finding) => finding.check === check)!;
    expect(one).toMatchObject({ status, says: expect.stringMatching(says) });
    if (status !== "ok" && check !== "schema") expect(one.advice).toBeTruthy();
  });

  it("findings say nothing about tables that cannot be read", () => {
    expect(found({ kept: undefined, broken: ["x"] }).map(({ check }) => check)).not.toContain("lanes");
  });

  it("findings are folded into the columns there are", () => {
    const text = findingsText(found({ broken: ["one two three ".repeat(20)], journal: "delete" }), {
      paint: plain,
      columns: 60,
    });
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
    expect(text).toMatch(/1 failure, 1 warning\.\n$/);
    expect(findingsText(found({}), { paint: plain, columns: undefined })).toMatch(/All is well\.\n$/);
  });
});

describe("doctor", () => {
  const folder = folderFor("doctor");
  const database = join(folder.path, "jobs.db");
  beforeAll(async () => {
    await fill(database);
  });
  afterAll(folder.remove);
  const examine = async (db: string, ...more: string[]) => {
    const { code, out } = await inProcess(["doctor", "--json", "--db", db, ...more]);
    const report = JSON.parse(out) as { ok: boolean; findings: Finding[] };
    return { code, ok: report.ok, bad: report.findings.filter(({ status }) => status !== "ok") };
  };

  it("sluice doctor finds nothing wrong with a database that is well", async () => {
    expect(await examine(database, "--full")).toEqual({ code: 0, ok: true, bad: [] });
    const { out, code } = await sluice(["doctor", "--db", database]);
    expect(code).toBe(0);
    expect(out).toMatch(/^ok +integrity +nothing is broken$/m);
    expect(out).toMatch(/All is well\./);
  });

  // Root may read everything.
  it.skipIf(process.getuid?.() === 0 || process.platform === "win32")(
    "names a file of another user, and what to do",
    async () => {
      const closed = copyOf(database, "closed");
      chmodSync(closed, 0o000);
      for (const command of ["doctor", "stats"]) {
        const { code, err } = await inProcess([command, "--db", closed]);
        expect([code, err]).toEqual([1, expect.stringMatching(/closed.*as the user that the workers run as/)]);
      }
    },
  );

  it("sluice doctor finds leases, waiting jobs and stamps that are wrong", async () => {
    const db = copyOf(database, "wrong");
    tamper(
      db,
      `UPDATE sluice_jobs SET lease_until = lease_until - 1e6 WHERE state = 'active';
       UPDATE sluice_jobs SET due_at = due_at - 1e7 WHERE state = 'waiting' AND queue = 'other';
       UPDATE sluice_jobs SET created_at = created_at + 1e8 WHERE state = 'dead';
       UPDATE sluice_jobs SET delete_at = delete_at - 1e9 WHERE state = 'cancelled'`,
    );
    const { code, bad } = await examine(db);
    expect(code).toBe(0);
    expect(bad.map(({ check }) => check)).toEqual(["leases", "waiting", "clock", "keeping"]);
    expect(bad[1]!.says).toContain("1 job other/ping due for 2 h 46 m, none was started");
    expect((await examine(db, "--stuck", "3h")).bad.map(({ check }) => check)).not.toContain("waiting");
  });

  it("sluice doctor finds types that no live worker handles, and limits that none declares", async () => {
    const db = copyOf(database, "unhandled");
    tamper(
      db,
      "UPDATE sluice_jobs SET due_at = due_at - 61000, created_at = created_at - 61000 WHERE state = 'waiting'",
    );
    expect((await examine(db)).bad).toEqual([]);
    const storage = new SqliteStorage(db);
    const limits = { old: { max: 1, per: "1s", types: ["nothing"] }, api: { max: 1, per: "1s", types: ["nothing"] } };
    await storage.limits.define(readLimits("test", limits).rules, { onConflict: "keep" });
    await storage.close();
    tamper(db, "UPDATE sluice_workers SET until = 0 WHERE queue = 'other'");
    const { code, bad } = await examine(db);
    expect(code).toBe(0);
    expect(bad.map(({ check, says }) => `${check}: ${says}`)).toEqual([
      expect.stringMatching(/^workers: no live worker handles type ping of other: 1 job due for 1 m \d+ s$/),
      "limits: no live worker declares old",
    ]);
    tamper(db, "INSERT INTO sluice_pauses VALUES ('other', '')");
    expect((await examine(db)).bad.map(({ check }) => check)).toEqual(["limits"]);
  });

  it("sluice doctor does not report paused jobs as stuck", async () => {
    const db = copyOf(database, "paused");
    tamper(db, "UPDATE sluice_jobs SET due_at = due_at - 1e7 WHERE state = 'waiting'");
    expect((await examine(db)).bad).toHaveLength(1);
    tamper(db, "INSERT INTO sluice_pauses VALUES ('other', ''), ('mail', ':send_email')");
    expect((await examine(db)).bad).toEqual([]);
  });

  it("sluice doctor fails where a count is wrong, or the tables are newer or missing", async () => {
    const lanes = copyOf(database, "lanes");
    tamper(lanes, "UPDATE sluice_lanes SET waiting = waiting + 1");
    expect(await examine(lanes)).toMatchObject({ code: 1, ok: false, bad: [{ check: "lanes", status: "fail" }] });
    const newer = copyOf(database, "newer");
    tamper(newer, "UPDATE sluice_meta SET version = 99");
    expect(await examine(newer)).toMatchObject({ code: 1, bad: [{ check: "schema", status: "fail" }] });
    const foreign = join(folder.path, "foreign.db");
    tamper(foreign, "CREATE TABLE theirs (a)");
    expect((await examine(foreign)).bad.map(({ check }) => check)).toEqual(["journal", "schema"]);
  });

  it("sluice doctor fails where the file is broken, or no database at all", async () => {
    const broken = copyOf(database, "broken");
    const file = openSync(broken, "r+");
    for (let page = 4; page < 12; page++) writeSync(file, Buffer.alloc(4_096, 7), 0, 4_096, page * 4_096);
    closeSync(file);
    expect(await examine(broken)).toMatchObject({ code: 1, ok: false });
    const text = join(folder.path, "text.db");
    writeFileSync(text, "this is no database, though it is long enough to be looked at as one".repeat(20));
    expect(await examine(text)).toMatchObject({ code: 1, bad: [{ check: "file", status: "fail" }] });
  });
});

describe("a file of another user", () => {
  it.each([8, 14, 264])("a file of another user is not taken for a broken one: SQLite says %i", (errcode) => {
    const error = Object.assign(new Error("attempt to write a readonly database"), { errcode });
    expect(unreadable(error).advice).toMatch(/as the user that the workers run as/);
    expect(unreadable(Object.assign(new Error("malformed"), { errcode: 11 })).advice).toMatch(/restore a backup/);
  });
});
