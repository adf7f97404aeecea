import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { wantsColour } from "../../src/cli/io.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { liveWorker } from "../live-worker.ts";
import {
  copyOf,
  type Ended,
  fill,
  type Filled,
  folderFor,
  inProcess,
  MAIN,
  SECRET,
  sluice,
  tamper,
} from "./support.ts";

/* The binary as people use it: a process of its own, against a real file with a job in every state. */
const folder = folderFor("commands");
const database = join(folder.path, "jobs.db");
let ids: Filled;
beforeAll(async () => {
  ids = await fill(database);
});
afterAll(folder.remove);

/** In a process of its own; every command at least once. */
const spawned = (db: string, ...args: string[]) => sluice([...args, "--db", db]);
/** The same without the cost of a process, for the many cases. */
const at = (db: string, ...args: string[]) => inProcess([...args, "--db", db]);
const look = (...args: string[]) => at(database, ...args);
const json = ({ out }: Ended): unknown => JSON.parse(out);
const errorOf = ({ err }: Ended) => (JSON.parse(err) as { error: { code: string; message: string } }).error;

describe("sluice", () => {
  it("sluice shows help and its version", async () => {
    const help = await sluice(["help"]);
    expect(help).toMatchObject({ code: 0, err: "" });
    for (const { name } of COMMANDS) expect(help.out).toContain(`  ${name} `);
    expect((await inProcess(["--help"])).out).toBe(help.out);
    expect(json(await sluice(["--version", "--json"]))).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    for (const line of help.out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it.each(COMMANDS.map(({ name }) => name))("sluice explains %s within 80 columns", async (name) => {
    const { code, out } = await inProcess(["help", name]);
    expect(code).toBe(0);
    expect(out).toContain(`Usage: sluice ${name}`);
    expect((await inProcess([name, "--help"])).out).toBe(out);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it.each([
    [[], /which command/],
    [["stast"], /no command "stast"; did you mean stats\?/],
    [["toString"], /no command/],
    [["stats", "--wacth"], /did you mean --watch\?/],
    [["stats", "extra"], /"extra" is more than `stats` takes/],
    [["stats"], /which database\? Say --db/],
    [["show", "--db", "mysql://ann:hunter2@host/db", "x"], /another address \(not shown here\)/],
    [["show", "--db", "postgres://ann:hunter2@[host/db", "x"], /cannot be read \(it is not shown here\)/],
    [["stats", "--db", "jobs.db", "--schema", "mine"], /--schema is for Postgres/],
    [["stats", "--db", "postgres://host/db", "--schema", "x;y"], /expected --schema to be a name/],
    [["stats", "--db", "a.db", "--db-file", "b"], /--db or --db-file, not both/],
    [["stats", "--db-file", "not/there"], /cannot be read: not\/there \(ENOENT\)/],
    [["migrate"], /which database/],
    [["migrate", "jobs.db"], /must begin with postgres/],
    [["migrate", "--db", "jobs.db"], /is a SQLite file, and this is for Postgres/],
    [["migrate", "--print", "postgres://host/db"], /--print needs no address/],
    [["stats", "--db", ":memory:"], /in memory/],
    [["help", "joobs"], /did you mean jobs\?/],
  ])("sluice refuses %j with exit code 2", async (args, message) => {
    const [people, machines] = await Promise.all([inProcess(args), inProcess([...args, "--json"])]);
    expect(people).toMatchObject({ code: 2, out: "" });
    expect(people.err).toMatch(message);
    expect(people.err).toMatch(/^See `sluice help/m);
    expect(people.err).not.toContain(SECRET);
    expect(machines.code).toBe(2);
    expect(errorOf(machines)).toMatchObject({ code: "SLUICE_USAGE", message: expect.stringMatching(message) });
  });

  it("sluice does not create a database that is missing, nor tables that are not there", async () => {
    const missing = join(folder.path, "missing.db");
    const ended = await Promise.all(["stats", "jobs", "doctor", "pause"].map((name) => at(missing, name, "--json")));
    for (const one of ended) {
      expect(one).toMatchObject({ code: 1, out: "" });
      expect(errorOf(one)).toMatchObject({ code: "SLUICE_NO_DATABASE" });
    }
    expect(existsSync(missing)).toBe(false);
    const foreign = join(folder.path, "foreign.db");
    tamper(foreign, "CREATE TABLE theirs (a)");
    const before = statSync(foreign).size;
    expect((await at(foreign, "stats")).err).toMatch(/none of its tables/);
    expect(statSync(foreign).size).toBe(before);
    expect((await at(folder.path, "stats")).err).toMatch(/is not a file/);
  });

  it("sluice takes the database from the environment, and leaves nothing beside it", async () => {
    const own = copyOf(database, "environment");
    const { code, out } = await sluice(["stats", "--json"], { SLUICE_DB: own });
    expect(code).toBe(0);
    expect(json({ code, out, err: "" })).toMatchObject({ queues: [{ queue: "mail" }, { queue: "other" }] });
    expect(readdirSync(folder.path).filter((file) => file.startsWith("environment"))).toEqual(["environment.db"]);
  });

  it("sluice refuses tables of another version without touching them", async () => {
    const newer = copyOf(database, "newer");
    tamper(newer, "UPDATE sluice_meta SET version = 99");
    expect(errorOf(await at(newer, "stats", "--json"))).toMatchObject({
      message: expect.stringMatching(/update Sluice/),
    });
    const older = copyOf(database, "older");
    tamper(older, "UPDATE sluice_meta SET version = -1");
    expect((await at(older, "pause", "-q", "mail")).err).toMatch(/start a worker of this release/);
  });

  it("sluice reports errors in a process of its own", async () => {
    expect(await sluice(["stast"])).toEqual({
      code: 2,
      out: "",
      err: 'error there is no command "stast"; did you mean stats?\nSee `sluice help`.\n',
    });
    const missing = await spawned(join(folder.path, "missing.db"), "stats", "--json");
    expect(missing).toMatchObject({ code: 1, out: "" });
    expect(errorOf(missing).code).toBe("SLUICE_NO_DATABASE");
  });

  it("sluice uses colours at a terminal alone, and not with NO_COLOR", () => {
    expect(wantsColour(true, {})).toBe(true);
    expect(wantsColour(true, { NO_COLOR: "" })).toBe(true);
    expect(wantsColour(true, { NO_COLOR: "1" })).toBe(false);
    expect(wantsColour(true, { TERM: "dumb" })).toBe(false);
    expect(wantsColour(false, {})).toBe(false);
  });

  it("sluice ends quietly when its output is closed", async () => {
    const child = spawn(process.execPath, [MAIN, "stats", "--watch", "--json", "--db", database], { stdio: "pipe" });
    child.stdout.destroy();
    const [err, [code, signal]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect({ err, code, signal }).toEqual({ err: "", code: 0, signal: null });
  });
});

describe("stats", () => {
  it("sluice stats counts by state", async () => {
    const [all, one, table] = await Promise.all([
      look("stats", "--json"),
      look("stats", "--json", "-q", "other"),
      spawned(database, "stats"),
    ]);
    expect(json(all)).toMatchObject({
      queues: [
        {
          queue: "mail",
          counts: { waiting: 1, scheduled: 1, active: 1, completed: 1, dead: 1, cancelled: 1, awaiting: 1 },
          paused: false,
          workers: 1,
          oldestWaitingMs: expect.any(Number),
        },
        { queue: "other", counts: { waiting: 1 }, workers: 1 },
      ],
      limits: [{ name: "queue:mail", starts: 4, windowMs: 60_000, heldForMs: null }],
    });
    expect((json(one) as { queues: unknown[] }).queues).toHaveLength(1);
    expect(table.out).toMatch(
      /^queue +waiting +scheduled +active +completed +dead +cancelled +awaiting +oldest +workers$/m,
    );
    expect(table.out).toMatch(/^mail +1 +1 +1 +1 +1 +1 +1 +\d+(ms|s|m) +1$/m);
    expect(table.out).not.toContain("\u001b");
  });

  it("sluice stats fails for a queue that does not exist", async () => {
    const ended = await look("stats", "--json", "--queue", "mial");
    expect(ended.code).toBe(1);
    expect(errorOf(ended)).toEqual({ code: "SLUICE_NO_QUEUE", message: "there is no queue mial; did you mean mail?" });
  });

  it("sluice stats watches until it is aborted", async () => {
    const child = spawn(process.execPath, [MAIN, "stats", "--watch", "--json", "--db", database], { stdio: "pipe" });
    const lines: string[] = [];
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      lines.push(...chunk.trim().split("\n"));
      if (lines.length >= 2) child.kill("SIGINT");
    });
    expect(await once(child, "exit")).toEqual([0, null]);
    for (const line of lines)
      expect(JSON.parse(line)).toMatchObject({ queues: [{ queue: "mail" }, { queue: "other" }] });
  });
});

describe("workers", () => {
  it("sluice workers lists live workers, with where they run and what they handle", async () => {
    const { out } = await look("workers");
    expect(out).toMatch(/^id +queue +host +pid +runs +up +seen +types +limits$/m);
    expect(out).toMatch(/^worker-1 +mail +machine +12 +3 +\d+(ms|s|m) +\d+(ms|s|m) +all +api$/m);
    expect(out).toMatch(/^live-other +other +1 +\d+(ms|s|m) +\d+(ms|s|m) +ping$/m);
    const instant = expect.stringMatching(/Z$/);
    expect(json(await look("workers", "--json", "-q", "mail"))).toEqual({
      workers: [
        {
          id: "worker-1",
          queue: "mail",
          host: "machine",
          pid: 12,
          types: null,
          moreTypes: 0,
          concurrency: 3,
          limits: ["api"],
          moreLimits: 0,
          since: instant,
          lastSeen: instant,
        },
      ],
    });
  });

  it("sluice workers shows none whose time is over, and stats says where one is missing", async () => {
    const db = copyOf(database, "no-workers");
    tamper(db, "UPDATE sluice_workers SET until = 1");
    expect(await sluice(["workers", "--db", db])).toMatchObject({ code: 0, out: "There are no live workers.\n" });
    expect((await sluice(["stats", "--db", db])).out).toMatch(/^mail has jobs waiting, and no live worker\.$/m);
  });
});

describe("jobs", () => {
  interface Page {
    readonly jobs: readonly { readonly id: string; readonly state: string; readonly data?: unknown }[];
    readonly cursor: string | null;
  }

  it("sluice jobs lists page by page, newest first", async () => {
    const first = json(await look("jobs", "-q", "mail", "--json", "--limit", "4")) as Page;
    expect(first.jobs.map(({ id }) => id)).toEqual([ids.awaiting, ids.scheduled, ids.waiting, ids.cancelled]);
    const second = json(await look("jobs", "-q", "mail", "--json", "--limit", "4", "--cursor", first.cursor!)) as Page;
    expect(second).toMatchObject({ jobs: [{ id: ids.active }, { id: ids.dead }, { id: ids.completed }], cursor: null });
    const people = await spawned(database, "jobs", "-q", "mail", "--limit", "4");
    expect(people.out).toContain(`More: --cursor ${first.cursor}`);
  });

  it("sluice jobs filters by state, type, group and age", async () => {
    const found = async (...args: string[]) =>
      (json(await look("jobs", "-q", "mail", "--json", ...args)) as Page).jobs.map(({ id }) => id);
    expect(await found("--state", "dead,active")).toEqual([ids.active, ids.dead]);
    expect(await found("--type", "send_email", "--group", "acme")).toEqual([ids.waiting, ids.completed]);
    expect(await found("--since", "1h")).toHaveLength(7);
    expect(await found("--since", "0")).toEqual([]);
  });

  it("sluice jobs shows no payload unless asked for, and no control characters ever", async () => {
    const [plain, asked, people] = await Promise.all([
      look("jobs", "-q", "mail", "--json"),
      look("jobs", "-q", "mail", "--json", "--data"),
      look("jobs", "-q", "mail"),
    ]);
    expect(plain.out + people.out).not.toContain(SECRET);
    expect(plain.out + people.out).not.toContain("\u001b");
    expect(json(plain)).toMatchObject({
      jobs: [{ dataOutline: { kind: "object", keys: ["to", "password"] } }, {}, {}, {}, {}, {}, {}],
    });
    expect(asked.out).toContain(SECRET);
    expect(people.out).toContain("it broke \\u001b[31mbadly");
  });

  it("sluice jobs requires --queue where there are several queues", async () => {
    const ended = await look("jobs");
    expect(ended.code).toBe(2);
    expect(ended.err).toContain("--queue with one of mail, other");
  });

  it("sluice jobs refuses a cursor that it did not give", async () => {
    expect(await look("jobs", "-q", "mail", "--cursor", "'; DROP TABLE sluice_jobs")).toMatchObject({ code: 2 });
  });
});

describe("show", () => {
  it("sluice show shows everything but the payload", async () => {
    const [completed, dead] = await Promise.all([spawned(database, "show", ids.completed), look("show", ids.dead)]);
    expect(completed.code).toBe(0);
    for (const part of [
      `id        ${ids.completed}`,
      "state     completed",
      "group     acme",
      "priority  3",
      "attempts  1 of 5",
      "key       key-1",
      "progress  40 % half way",
      "data      { to, password } 45 bytes (--data shows it)",
      "result    { sent } 18 bytes",
      "first \\u001b[31mline",
      "third",
    ]) {
      expect(completed.out).toContain(part);
    }
    expect(completed.out).not.toContain(SECRET);
    for (const part of [
      "state     dead",
      "timeout   5 s",
      "[E_LAST]: it broke",
      "at there (file.js:1:2)",
      "attempt 1",
      "attempt 2",
      "worker-1",
    ]) {
      expect(dead.out).toContain(part);
    }
  });

  it("sluice show shows the payload when asked for", async () => {
    const { out } = await look("show", ids.completed, "--data");
    expect(out).toContain(`"password": "${SECRET}"`);
    expect(out).toContain(`"sent": "${SECRET}"`);
    expect(out).toContain(`"at": "${SECRET}"`);
  });

  it("sluice show --json answers in JSON", async () => {
    const [quiet, full] = await Promise.all([
      look("show", ids.dead, "--json"),
      look("show", ids.completed, "--json", "--data"),
    ]);
    expect(json(quiet)).toMatchObject({
      id: ids.dead,
      state: "dead",
      paused: false,
      error: { code: "E_LAST" },
      attempts: [{ attempt: 1, worker: "worker-1" }, { attempt: 2 }],
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(quiet.out).not.toContain(SECRET);
    expect(json(full)).toMatchObject({
      data: { password: SECRET },
      result: { sent: SECRET },
      log: [{ text: "first \u001b[31mline" }, { text: "second\nthird" }],
    });
  });

  it("sluice show finds a job by its idempotency key", async () => {
    const found = await look("show", "--key", "key-1", "-q", "mail", "--json");
    expect(json(found)).toMatchObject({ id: ids.completed, idempotencyKey: "key-1" });
    const missing = await look("show", "--key", "key-2", "-q", "mail", "--json");
    expect(missing).toMatchObject({ code: 1, out: "" });
    expect(errorOf(missing)).toMatchObject({ code: "SLUICE_JOB_NOT_FOUND", message: expect.stringContaining("key-2") });
    expect(await look("show", "--key", "key-1")).toMatchObject({ code: 2 });
    expect(await look("show", ids.dead, "--key", "key-1", "-q", "mail")).toMatchObject({ code: 2 });
  });

  it("sluice show does not find what is not there", async () => {
    const ended = await look("show", "missing", "--json");
    expect(ended).toMatchObject({ code: 1, out: "" });
    expect(errorOf(ended).code).toBe("SLUICE_JOB_NOT_FOUND");
  });
});

/** The states of jobs in a database. */
async function statesOf(path: string, ...wanted: readonly string[]): Promise<(string | undefined)[]> {
  await using storage = new SqliteStorage(path, { migrate: false });
  return (await storage.find(wanted)).map((job) => job?.state);
}

describe("changes", () => {
  it("sluice retry sends back jobs that have ended, and says which have not", async () => {
    const db = copyOf(database, "retry");
    const one = await spawned(db, "retry", ids.dead);
    expect(one).toMatchObject({ code: 0, out: `retried ${ids.dead}\n` });
    const many = await at(db, "retry", ids.completed, ids.active, "missing", "--json");
    expect(many.code).toBe(1);
    expect(json(many)).toEqual({
      action: "retry",
      changed: [ids.completed],
      unchanged: [{ id: ids.active, state: "active" }],
      notFound: ["missing"],
    });
    expect(await statesOf(db, ids.dead, ids.completed, ids.active)).toEqual(["waiting", "waiting", "active"]);
  });

  it("sluice redrive sends back all dead letters, or those of a type", async () => {
    const db = copyOf(database, "redrive");
    const none = await at(db, "retry", "--all", "--type", "send_email", "-q", "mail", "--json");
    expect(json(none)).toEqual({ action: "retry", queue: "mail", retried: 0 });
    expect(await at(db, "retry", "--all", "-q", "mail")).toMatchObject({ code: 0, out: "retried 1 job of mail\n" });
    expect(await statesOf(db, ids.dead)).toEqual(["waiting"]);
    expect(await at(db, "retry", "--all", ids.dead)).toMatchObject({ code: 2 });
    expect(await at(db, "retry", "--type", "x")).toMatchObject({ code: 2 });
  });

  it("sluice cancel, promote and remove change one job", async () => {
    const db = copyOf(database, "changes");
    expect(await spawned(db, "cancel", ids.waiting, ids.active)).toMatchObject({ code: 0 });
    expect(await statesOf(db, ids.waiting, ids.active)).toEqual(["cancelled", "active"]);
    expect((await at(db, "show", ids.active)).out).toContain("active (asked to stop)");
    expect(await spawned(db, "promote", ids.scheduled)).toMatchObject({ code: 0, out: `due now ${ids.scheduled}\n` });
    expect(await statesOf(db, ids.scheduled)).toEqual(["waiting"]);
    const removed = await spawned(db, "remove", ids.dead, ids.active, ids.other);
    expect(removed.code).toBe(1);
    expect(removed.out).toContain(`left ${ids.active}: it is active, cancel it first`);
    expect(removed.out).toContain("2 jobs of 3 removed.");
    expect(await statesOf(db, ids.dead, ids.active, ids.other)).toEqual([undefined, "active", undefined]);
    expect(await at(db, "cancel")).toMatchObject({ code: 2 });
  });

  it("sluice cancel, remove and drain change many jobs, by type, group or key, and count them", async () => {
    const db = copyOf(database, "many");
    const counted = await at(db, "cancel", "-q", "mail", "--type", "send_email", "--dry-run", "--json");
    expect(json(counted)).toEqual({ action: "cancel", queue: "mail", found: 1, changed: 0 });
    expect(await at(db, "cancel", "-q", "mail", "--type", "send_email", "--group", "acme")).toMatchObject({
      code: 0,
      out: "cancelled 1 job of mail\n",
    });
    expect(await statesOf(db, ids.waiting, ids.scheduled)).toEqual(["cancelled", "scheduled"]);
    expect(json(await at(db, "drain", "-q", "mail", "--json"))).toEqual({
      action: "drain",
      queue: "mail",
      found: 2,
      changed: 2,
    });
    expect(json(await at(db, "remove", "-q", "mail", "--key", "key-1", "--json"))).toMatchObject({
      found: 1,
      changed: 1,
    });
    expect(json(await at(db, "remove", "-q", "mail", "--key", "key-1", "--json"))).toMatchObject({
      found: 0,
      changed: 0,
    });
    expect((await at(db, "remove", "-q", "mail", "--state", "cancelled")).out).toBe("removed 2 jobs of mail\n");
    expect((await at(db, "cancel", "-q", "mail", "--all")).out).toBe("cancelled 1 job of mail\n");
    expect(await statesOf(db, ids.completed, ids.active, ids.other)).toEqual([undefined, "active", "waiting"]);
    expect(await at(db, "cancel", ids.active, "--type", "slow", "-q", "mail")).toMatchObject({ code: 2 });
    expect(await at(db, "remove", "-q", "mail", "--state", "active")).toMatchObject({ code: 2 });
  });

  it("changes of many jobs need --yes at a terminal", async () => {
    const db = copyOf(database, "persons");
    const args = ["drain", "-q", "mail", "--db", db];
    const asked = await inProcess(args, { interactive: true });
    expect(asked).toMatchObject({ code: 1, out: "" });
    expect(asked.err).toContain("this removes 3 jobs of mail: say --yes to do it");
    expect(await statesOf(db, ids.waiting)).toEqual(["waiting"]);
    const done = await inProcess([...args, "--yes"], { interactive: true, terminal: true });
    expect(done).toMatchObject({ code: 0, out: "removed 3 jobs of mail\n" });
    expect(await statesOf(db, ids.waiting)).toEqual([undefined]);
  });

  it("changes of many jobs stop at Ctrl-C, and say how many are done", async () => {
    const db = copyOf(database, "stopped");
    const stopped = await inProcess(["drain", "-q", "mail", "--db", db], { interrupted: () => AbortSignal.abort() });
    expect(stopped).toMatchObject({ code: 1, out: "" });
    expect(stopped.err).toContain("stopped after 0 jobs of 3 removed");
  });

  it("sluice edit changes a job that has not started, and says why another was left as it is", async () => {
    const db = copyOf(database, "edit");
    const args = [
      "--priority=-7",
      "--delay",
      "0",
      "--data",
      '{"to":"ben"}',
      "--weight",
      "a=2",
      "--weight",
      "b=3",
      "--keys",
      "tenant=a=b",
    ];
    const edited = await spawned(db, "edit", ids.scheduled, ...args, "--group", "acme", "--timeout", "5s");
    expect(edited).toMatchObject({ code: 0, out: `updated ${ids.scheduled}: it is waiting\n` });
    expect(json(await at(db, "show", ids.scheduled, "--data", "--json"))).toMatchObject({
      state: "waiting",
      priority: -7,
      group: "acme",
      timeout: 5_000,
      weights: { a: 2, b: 3 },
      keys: { tenant: "a=b" },
      data: { to: "ben" },
    });
    await at(db, "edit", ids.scheduled, "--keys", "tenant=acme", "--keys", "model=large");
    expect((await at(db, "show", ids.scheduled)).out).toMatch(/^keys +model=large tenant=acme$/m);
    expect((await at(db, "jobs", "-q", "mail")).out).toMatch(/ keys .*\n(.*\n)*.* model=large tenant=acme/);
    const cleared = [
      "--group",
      "none",
      "--keys",
      "none",
      "--weight",
      "none",
      "--timeout",
      "none",
      "--run-at",
      "2100-01-01T00:00:00Z",
    ];
    expect(json(await at(db, "edit", ids.scheduled, ...cleared, "--json"))).toEqual({
      action: "edit",
      id: ids.scheduled,
      updated: true,
      state: "scheduled",
    });
    expect(json(await at(db, "show", ids.scheduled, "--json"))).toMatchObject({
      group: null,
      keys: null,
      timeout: null,
      weights: null,
      dueAt: "2100-01-01T00:00:00.000Z",
    });
    const left = await at(db, "edit", ids.active, "--priority", "1");
    expect(left).toMatchObject({ code: 1, out: expect.stringContaining(`left ${ids.active}: it is active`) });
    expect(errorOf(await at(db, "edit", "missing", "--priority", "1", "--json")).code).toBe("SLUICE_JOB_NOT_FOUND");
    const twice = ["--keys", "a=1", "--keys", "a=2"];
    const bad = [
      ["--priority", "x"],
      ["--run-at", "soon"],
      ["--data", "{"],
      ["--weight", "5"],
      ["--keys", "acme"],
    ];
    for (const wrong of [[], ...bad, twice]) {
      expect(await at(db, "edit", ids.waiting, ...wrong)).toMatchObject({ code: 2 });
    }
    expect((await at(db, "edit", ids.waiting, "--priority", "99999999999")).err).toContain("priority");
  });

  it("sluice pause and resume stop and start a queue, or a type in it", async () => {
    const db = copyOf(database, "pause");
    expect(await spawned(db, "pause", "-q", "mail")).toMatchObject({ code: 0, out: "paused mail\n" });
    expect(json(await at(db, "pause", "-q", "mail", "--type", "slow", "--json"))).toEqual({
      queue: "mail",
      paused: true,
      pausedTypes: ["slow"],
    });
    expect((await at(db, "show", ids.waiting)).out).toContain("waiting (the queue is paused)");
    expect((await at(db, "stats")).out).toContain("mail is paused.\nmail: type slow is paused.");
    expect((await spawned(db, "resume", "-q", "mail")).out).toBe("resumed mail; type slow is paused\n");
    expect((await at(db, "resume", "-q", "mail", "--type", "slow")).out).toBe("resumed slow of mail\n");
    expect((await at(db, "pause", "-q", "new")).out).toBe("paused new (nothing was added to it yet)\n");
    expect(await at(db, "resume", "-q", "missing")).toMatchObject({ code: 1 });
  });

  it("sluice purge deletes jobs that have ended, by state and age", async () => {
    const db = copyOf(database, "purge");
    expect(await at(db, "purge", "-q", "mail")).toMatchObject({ code: 2 });
    expect(await at(db, "purge", "-q", "mail", "--state", "active")).toMatchObject({ code: 2 });
    const young = await at(db, "purge", "-q", "mail", "--older-than", "7d", "--json");
    expect(json(young)).toEqual({ queue: "mail", found: 0, removed: 0 });
    const counted = await at(db, "purge", "-q", "mail", "--all", "--dry-run");
    expect(counted.out).toBe("3 jobs of mail would go\n");
    const dead = await spawned(db, "purge", "-q", "mail", "--state", "dead", "--json");
    expect(json(dead)).toEqual({ queue: "mail", found: 1, removed: 1 });
    expect((await at(db, "purge", "-q", "mail", "--all")).out).toBe("removed 2 jobs of mail\n");
    expect((await at(db, "purge", "-q", "mail", "--all", "--state", "waiting,scheduled")).out).toBe(
      "removed 2 jobs of mail\n",
    );
    expect(await statesOf(db, ids.active, ids.completed, ids.waiting)).toEqual(["active", undefined, undefined]);
  });

  it("sluice purge needs --yes at a terminal", async () => {
    const db = copyOf(database, "person");
    const args = ["purge", "-q", "mail", "--all", "--db", db];
    const asked = await inProcess(args, { interactive: true });
    expect(asked).toMatchObject({ code: 1, out: "" });
    expect(asked.err).toContain("this deletes 3 jobs of mail: say --yes to do it");
    expect(await statesOf(db, ids.dead)).toEqual(["dead"]);
    expect(await inProcess([...args, "--yes"], { interactive: true })).toMatchObject({ code: 0 });
    expect(await statesOf(db, ids.dead)).toEqual([undefined]);
  });
});

describe("one queue", () => {
  it("the only queue needs no name in a command", async () => {
    const db = copyOf(database, "single");
    tamper(
      db,
      "DELETE FROM sluice_jobs WHERE queue = 'other'; UPDATE sluice_lanes SET waiting = 0 WHERE queue = 'other'",
    );
    expect((await at(db, "jobs", "--json", "-n", "1")).code).toBe(0);
    expect((await at(db, "pause")).out).toBe("paused mail\n");
  });

  it("the only queue may have live workers and no jobs", async () => {
    const idle = join(folder.path, "idle.db");
    await using storage = new SqliteStorage(idle);
    await liveWorker(storage, "quiet");
    expect((await at(idle, "stats")).out).toMatch(/^quiet +0 +0 +0 +0 +0 +1$/m);
    expect((await at(idle, "workers")).out).toMatch(/^live-quiet +quiet +1 +\d+m?s +\d+m?s +all$/m);
    expect((await at(idle, "workers", "-q", "other")).out).toBe("There are no live workers.\n");
  });

  it("a command says so where there is no queue", async () => {
    const empty = join(folder.path, "empty.db");
    await using storage = new SqliteStorage(empty);
    await storage.setup();
    expect((await at(empty, "stats")).out).toMatch(/no queues/);
    expect(json(await at(empty, "stats", "--json"))).toEqual({ queues: [], limits: [] });
    expect(errorOf(await at(empty, "jobs", "--json")).code).toBe("SLUICE_NO_QUEUE");
  });
});
