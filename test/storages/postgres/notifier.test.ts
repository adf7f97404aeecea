import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { poolOf, until } from "./client-support.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

/** A storage that adds, whose statements are noted; another that listens; and what is said on the channel. */
async function pair() {
  const url = await temporaryDatabase();
  const statements: string[] = [];
  const Noting = class extends pg.Client {
    // oxlint-disable-next-line typescript/no-explicit-any -- as the driver says it
    override query(...args: any[]): any {
      const [said] = args as [string | { readonly text: string }];
      statements.push(
        /\.(\w+?)(?:_\d+)?\(/.exec((typeof said === "string" ? said : said.text).replace(/^.*?, /, ""))?.[1] ?? "",
      );
      return super.query(...(args as [string]));
    }
  };
  const storage = new PostgresStorage(poolOf(url, { Client: Noting as unknown as new () => pg.Client }));
  const there = new PostgresStorage(url);
  onTestFinished(async () => {
    await storage.close();
    await there.close();
  });
  await storage.setup();
  const wakes: boolean[] = [];
  there.subscribe({ queue: "q", wake: (mayStart) => wakes.push(mayStart) });
  // A storage whose step is under way is registered.
  await there.find(["missing"]);
  const said: unknown[] = [];
  const ear = new pg.Client(url);
  await ear.connect();
  onTestFinished(() => ear.end());
  ear.on("notification", ({ payload = "" }) => said.push(JSON.parse(payload)));
  await ear.query('LISTEN "sluice:sluice"');
  statements.length = 0;
  return { url, storage, statements, wakes, said };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("the notification of jobs that are added after a pause", () => {
  it("jobs that are added after a pause are notified by the step that adds them, in one round trip", async () => {
    const { storage, statements, wakes, said } = await pair();
    await storage.add([newJob()]);
    await until(() => wakes.length === 1, "the notification of the first job");
    await pause(50);
    await storage.add([newJob(), newJob()]);
    await until(() => wakes.length === 2 && said.length === 2, "the notification of the others");
    expect(statements).toEqual(["add_uniform", "add_uniform"]);
    expect(wakes).toEqual([true, false]);
    expect(said).toMatchObject([{ queues: [["q", true]] }, { queues: [["q", false]] }]);
  });

  it("an add does not wait for another one that notifies, and is notified afterwards", async () => {
    const { url, storage, statements, wakes } = await pair();
    const other = new pg.Client(url);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query("BEGIN");
    await other.query("SELECT pg_advisory_xact_lock(sluice.lock_key('telling', ''))");
    await storage.add([newJob()]);
    await until(() => wakes.length === 1, "its notification");
    expect(statements).toEqual(["add_uniform", "notify_others"]);
  });

  it("a process that begins to listen while jobs are being committed is notified of them", async () => {
    const url = await temporaryDatabase();
    await using storage = new PostgresStorage(url);
    await storage.setup();
    await once(
      url,
      "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(1); RETURN NULL; END$$",
    );
    await once(
      url,
      `CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON sluice.jobs DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slowly()`,
    );
    const added = storage.add([newJob()]);
    const sleeping = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    await until(async () => (await once(url, sleeping)).length > 0, "the job to be committed");
    await using there = new PostgresStorage(url);
    const wakes: boolean[] = [];
    there.subscribe({ queue: "q", wake: (mayStart) => wakes.push(mayStart) });
    await there.find(["missing"]);
    wakes.length = 0;
    await added;
    await until(() => wakes.length > 0, "the notification of the job", 3_000);
  });

  it("jobs of a queue whose name does not fit into a notification wake up workers all the same", async () => {
    const { storage, wakes } = await pair();
    await storage.add([newJob({ queue: "x".repeat(9_000) })]);
    await storage.add([newJob()]);
    await until(() => wakes.length > 0, "the notification of the queue");
  });
});

it("jobs that are added one after the other are notified together, a few times", async () => {
  const { storage, wakes, said } = await pair();
  const start = performance.now();
  for (let i = 0; i < 300; i++) await storage.add([newJob()]);
  await pause(50);
  const ms = performance.now() - start;
  // The first by itself, and then at most every 2 ms, soon every 10.
  expect(said.length).toBeLessThan(10 + ms / 8);
  expect(wakes.length).toBeGreaterThan(1);
});
