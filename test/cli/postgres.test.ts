import { writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Finding } from "../../src/cli/doctor/common-findings.ts";
import type { PostgresFacts } from "../../src/cli/doctor/postgres-facts.ts";
import { postgresFindings } from "../../src/cli/doctor/postgres-findings.ts";
import { Queue } from "../../src/index.ts";
import { serverFacts } from "../../src/storages/postgres/health.ts";
import { grantSql, migrationSql } from "../../src/storages/postgres/migrations.ts";
import { PostgresStorage } from "../../src/storages/postgres/storage.ts";
import { createDatabase, once, temporaryDatabase } from "../storages/postgres/server.ts";
import { type Ended, fillStorage, type Filled, folderFor, inProcess, SECRET, sluice } from "./support.ts";

/* The command against a real server, with a job in every state. */
const folder = folderFor("postgres");
let database: Awaited<ReturnType<typeof createDatabase>>;
let storage: PostgresStorage;
let ids: Filled;
beforeAll(async () => {
  database = await createDatabase();
  storage = new PostgresStorage(database.url);
  ids = await fillStorage(storage);
  await once(database.url, "UPDATE sluice.jobs SET state = 'awaiting' WHERE id = $1", [ids.awaiting]);
});
afterAll(async () => {
  folder.remove();
  await storage.close();
  await database.drop();
});

const look = (...args: string[]) => inProcess([...args, "--db", database.url]);
const json = ({ out }: Ended): unknown => JSON.parse(out);
const errorOf = ({ err }: Ended) => (JSON.parse(err) as { error: { code: string; message: string } }).error;

/** The address with a password in it, which the server does not ask for. */
const secretUrl = () => database.url.replace("://postgres@", `://postgres:${SECRET}@`);

