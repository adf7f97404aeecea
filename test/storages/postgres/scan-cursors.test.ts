import fc from "fast-check";
import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { JobRecord } from "../../../src/core/job.ts";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { addArgument } from "../../../src/storages/postgres/jobs/add.ts";
import { recordsOf } from "../../../src/storages/postgres/jobs/claim.ts";
import type { StartedJobs } from "../../../src/storages/postgres/jobs/started.ts";
import { Worker } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { poolOf, until } from "./client-support.ts";
import { temporaryDatabase } from "./server.ts";
import { emptyStorages, newJob, rule, type EmptyStorage } from "./support.ts";

/** So many jobs come and go that passing their index entries takes long. */
const MANY = 6_000;
/** A scan that passes so few entries has not passed those. */
const FEW = 1_000;
/** After this time all of them are passed again. */
const LOOK_MS = 250;

const BACK = { to: "back", inMs: 0, held: false, hold: null, error: null, unstarted: true } as const;

interface Asked {
  readonly types?: readonly string[] | null;
  readonly limits?: readonly object[];
}

interface Claimed {
  readonly ids: readonly string[];
  readonly more: boolean;
  readonly nextInMs: number | null;
  /** How many entries of the index the claim passed. */
  readonly passed: number;
}

type Scene = Pick<EmptyStorage, "storage" | "pool">;

class Crowd {
  readonly #scene: Scene;
  readonly #client: pg.PoolClient;

  private constructor(scene: Scene, client: pg.PoolClient) {
    this.#scene = scene;
    this.#client = client;
  }

  /** A storage in which the server may clean up nothing. `release`: from then on it may. */
  static async gather(scene: Scene): Promise<{ readonly crowd: Crowd; readonly release: () => Promise<void> }> {
    await scene.storage.setup();
    const [holder, client] = [await scene.pool.connect(), await scene.pool.connect()];
    await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await holder.query("SELECT FROM sluice.jobs");
    onTestFinished(async () => {
      await holder.query("ROLLBACK");
      holder.release();
      client.release();
    });
    const release = async () => {
      await holder.query("COMMIT");
      await client.query("VACUUM sluice.jobs");
    };
    return { crowd: new Crowd(scene, client), release };
  }

  /** Adds and ends many jobs of this priority. */
  async comeAndGo(priority = 0): Promise<void> {
    const { storage } = this.#scene;
    await storage.add(Array.from({ length: MANY }, () => newJob({ priority, keepFor: 0 })));
    const { jobs } = await storage.claim(anything({ max: MANY }));
    expect(jobs).toHaveLength(MANY);
    await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
  }

  async add(id: string, priority = 0): Promise<void> {
    await this.#scene.storage.add([newJob({ id, priority })]);
  }

  /** Claims, and counts the entries that were passed. */
  async claim(max: number, { types = null, limits = [] }: Asked = {}): Promise<Claimed> {
    const said = { claim: 1, queue: "q", worker: "w", max, types, lease_ms: 30_000, limits };
    const { answer, passed } = await this.counted("sluice.claim_2($1)", JSON.stringify(said));
    const { jobs, more, nextInMs } = answer as Omit<Claimed, "ids"> & { readonly jobs: StartedJobs };
    return { ids: recordsOf(jobs, anything({ types, max })).map(({ id }) => id), more, nextInMs, passed };
  }

