import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Passage, Proxy } from "../../../chaos/conductor/proxy.ts";
import { startPostgres } from "../../../scripts/postgres-server.ts";
import { Queue, StorageError, Worker } from "../../../src/index.ts";
import type { JobStorage, NewJob } from "../../../src/storage/job-storage.ts";
import { PostgresStorage, type PostgresStorageOptions } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { hurried, poolOf, until } from "./client-support.ts";
import { addArgument } from "../../../src/storages/postgres/jobs/add.ts";
import { temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

/** An attempt goes unanswered for half a second, and there is much time for those that follow. */
const patient = () => ({ clock: hurried(6), timeout: 60_000 });
/** All of the time is up soon. */
const hasty = { timeout: 600, connections: 1 };

interface Scene {
  readonly storage: PostgresStorage;
  /** Both go straight to the database. */
  readonly admin: pg.Pool;
  readonly direct: PostgresStorage;
  /** Stalls all open connections, and lets no new one through. */
  stall(): readonly Passage[];
  /** All connections that were stalled. */
  readonly stalled: readonly Passage[];
  /** Lets stalled connections go on, and waits until the server has processed what they sent. */
  resume(passages: readonly Passage[]): Promise<void>;
}

/** A storage whose connections to its database can be stalled, with connections that were used before. */
async function scene(options: PostgresStorageOptions, isolation = "read committed"): Promise<Scene> {
  const home = await temporaryDatabase();
  const proxy = await Proxy.open(Number(new URL(home).port));
  const url = new URL(home);
  url.port = String(proxy.port);
  const admin = poolOf(home, { max: 4 });
  await admin.query(`ALTER DATABASE "${url.pathname.slice(1)}" SET default_transaction_isolation = '${isolation}'`);
  const storage = new PostgresStorage(url.href, { connections: 3, ...options });
  const direct = new PostgresStorage(admin);
  onTestFinished(async () => {
    for (const passage of proxy.passages) passage.resume();
    await Promise.all([storage.close(), direct.close()]);
    await proxy.close();
  });
  await storage.limits.define([rule("k", { max: 10, windowMs: 60_000, concurrency: 5 })], {});
  const stalled: Passage[] = [];
  return {
    storage,
    direct,
    admin,
    stalled,
    stall: () => {
      const passages = [...proxy.passages];
      for (const passage of passages) passage.stall();
      stalled.push(...passages);
      return passages;
    },
    resume: async (passages) => {
      const left = passages.filter((passage) => !proxy.passages.has(passage));
      expect(left).not.toEqual([]);
      for (const passage of passages) passage.resume();
      await Promise.all(left.map(({ over }) => over));
    },
  };
}

/** What is counted and held of the limit. */
async function usedOf({ admin }: Pick<Scene, "admin">): Promise<{ readonly starts: number; readonly slots: number }> {
  const { rows } = await admin.query<{ starts: number; slots: number }>(
    `SELECT (SELECT coalesce(sum(n), 0)::float8 FROM sluice.starts) AS starts,
       (SELECT coalesce(sum(slots), 0)::float8 FROM sluice.slots WHERE slots > 0) AS slots`,
  );
  return rows[0]!;
}

/** The states and attempts of all jobs. */
async function jobsOf({ admin }: Pick<Scene, "admin">): Promise<readonly string[]> {
  const { rows } = await admin.query<{ said: string }>(
    "SELECT concat(state, ' ', attempt) AS said FROM sluice.jobs ORDER BY state, attempt, id",
  );
  return rows.map(({ said }) => said);
}

/** Steps are neither repeated nor looked into from here on, until the leases that were given have run out. */
async function heldUp({ admin }: Scene): Promise<() => Promise<void>> {
  const lock = await admin.connect();
  await lock.query("BEGIN; LOCK TABLE sluice.steps IN SHARE MODE");
  const stalled = async () => (await lock.query("SELECT FROM sluice.recover('{}') WHERE stalled > 0")).rowCount;
  return async () => {
    await until(stalled, "the leases to run out");
    await lock.query("COMMIT");
    lock.release();
  };
}

describe("an attempt that reaches the server after its repeat was answered", () => {
  test("a claim starts no other jobs", async () => {
    const at = await scene(patient());
    await at.direct.add(["a", "b", "c"].map((id) => newJob({ id })));
    const passages = at.stall();
    const { jobs } = await at.storage.claim({ ...anything(), max: 1 });
    expect(jobs).toHaveLength(1);
    await at.resume(passages);
    expect(await jobsOf(at)).toEqual(["active 1", "waiting 0", "waiting 0"]);
  });

  test("a permit is counted once", async () => {
    const at = await scene(patient());
    await usedOf(at);
    const passages = at.stall();
    const taken = await at.storage.limits.take({ name: "k", group: null, weight: null, ttlMs: 60_000 });
    expect(taken.granted).toBe(true);
    await at.resume(passages);
    expect(await usedOf(at)).toEqual({ starts: 1, slots: 1 });
  });

  test("a job that was added, run and deleted meanwhile is not added again", async () => {
    const at = await scene(patient());
    const passages = at.stall();
    await at.storage.add([newJob({ id: "a", keepFor: 0 })]);
    const { jobs } = await at.storage.claim(anything());
    await at.storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
    expect(await jobsOf(at)).toEqual([]);
    await at.resume(passages);
    expect(await jobsOf(at)).toEqual([]);
  });

  test("a queue that was resumed meanwhile is not paused again", async () => {
    const at = await scene(patient());
    const passages = at.stall();
    await at.storage.setPaused("q", null, true);
    await at.storage.setPaused("q", null, false);
    await at.resume(passages);
    expect(await at.storage.overview("q")).toEqual([]);
  });
});

describe("one tryAcquire over a connection that is stalled for longer than an attempt", () => {
  test("one start is counted and one slot is in use, or none if the call came too late", async () => {
    const at = await scene(patient());
    await usedOf(at);
    const passages = at.stall();
    const permit = await at.storage.limiter("k").tryAcquire();
    await at.resume(passages);
    const expected = permit.granted ? { starts: 1, slots: 1 } : { starts: 0, slots: 0 };
    await until(async () => (await usedOf(at)).slots === expected.slots, "the slots to be right", 30_000);
    await until(async () => (await usedOf(at)).starts === expected.starts, "the starts to be right", 30_000);
    if (permit.granted) await permit.release();
  });
});

describe("an answer that is lost", () => {
  /** A call waits; not a notification that an earlier one has left behind, which goes over another connection. */
  const waitsForMeta = async ({ admin }: Scene) =>
    (
      await admin.query(`SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE NOT l.granted AND l.relation = 'sluice.meta'::regclass AND a.query NOT LIKE '%.notify\\_others%'`)
    ).rowCount;

  /** The statement is done, and its answer stays on the way. */
  async function unheard<T>(at: Scene, call: (storage: JobStorage) => Promise<T>): Promise<T> {
    const lock = await at.admin.connect();
    await lock.query("BEGIN; LOCK TABLE sluice.meta IN ACCESS EXCLUSIVE MODE");
    const answer = call(at.storage);
    await until(() => waitsForMeta(at), "the statement to wait");
    at.stall();
    await lock.query("COMMIT");
    lock.release();
    return answer;
  }

  test("a permit is the same when it is asked for again", async () => {
    const at = await scene(patient());
    const taken = await unheard(at, ({ limits }) =>
      limits.take({ name: "k", group: null, weight: null, ttlMs: 60_000 }),
    );
    expect(taken).toMatchObject({ granted: true, held: true });
    expect(await usedOf(at)).toEqual({ starts: 1, slots: 1 });
    if (taken.granted) await at.storage.limits.give(taken.token, "cancelled");
    expect(await usedOf(at)).toEqual({ starts: 0, slots: 0 });
  });

  test("a start under a rate is the same when it is asked for again", async () => {
    const at = await scene(patient());
    const window = { maxExecutions: 2, windowMs: 60_000 };
    const first = await unheard(at, ({ rates }) => rates.tryRecordExecution("r", window));
    expect(first.granted).toBe(true);
    expect(await usedOf(at)).toEqual({ starts: 1, slots: 0 });
    await unheard(at, ({ rates }) => rates.recordExecution("r"));
    expect(await usedOf(at)).toEqual({ starts: 2, slots: 0 });
  });

  test("a claim is answered with jobs whose leases ran out meanwhile, and no attempt is spent for those", async () => {
    const at = await scene(patient());
    await at.storage.add([newJob({ id: "a", maxAttempts: 1 }), newJob({ id: "b", group: "g" })]);
    // The next claim comes with a plan, so that its first call starts them.
    await at.storage.claim(anything({ max: 0 }));
    const sweep = await heldUp(at);
    const claiming = unheard(at, (storage) => storage.claim(anything({ leaseMs: 1 })));
    await until(async () => (await jobsOf(at)).includes("active 1"), "the claim to be done");
    await sweep();
    const { jobs } = await claiming;
    expect(jobs.map(({ id, attempt, error }) => [id, attempt, error])).toEqual([
      ["a", 1, null],
      ["b", 1, null],
    ]);
    expect((await at.direct.history("a")).attempts).toEqual([]);
  });

  test("a claim loses no job whose lease is swept while its repeat looks for what was started", async () => {
    const at = await scene(patient());
    await at.storage.add([newJob({ id: "a", maxAttempts: 1 })]);
    const [steps, sweep] = await Promise.all([at.admin.connect(), at.admin.connect()]);
    await steps.query("BEGIN; LOCK TABLE sluice.steps IN SHARE MODE");
    const claiming = unheard(at, (storage) => storage.claim(anything({ leaseMs: 1 })));
    await until(async () => (await jobsOf(at)).includes("active 1"), "the claim to be done");
    await sweep.query("BEGIN; LOCK TABLE sluice.meta IN ACCESS EXCLUSIVE MODE");
    await steps.query("COMMIT");
    await until(() => waitsForMeta(at), "the repeat to wait", 30_000);
    await sweep.query("SELECT FROM sluice.recover('{}'); COMMIT");
    for (const client of [steps, sweep]) client.release();
    const { jobs } = await claiming;
    expect(jobs.map(({ id, attempt, error }) => [id, attempt, error])).toEqual([["a", 1, null]]);
  });

  test("a repeat waits for a transaction that was never committed, where the default isolation level is another one", async () => {
    const at = await scene(patient(), "serializable");
    await at.storage.add([newJob({ id: "a" })]);
    const claiming = unheard(at, (storage) => storage.claim(anything()));
    const waiting = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
      WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`;
    const waited = until(async () => (await at.admin.query(waiting)).rowCount, "the repeat to wait", 30_000);
    await Promise.race([claiming, waited]);
    for (const passage of at.stalled) passage.resume();
    expect((await claiming).jobs).toMatchObject([{ id: "a", attempt: 1 }]);
  });

  test("lines of a log are written once, and a change names what it has changed", async () => {
    const at = await scene(patient());
    await at.storage.add([newJob({ id: "a" }), newJob({ id: "b" })]);
    const { id, token } = (await at.storage.claim({ ...anything(), max: 1 })).jobs[0]!;
    await unheard(at, (storage) => storage.report([{ id, token, log: ["line"] }]));
    expect((await at.storage.history(id)).log).toHaveLength(1);
    const other = id === "a" ? "b" : "a";
    const changed = await unheard(at, (storage) => storage.change({ action: "cancel", queue: "q", ids: [other] }));
    expect(changed).toEqual([other]);
  });
});

describe("a call whose time is up while its outcome is unknown", () => {
  /** Whatever writes to this table hangs in its COMMIT, with all of its locks, until it is let go. */
  async function hanging({ admin }: Scene, table: string): Promise<() => Promise<void>> {
    await admin.query(`CREATE FUNCTION public.hang() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
      CREATE CONSTRAINT TRIGGER hang AFTER INSERT OR UPDATE ON sluice.${table} DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION public.hang()`);
    const lock = await admin.connect();
    await lock.query("SELECT pg_advisory_lock(42)");
    return async () => {
      await lock.query("SELECT pg_advisory_unlock(42)");
      lock.release();
      const held = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 42`;
      await until(async () => (await admin.query(held)).rowCount === 0, "the commit to be over", 30_000);
    };
  }

  const unknown = { name: "UnknownOutcomeError", code: "SLUICE_UNKNOWN_OUTCOME" };

  test("a claim fails by name, and what it has started comes back without an attempt spent", async () => {
    const at = await scene(hasty);
    await at.storage.add([newJob({ id: "a", maxAttempts: 1 })]);
    const release = await hanging(at, "jobs");
    const failing = at.storage.claim(anything({ leaseMs: 600_000 }));
    await expect(failing).rejects.toBeInstanceOf(StorageError);
    await expect(failing).rejects.toMatchObject(unknown);
    await release();
    await until(async () => (await jobsOf(at)).join() === "waiting 0", "the job to come back", 30_000);
    expect((await at.storage.claim(anything())).jobs).toMatchObject([{ id: "a", attempt: 1 }]);
  });

  test("a claim whose leases ran out before that could be looked into has spent no attempt", async () => {
    const at = await scene(hasty);
    const groups = [null, "g"];
    await at.storage.add(groups.flatMap((group) => [1, 2].map((maxAttempts) => newJob({ maxAttempts, group }))));
    const release = await hanging(at, "jobs");
    await expect(at.storage.claim(anything({ leaseMs: 1 }))).rejects.toMatchObject(unknown);
    const sweep = await heldUp(at);
    await release();
    await sweep();
    const back = "waiting 0,waiting 0,waiting 0,waiting 0";
    await until(async () => (await jobsOf(at)).join() === back, "the jobs to come back", 30_000);
    const { jobs } = await at.direct.claim(anything());
    expect(jobs.map(({ attempt, error }) => [attempt, error])).toEqual(jobs.map(() => [1, null]));
    expect(jobs).toHaveLength(4);
    for (const { id } of jobs) expect((await at.direct.history(id)).attempts).toEqual([]);
  });

  test("what a claim has counted under limits comes back as well", async () => {
    const at = await scene(hasty);
    await at.storage.add([newJob({ id: "a", maxAttempts: 1 })]);
    const release = await hanging(at, "jobs");
    await expect(at.storage.claim(anything({ leaseMs: 600_000, grantTtlMs: 600_000 }))).rejects.toMatchObject(unknown);
    await release();
    await until(async () => (await jobsOf(at)).join() === "waiting 0", "the job to come back", 30_000);
    expect(await usedOf(at)).toEqual({ starts: 0, slots: 0 });
  });

  test("a permit fails by name, and nothing of it is counted or held", async () => {
    const at = await scene(hasty);
    const request = { name: "k", group: null, weight: null, ttlMs: 600_000, grantTtlMs: 600_000 };
    const release = await hanging(at, "slots");
    await expect(at.storage.limits.take(request)).rejects.toMatchObject(unknown);
    await release();
    await until(async () => (await usedOf(at)).slots === 0, "no slot to be held", 30_000);
    await until(async () => (await usedOf(at)).starts === 0, "no start to be counted", 30_000);
  });

  test("a start under a rate fails by name, and is not counted", async () => {
    const at = await scene(hasty);
    const release = await hanging(at, "starts");
    const window = { maxExecutions: 2, windowMs: 60_000 };
    await expect(at.storage.rates.tryRecordExecution("r", window)).rejects.toMatchObject(unknown);
    await release();
    await until(async () => (await usedOf(at)).starts === 0, "no start to be counted", 30_000);
  });

  test("the outcome of a claim is looked up while the storage is closed", async () => {
    // By this clock closing waits for long.
    const at = await scene({ ...hasty, clock: hurried(0.2), timeout: 120 });
    await at.storage.add([newJob({ id: "a", maxAttempts: 1 })]);
    const release = await hanging(at, "jobs");
    await expect(at.storage.claim(anything({ leaseMs: 600_000 }))).rejects.toMatchObject(unknown);
    await release();
    await at.storage.close();
    expect(await jobsOf(at)).toEqual(["waiting 0"]);
  });
});

describe("a job that is given back as never started after its lease ran out", () => {
  const unstarted = { to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true } as const;

  /** A job of one attempt, its lease, and what gives it back. */
  async function stalled(said: Partial<NewJob> = {}) {
    const at = await scene({});
    await at.direct.add([newJob({ id: "a", maxAttempts: 1, ...said })]);
    const { id, token } = (await at.direct.claim(anything({ leaseMs: 1 }))).jobs[0]!;
    await until(async () => (await at.direct.sweep()).stalled > 0, "the lease to run out");
    return { ...at, giveBack: () => at.direct.settle([{ id, token, ...unstarted }]) };
  }

  test("gets its attempt back, once, and is dead no more", async () => {
    const at = await stalled();
    expect(await jobsOf(at)).toEqual(["dead 1"]);
    for (let i = 0; i < 2; i++) expect(await at.giveBack()).toEqual(["a"]);
    expect(await jobsOf(at)).toEqual(["waiting 0"]);
    expect((await at.direct.history("a")).attempts).toEqual([]);
    expect((await at.direct.claim(anything())).jobs).toMatchObject([{ id: "a", attempt: 1, error: null }]);
  });

  test("keeps its attempt if it was claimed again since", async () => {
    const at = await stalled({ maxAttempts: 2 });
    await at.direct.claim(anything());
    await at.giveBack();
    expect(await jobsOf(at)).toEqual(["active 2"]);
  });

  test("stays as it is if it was cancelled, or retried by hand, since", async () => {
    const cancelled = await stalled({ maxAttempts: 2 });
    await cancelled.direct.change({ action: "cancel", queue: "q", ids: ["a"] });
    await cancelled.giveBack();
    expect(await jobsOf(cancelled)).toEqual(["cancelled 1"]);
    const retried = await stalled();
    await retried.direct.change({ action: "retry", queue: "q", ids: ["a"] });
    await retried.giveBack();
    expect(await jobsOf(retried)).toEqual(["waiting 0"]);
    expect((await retried.direct.history("a")).attempts).toHaveLength(1);
  });
});

describe("a synchronous standby that does not answer", () => {
  /** A server of its own whose commits can be made to wait. */
  async function standingServer() {
    const server = await startPostgres();
    const admin = poolOf(server.url, { max: 2 });
    const set = async (names: string) => {
      await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await admin.query("SELECT pg_reload_conf()");
    };
    onTestFinished(async () => {
      await set("");
      await server.stop();
    });
    const waiting = async () =>
      (await admin.query("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'")).rowCount ?? 0;
    return { server, admin, hang: () => set("missing"), release: () => set(""), waiting };
  }

  // A lease of 1s may also expire after the call, if the process or the server stands still for so long: the attempt is spent then.
  test.each([
    ["15s", ["completed"]],
    ["1s", ["completed", "SLUICE_STALLED"]],
  ] as const)(
    "jobs with one attempt that are claimed meanwhile are called, once, and end after that, with leases of %s",
    async (lease, allowed) => {
      const { server, admin, hang, release, waiting } = await standingServer();
      const storage = new PostgresStorage(server.url);
      const queue = new Queue("q", { storage });
      const jobs = await queue.addBulk(
        Array.from({ length: 5 }, () => ({ type: "t", data: {}, options: { maxAttempts: 1 } })),
      );
      await hang();
      const called: string[] = [];
      const worker = new Worker("q", async ({ id }) => void called.push(id), {
        storage,
        lease,
        concurrency: 5,
        onError: () => {},
      });
      onTestFinished(async () => {
        await worker.stop({ timeout: 0 });
        await storage.close();
      });
      await worker.start();
      const claiming = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%.claim_2(%'";
      await until(async () => (await admin.query(claiming)).rowCount, "the claim to hang in its commit", 30_000);
      // Its first attempt is cut off after three.
      await new Promise((resolve) => setTimeout(resolve, 5_000));
      await release();
      await until(async () => (await waiting()) === 0, "commits to go on", 30_000);
      // A job whose lease expired meanwhile is dead until its worker has given it back uncalled.
      await until(() => jobs.every(({ id }) => called.includes(id)), "all jobs to be called", 60_000);
      const ends = async () =>
        (await storage.find(jobs.map(({ id }) => id))).map((job) => job?.error?.code ?? job?.state);
      await until(async () => !(await ends()).includes("active"), "all jobs to end", 60_000);
      for (const end of await ends()) expect(allowed).toContain(end);
      expect(called).toHaveLength(jobs.length);
    },
    120_000,
  );
});

test("a repeat of an add that waits for the first sending to be committed answers that the jobs were added", async () => {
  const { admin, direct } = await scene(patient());
  const jobs = [newJob({ id: "one" }), newJob({ id: "two", type: "other" })];
  const [first, second] = await Promise.all([admin.connect(), admin.connect()]);
  onTestFinished(() => [first, second].forEach((client) => client.release()));
  await first.query("BEGIN");
  await first.query("SELECT sluice.add_2($1, false)", [addArgument(jobs)]);
  const { rows } = await second.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const repeat = second.query<{ add_2: string }>("SELECT sluice.add_2($1, false, again => true)", [addArgument(jobs)]);
  await until(
    async () => {
      const { rows: blocked } = await admin.query("SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0", [
        rows[0]!.pid,
      ]);
      return blocked.length > 0;
    },
    "the repeat to wait",
    60_000,
  );
  await first.query("COMMIT");
  expect(JSON.parse((await repeat).rows[0]!.add_2)).toMatchObject({ others: null });
  expect((await direct.find(["one", "two"])).map((job) => job?.state)).toEqual(["waiting", "waiting"]);
});