describe("on Postgres", () => {
  it("stats counts by state, with workers and limits", async () => {
    const counts = { waiting: 1, scheduled: 1, active: 1, completed: 1, dead: 1, cancelled: 1, awaiting: 1 };
    expect(json(await look("stats", "--json"))).toMatchObject({
      queues: [
        { queue: "mail", counts, workers: 1 },
        { queue: "other", counts: { waiting: 1 } },
      ],
      limits: [{ name: "queue:mail", starts: 4 }],
    });
    const { code, out } = await sluice(["stats", "--db", database.url]);
    expect(code).toBe(0);
    expect(out).toMatch(/^mail /m);
  });

  it("jobs, show and explain show jobs", async () => {
    const page = json(await look("jobs", "-q", "mail", "-n", "3", "--json")) as { jobs: object[]; cursor: string };
    expect(page.jobs).toHaveLength(3);
    expect(json(await look("jobs", "-q", "mail", "--cursor", page.cursor, "--json"))).toMatchObject({
      jobs: [{}, {}, {}, {}],
      cursor: null,
    });
    const shown = await look("show", ids.dead);
    expect(shown.out).toContain("it broke");
    expect(shown.out).not.toContain(SECRET);
    expect(json(await look("explain", ids.waiting, "--json"))).toMatchObject({ runnable: true });
    expect((await look("explain", "-q", "mail")).code).toBe(0);
    expect(errorOf(await look("show", "missing", "--json"))).toMatchObject({ code: "SLUICE_JOB_NOT_FOUND" });
  });

  it("the commands that change jobs work", async () => {
    const queue = new Queue("changes", { storage });
    const [a, b, c] = await queue.addBulk([
      { type: "t", data: 1 },
      { type: "t", data: 2, options: { delay: "1h" } },
      { type: "t", data: 3 },
    ]);
    expect((await look("cancel", a!.id)).code).toBe(0);
    expect((await look("retry", a!.id)).code).toBe(0);
    expect((await look("promote", b!.id)).code).toBe(0);
    expect((await look("remove", c!.id)).code).toBe(0);
    expect(await queue.counts()).toMatchObject({ waiting: 2, scheduled: 0 });
    expect((await look("pause", "-q", "changes")).code).toBe(0);
    expect(await queue.paused()).toEqual({ queue: true, types: [] });
    expect((await look("resume", "-q", "changes")).code).toBe(0);
    await look("cancel", a!.id, b!.id);
    expect(json(await look("purge", "-q", "changes", "--all", "--dry-run", "--json"))).toMatchObject({ found: 2 });
    expect(json(await look("purge", "-q", "changes", "--older-than", "1h", "--json"))).toMatchObject({ found: 0 });
    expect(json(await look("purge", "-q", "changes", "--all", "--json"))).toMatchObject({ found: 2, removed: 2 });
  });

  it("limits are defined, set and shown", async () => {
    const file = join(folder.path, "limits.json");
    writeFileSync(file, JSON.stringify({ quota: { max: 5, per: "1m", types: ["nothing"] } }));
    expect((await look("limits", "define", file)).out).toContain("defined 1 limit: quota");
    expect((await look("limits", "set", "quota", "--max", "7")).out).toContain("7");
    expect(json(await look("limits", "quota", "--json"))).toMatchObject({ name: "quota" });
    const plan = ["--rate", "1/s", "--type", "nothing", "--for", "1m"];
    expect((await look("simulate", ...plan)).out).toContain("quota");
    expect((await look("limits", "remove", "quota", "--yes")).code).toBe(0);
  });

  it("a Postgres database is found by the environment, and by a file", async () => {
    const file = join(folder.path, "address");
    writeFileSync(file, `${database.url}\n`);
    const ways: [string[], Record<string, string>][] = [
      [[], { SLUICE_DB: database.url }],
      [[], { SLUICE_DB_FILE: file }],
      [[], { DATABASE_URL: database.url }],
      [["--db-file", file], { DATABASE_URL: "postgres://elsewhere/x" }],
      [[], { SLUICE_DB: database.url, DATABASE_URL: "postgres://elsewhere/x", SLUICE_SCHEMA: "sluice" }],
    ];
    for (const [args, env] of ways) {
      expect(await inProcess(["stats", "-q", "other", ...args], { env })).toMatchObject({ code: 0, err: "" });
    }
    expect((await inProcess(["stats"], { env: { DATABASE_URL: "mysql://host/x" } })).err).toMatch(/which database/);
    writeFileSync(file, `${database.url}\nand more`);
    expect((await inProcess(["stats", "--db-file", file])).err).toMatch(/in one line/);
  });

  it("a message about a Postgres address says what is wrong, and nothing of a password", async () => {
    const secret = `ann:${SECRET}`;
    const cases: [string, string, RegExp][] = [
      [
        `postgres://${secret}@127.0.0.1:1/jobs`,
        "SLUICE_UNREACHABLE",
        /^127\.0\.0\.1:1\/jobs cannot be used: .*ECONNREFUSED/,
      ],
      [`postgres://${secret}@nowhere.invalid/jobs`, "SLUICE_UNREACHABLE", /nowhere\.invalid:5432\/jobs.*ENOTFOUND/],
      [secretUrl().replace(/\/[^/]*$/, "/not_there"), "SLUICE_UNREACHABLE", /database "not_there" does not exist/],
    ];
    for (const [url, code, message] of cases) {
      for (const command of ["stats", "pause", "migrate"]) {
        const ended = await inProcess([command, "--json", "--db", url]);
        expect(ended).toMatchObject({ code: 1, out: "" });
        expect(errorOf(ended)).toEqual({ code, message: expect.stringMatching(message) });
        expect(ended.err).not.toContain(SECRET);
      }
      const examined = await inProcess(["doctor", "--db", url]);
      expect(examined).toMatchObject({ code: 1, err: "" });
      expect(examined.out).toMatch(/^fail +server/m);
      expect(examined.out).not.toContain(SECRET);
    }
    const elsewhere = await inProcess(["stats", "--db", secretUrl(), "--schema", "elsewhere"]);
    expect(elsewhere.err).toMatch(/none of its tables in the schema elsewhere/);
    expect((await inProcess(["doctor", "--json", "--db", secretUrl()])).out).not.toContain(SECRET);
  });
});