  /** The answer of a call, and how many entries it passed. */
  async counted(
    call: string,
    ...values: readonly unknown[]
  ): Promise<{ readonly answer: unknown; readonly passed: number }> {
    const passed = async () =>
      Number((await this.#client.query<{ n: string }>("SELECT sluice.passed() AS n")).rows[0]!.n);
    // Within a transaction the statistics are not summed up.
    await this.#client.query("BEGIN");
    const before = await passed();
    const { rows } = await this.#client.query<{ answer: string }>(`SELECT ${call} AS answer`, [...values]);
    const after = await passed();
    await this.#client.query("COMMIT");
    return { answer: JSON.parse(rows[0]!.answer) as unknown, passed: after - before };
  }

  async cursors(): Promise<number> {
    return (await this.#client.query("SELECT FROM sluice.scan_cursors")).rows.length;
  }
}

const WAYS: Readonly<Record<string, Asked>> = {
  "of any type": {},
  "of one type": { types: ["t"] },
  "under a limit": { limits: [{ key: "k", max: 1_000_000, windowMs: 1_000 }] },
  "of one type, under a limit": { types: ["t"], limits: [{ key: "k", max: 1_000_000, windowMs: 1_000 }] },
};

describe("where every claim sets a cursor", () => {
  const open = emptyStorages();
  const step = fc.oneof(
    fc.record({
      does: fc.constant("add" as const),
      priority: fc.constantFrom(0, 0, 0, 1),
      type: fc.constantFrom("t", "t", "t", "u"),
      inMs: fc.constantFrom(0, 0, 0, 200),
    }),
    fc.record({
      does: fc.constant("claim" as const),
      max: fc.integer({ min: 1, max: 3 }),
      types: fc.constantFrom(null, null, null, ["t"], ["t", "u"]),
    }),
    fc.record({ does: fc.constant("give back" as const) }),
    fc.record({ does: fc.constant("end" as const) }),
    fc.record({ does: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 400 }) }),
  );

  test("no job is left behind, and none starts twice", async () => {
    const setting = await open();
    await setting.storage.setup();
    await setting.pool
      .query(`CREATE OR REPLACE FUNCTION sluice.passed_many(before bigint, has_cursors boolean) RETURNS boolean
      LANGUAGE sql STABLE AS 'SELECT true'`);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const { storage, clock } = await open();
        const waiting = new Set<string>();
        let held: JobRecord[] = [];
        const claim = async (request: Parameters<typeof anything>[0]) => {
          const claimed = await storage.claim(anything(request));
          for (const { id } of claimed.jobs) expect(waiting.delete(id)).toBe(true);
          held.push(...claimed.jobs);
          return claimed;
        };
        for (const said of steps) {
          if (said.does === "add") {
            const job = newJob({ priority: said.priority, type: said.type, due: { inMs: said.inMs } });
            await storage.add([job]);
            waiting.add(job.id);
          } else if (said.does === "claim") {
            await claim({ max: said.max, types: said.types, leaseMs: 1e9 });
          } else if (said.does === "wait") {
            await clock.advance(said.ms);
          } else {
            const ended = held.map(({ id, token }): Outcome =>
              said.does === "end" ? { id, token, to: "completed", result: null } : { id, token, ...BACK },
            );
            if (said.does === "give back") for (const { id } of held) waiting.add(id);
            held = [];
            expect(await storage.settle(ended)).toEqual([]);
          }
        }
        // The wake-up times of claims lead to all of them.
        for (let looks = 0; waiting.size > 0; looks++) {
          expect(looks).toBeLessThan(200);
          const { more, nextInMs } = await claim({ max: 2, leaseMs: 1e9 });
          if (waiting.size === 0 || more) continue;
          expect(nextInMs).not.toBeNull();
          await clock.advance(nextInMs!);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("where many jobs have gone, and the server may clean up nothing", () => {
  const open = emptyStorages();

  test.each(Object.entries(WAYS))("a claim %s begins at the cursor of the claim before it", async (_, asked) => {
    const { crowd } = await Crowd.gather(await open());
    await crowd.comeAndGo();
    for (const id of ["a", "b", "c"]) await crowd.add(id);
    const first = await crowd.claim(1, asked);
    expect(first).toMatchObject({ ids: ["a"], more: true });
    expect(first.passed).toBeGreaterThan(MANY);
    const second = await crowd.claim(1, asked);
    expect(second).toMatchObject({ ids: ["b"], more: true });
    expect(second.passed).toBeLessThan(FEW);
    const third = await crowd.claim(1, asked);
    expect(third).toMatchObject({ ids: ["c"], more: false, nextInMs: LOOK_MS });
    expect(third.passed).toBeLessThan(FEW);
    const none = await crowd.claim(1, asked);
    expect(none).toMatchObject({ ids: [], more: false, nextInMs: LOOK_MS });
    expect(none.passed).toBeLessThan(FEW);
  });

  test("the cursor moves on with the jobs", async () => {
    const { crowd } = await Crowd.gather(await open());
    await crowd.comeAndGo();
    await crowd.add("a");
    await crowd.claim(1);
    await crowd.comeAndGo();
    for (const id of ["b", "c"]) await crowd.add(id);
    expect((await crowd.claim(1)).ids).toEqual(["b"]);
    const next = await crowd.claim(1);
    expect(next.ids).toEqual(["c"]);
    expect(next.passed).toBeLessThan(FEW);
  });

  test("a job that is given back is found a little later", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    await crowd.comeAndGo();
    for (const id of ["a", "b"]) await crowd.add(id);
    const { jobs } = await scene.storage.claim(anything({ max: 1 }));
    expect(await crowd.claim(1)).toMatchObject({ ids: ["b"] });
    await crowd.comeAndGo();
    await crowd.add("c");
    expect(await crowd.claim(1)).toMatchObject({ ids: ["c"] });
    await scene.storage.settle([{ id: "a", token: jobs[0]!.token, ...BACK }]);
    expect(await crowd.claim(1)).toMatchObject({ ids: [], more: false, nextInMs: LOOK_MS });
    await scene.clock.advance(LOOK_MS);
    expect(await crowd.claim(1)).toMatchObject({ ids: ["a"], more: false });
  });

  test("a claim that has scanned all entries and found no job names no wake-up time", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    await crowd.comeAndGo();
    await crowd.add("a");
    await crowd.claim(1);
    expect(await crowd.claim(1)).toMatchObject({ ids: [], nextInMs: LOOK_MS });
    await scene.clock.advance(LOOK_MS);
    expect(await crowd.claim(1)).toMatchObject({ ids: [], more: false, nextInMs: null });
    expect(await crowd.cursors()).toBe(1);
  });

  test("jobs of all priorities are returned in order, and in one claim", async () => {
    const { crowd } = await Crowd.gather(await open());
    await crowd.comeAndGo(1);
    await crowd.add("high", 1);
    await crowd.claim(1);
    await crowd.comeAndGo(0);
    await crowd.add("low", 0);
    await crowd.claim(1);
    expect(await crowd.cursors()).toBe(2);
    const added = { "low 1": 0, "high 1": 1, lowest: -2.5, "low 2": 0, between: 0.5, highest: 7, "high 2": 1 };
    for (const [id, priority] of Object.entries(added)) await crowd.add(id, priority);
    const claims = [await crowd.claim(1), await crowd.claim(4), await crowd.claim(4)];
    expect(claims.map(({ ids }) => ids)).toEqual([
      ["highest"],
      ["high 1", "high 2", "between", "low 1"],
      ["low 2", "lowest"],
    ]);
    expect(claims.map(({ more }) => more)).toEqual([true, true, false]);
    for (const { passed } of claims) expect(passed).toBeLessThan(FEW);
  });

  test("many priorities share few cursors", async () => {
    const { crowd } = await Crowd.gather(await open());
    for (let priority = 20; priority > 0; priority--) {
      if (priority === 20) await crowd.comeAndGo(priority);
      await crowd.add(`${priority}`, priority);
      expect((await crowd.claim(1)).ids).toEqual([`${priority}`]);
    }
    expect(await crowd.cursors()).toBeLessThan(9);
    for (let priority = 1; priority <= 20; priority++) await crowd.add(`again ${priority}`, priority);
    const { ids } = await crowd.claim(30);
    expect(ids).toEqual(Array.from({ length: 20 }, (_, i) => `again ${20 - i}`));
  });

  test("a job whose row another transaction has locked holds up no other job", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    await crowd.comeAndGo();
    await crowd.add("a");
    await crowd.claim(1);
    await crowd.add("locked", 5);
    const other = await scene.pool.connect();
    onTestFinished(() => other.release());
    await other.query("BEGIN");
    await other.query("SELECT FROM sluice.jobs WHERE id = 'locked' FOR UPDATE");
    await crowd.add("b");
    expect(await crowd.claim(1)).toMatchObject({ ids: ["b"] });
    await other.query("ROLLBACK");
    expect(await crowd.claim(1)).toMatchObject({ ids: ["locked"] });
  });

  test("a job that is past its deadline ends, and holds up no other job", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    const { storage, clock } = scene;
    await crowd.comeAndGo();
    await crowd.add("a");
    await crowd.claim(1);
    await storage.add([newJob({ id: "late", deadline: { inMs: 100 } })]);
    await crowd.add("b");
    await clock.advance(100);
    expect((await crowd.claim(1)).ids).toEqual(["b"]);
    expect(await storage.find(["late"])).toMatchObject([{ state: "dead" }]);
  });

  test("a worker becomes idle where no job is left", async () => {
    const url = await temporaryDatabase();
    const pool = poolOf(url);
    const storage = new PostgresStorage(pool);
    const { crowd } = await Crowd.gather({ storage, pool });
    await crowd.comeAndGo();
    await crowd.add("first");
    const { jobs } = await storage.claim(anything({ max: 1 }));
    await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
    expect(await crowd.cursors()).toBe(1);
    const ran: string[] = [];
    const worker = new Worker("q", { t: async ({ id }) => void ran.push(id) }, { storage });
    onTestFinished(async () => {
      await worker.stop();
      await storage.close();
    });
    await crowd.add("second");
    await until(() => ran.length > 0, "the job to run");
    await worker.onIdle();
    expect(ran).toEqual(["second"]);
    expect(await crowd.cursors()).toBe(1);
  });

  test("while a limit is full for one type, jobs of other types start", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    const { storage } = scene;
    await storage.limits.define([rule("service", { max: 1, windowMs: 3_600_000 }, { types: ["t"] })]);
    await storage.limits.change("service", { quota: { max: 2 * MANY }, group: null });
    await crowd.comeAndGo();
    await storage.limits.change("service", { quota: { max: 1 }, group: null });
    for (const id of ["a", "b"]) await crowd.add(id);
    expect((await storage.claim(anything({ max: 1 }))).jobs).toEqual([]);
    for (const id of ["free 1", "free 2"]) {
      await storage.add([newJob({ id, type: "free" })]);
      expect((await storage.claim(anything({ max: 5 }))).jobs).toMatchObject([{ id }]);
    }
  });

  test("cursors do not slow down the adding of a job", async () => {
    const scene = await open();
    const { crowd } = await Crowd.gather(scene);
    await crowd.comeAndGo();
    await scene.clock.advance(1_000);
    await crowd.claim(1);
    const uniform = await crowd.counted(
      "sluice.add_uniform_2('one', '{}', ',', 'q', 't', NULL, 0, 0, NULL, NULL, NULL, 3, '{}', NULL, NULL, NULL, NULL, NULL)",
    );
    const general = await crowd.counted("sluice.add_2($1, false)", addArgument([newJob()]));
    expect(uniform.passed + general.passed).toBeLessThan(FEW);
  });

  test("cursors disappear once the server may clean up again, and jobs stay in order", async () => {
    const scene = await open();
    const { crowd, release } = await Crowd.gather(scene);
    await crowd.comeAndGo();
    for (const id of ["a", "b"]) await crowd.add(id);
    await crowd.claim(1);
    expect(await crowd.cursors()).toBe(1);
    await release();
    await crowd.add("first", 5);
    await scene.clock.advance(LOOK_MS);
    expect(await crowd.claim(1)).toMatchObject({ ids: ["first"], more: true });
    expect(await crowd.cursors()).toBe(0);
    expect(await crowd.claim(1)).toMatchObject({ ids: ["b"], more: false, nextInMs: null });
  });
});