describe("migrate", () => {
  it("sluice migrate creates the tables once, in the schema that was named", async () => {
    const url = await temporaryDatabase();
    expect(await inProcess(["stats", "--db", url])).toMatchObject({ code: 1 });
    expect(await inProcess(["migrate", url, "--schema", "mine"])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^created the schema mine of 127\.0\.0\.1:\d+\/test_\w+, version \d+\n$/),
    });
    expect((await sluice(["migrate", "--schema", "mine"], { SLUICE_DB: url })).out).toMatch(/has version \d+ already/);
    expect((await inProcess(["stats", "--db", url, "--schema", "mine"])).code).toBe(0);
    await once(url, "INSERT INTO mine.migrations (version) VALUES (99)");
    expect((await inProcess(["stats", "--db", url, "--schema", "mine"])).err).toMatch(/update Sluice/);
    expect((await inProcess(["migrate", url, "--schema", "mine"])).err).toMatch(/newer version/);
  });

  it("sluice migrate prints SQL that psql can run repeatedly", async () => {
    const { out, code } = await inProcess(["migrate", "--print", "--schema", "printed"]);
    expect({ out, code }).toEqual({ out: migrationSql("printed"), code: 0 });
    const url = await temporaryDatabase();
    await once(url, out);
    await once(url, out);
    expect((await inProcess(["doctor", "--db", url, "--schema", "printed"])).code).toBe(0);
    expect((await inProcess(["migrate", "--print", "--role", "worker"])).out).toContain(grantSql("sluice", "worker"));
  });

  it("sluice migrate grants a role that owns nothing what it needs", async () => {
    const url = await temporaryDatabase();
    const role = `worker_${process.pid}`;
    await once(url, `DROP ROLE IF EXISTS ${role}`);
    await once(url, `CREATE ROLE ${role} LOGIN`);
    try {
      const theirs = url.replace("://postgres@", `://${role}@`);
      await inProcess(["migrate", url]);
      const refused = await inProcess(["stats", "--db", theirs]);
      expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/may not use the schema/) });
      expect((await inProcess(["migrate", url, "--role", role])).code).toBe(0);
      await using own = new PostgresStorage(theirs, { migrate: false });
      const job = await new Queue("q", { storage: own }).add("t", 1);
      expect((await inProcess(["show", job.id, "--db", theirs])).code).toBe(0);
      expect((await inProcess(["remove", job.id, "--db", theirs])).code).toBe(0);
    } finally {
      await once(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
    }
  });
});

const WELL: PostgresFacts = {
  place: "db:5432/jobs",
  name: "sluice",
  version: 180_004,
  user: "worker",
  readOnly: false,
  isolation: "read committed",
  settings: { fsync: "on", synchronousCommit: "on", fullPageWrites: "on", autovacuum: "on" },
  connections: { used: 10, most: 100 },
  waiting: { sessions: 0, oldestMs: 0 },
  holders: [],
  seesAll: true,
  tables: [{ table: "jobs", live: 1_000, dead: 10, bytes: 1e6, vacuumedMs: 60_000 }],
  invalid: [],
  heard: { ms: 2 },
  clockAheadMs: 3,
  schema: { found: 1, known: 1 },
  kept: {
    rows: [{ table: "jobs", rows: 1_000 }],
    expired: { jobs: 0, oldestMs: 0 },
    overdue: { jobs: 0, oldestMs: 0 },
    served: { workers: 1, stuck: [], unhandled: [], limits: 0, undeclared: null },
    fromTheFuture: 0,
    offsetMs: 0,
  },
};
const settings = (more: Partial<PostgresFacts["settings"]>) => ({ settings: { ...WELL.settings, ...more } });
const holder = { kind: "session", name: "4711", state: "idle in transaction", ageMs: 720_000 } as const;

describe("doctor", () => {
  it("sluice doctor reports ok where nothing is wrong", () => {
    const found = postgresFindings(WELL);
    expect(found.map(({ status }) => status)).toEqual(found.map(() => "ok"));
    expect(found[0]!.says).toBe("db:5432/jobs, Postgres 18.4, as worker");
  });

  it.each<[Finding["check"], Finding["status"], Partial<PostgresFacts>, RegExp]>([
    ["server", "fail", { version: 130_022 }, /Postgres 13\.22, as worker: too old/],
    ["server", "fail", { readOnly: true }, /read-only/],
    ["schema", "fail", { schema: { found: 0, known: 1 } }, /none of Sluice's tables in the schema sluice/],
    ["schema", "fail", { schema: { found: 2, known: 1 } }, /update Sluice/],
    ["schema", "warn", { schema: { found: 1, known: 2 } }, /needs 2/],
    ["durability", "warn", settings({ fsync: "off" }), /a crash of the computer can destroy/],
    ["durability", "warn", settings({ fullPageWrites: "off" }), /full_page_writes is off/],
    ["durability", "warn", settings({ synchronousCommit: "off" }), /takes back the last moments/],
    ["durability", "ok", settings({ synchronousCommit: "remote_apply" }), /remote_apply/],
    ["isolation", "ok", { isolation: "serializable" }, /begins its own transactions as read committed/],
    ["wake-ups", "warn", { heard: { failed: "nothing came" } }, /no notification came: nothing came/],
    ["wake-ups", "warn", { heard: { ms: 2_500 } }, /took 2\.5 s/],
    ["connections", "warn", { connections: { used: 85, most: 100 } }, /85 of 100/],
    ["locks", "ok", { waiting: { sessions: 1, oldestMs: 200 } }, /1 session waiting/],
    ["locks", "warn", { waiting: { sessions: 3, oldestMs: 9_000 } }, /3 sessions waiting for one, for 9 s at most/],
    ["transactions", "warn", { seesAll: false }, /cannot be seen as/],
    ["locks", "warn", { seesAll: false }, /cannot be seen as/],
    ["transactions", "warn", { holders: [holder] }, /^process 4711, idle in transaction for 12 m: old versions/],
    [
      "transactions",
      "warn",
      { holders: [{ kind: "slot", name: "replica", state: "not in use", ageMs: null }, holder] },
      /^the replication slot replica, not in use: .*; and 1 other$/,
    ],
    ["vacuum", "warn", settings({ autovacuum: "off" }), /autovacuum is off/],
    [
      "vacuum",
      "warn",
      { tables: [{ table: "jobs", live: 9, dead: 5e6, bytes: 1e9, vacuumedMs: null }] },
      /jobs has 5,000,000 dead rows, 9 living, never vacuumed/,
    ],
    ["indexes", "fail", { invalid: ["sluice.jobs_open"] }, /sluice\.jobs_open/],
    ["clock", "ok", { clockAheadMs: -7_200_000 }, /the server is 2 h behind this computer, which does not matter/],
    ["clock", "warn", { kept: { ...WELL.kept!, offsetMs: 90_000 } }, /1 m 30 s ahead of the wall clock/],
    ["leases", "warn", { kept: { ...WELL.kept!, expired: { jobs: 2, oldestMs: 60_000 } } }, /2 leases ran out/],
  ])("%s: %s", (check, status, facts, says) => {
    const one = postgresFindings({ ...WELL, ...facts }).find((finding) => finding.check === check)!;
    expect(one).toMatchObject({ status, says: expect.stringMatching(says) });
    if (status !== "ok" && check !== "schema") expect(one.advice).toBeTruthy();
  });

  it("sluice doctor says nothing of tables that are not there", () => {
    const checks = postgresFindings({ ...WELL, kept: undefined, tables: [] }).map(({ check }) => check);
    expect(checks).not.toContain("leases");
    expect(checks).not.toContain("vacuum");
  });

  it("sluice doctor finds expired leases, jobs that no worker starts and wrong stamps", async () => {
    const url = await temporaryDatabase();
    await using own = new PostgresStorage(url);
    await fillStorage(own);
    const bad = async (...args: string[]) => {
      const { out, code } = await inProcess(["doctor", "--json", "--db", url, ...args]);
      const { findings } = JSON.parse(out) as { findings: Finding[] };
      // The server of the tests has to outlive nothing.
      const checks = findings.filter(({ status, check }) => status !== "ok" && check !== "durability");
      return { code, checks: checks.map(({ check }) => check) };
    };
    expect(await bad()).toEqual({ code: 0, checks: [] });
    await once(
      url,
      `UPDATE sluice.jobs SET lease_until = lease_until - 1e6 WHERE state = 'active';
       UPDATE sluice.jobs SET due_at = due_at - 1e7 WHERE state = 'waiting' AND queue = 'other';
       UPDATE sluice.jobs SET created_at = created_at + 1e8 WHERE state = 'dead';
       UPDATE sluice.jobs SET delete_at = delete_at - 1e9 WHERE state = 'cancelled'`,
    );
    expect(await bad()).toEqual({ code: 0, checks: ["leases", "waiting", "clock", "keeping"] });
    expect((await bad("--stuck", "3h")).checks).not.toContain("waiting");
  });

  it("sluice doctor finds sessions that keep old rows, and sessions that wait for a lock", async () => {
    const { url } = database;
    const [holds, waits] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
    await Promise.all([holds.connect(), waits.connect()]);
    const executor = new pg.Pool({ connectionString: url, max: 1 });
    const facts = () => serverFacts({ executor, schema: "sluice" }, 0);
    try {
      await holds.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      const { rows } = await holds.query<{ pid: string }>(
        "SELECT pg_backend_pid()::text AS pid FROM sluice.meta FOR UPDATE",
      );
      const session = { kind: "session", name: rows[0]!.pid, state: "idle in transaction", ageMs: expect.any(Number) };
      // The ten oldest of the server are listed, and other tests may have as many for a moment.
      await vi.waitFor(async () => expect((await facts()).holders).toContainEqual(session), { timeout: 60_000 });
      const waiting = waits.query("SELECT FROM sluice.meta FOR UPDATE");
      await vi.waitFor(async () => expect((await facts()).waiting.sessions).toBe(1), { timeout: 10_000 });
      await holds.query("ROLLBACK");
      await waiting;
      expect((await facts()).waiting.sessions).toBe(0);
    } finally {
      await Promise.all([holds.end(), waits.end(), executor.end()]);
    }
  });
});
