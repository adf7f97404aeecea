import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Outcome } from "../../../src/storage/job-storage.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { outcomesOf } from "../../../src/storages/postgres/jobs/outcomes.ts";
import { type JobRow, toRecord } from "../../../src/storages/postgres/jobs/record.ts";
import { startedRecords, type StartedJobs } from "../../../src/storages/postgres/jobs/started.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, type EmptyStorage } from "./support.ts";

/** Runs `first` in a transaction that stays open until `second` waits for it. */
async function whileUnderWay({ pool }: EmptyStorage, first: string, values: unknown[], second: () => Promise<unknown>) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query(first, values);
    const answer = second();
    const waiting = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted";
    while ((await client.query<{ n: string }>(waiting)).rows[0]!.n === "0");
    await client.query("COMMIT");
    return await answer;
  } finally {
    client.release();
  }
}

describe("a call that waits for a job reads it again", () => {
  const open = emptyStorages();
  const error = { name: "Error", message: "no" };
  const ends: Readonly<Record<string, (lease: { id: string; token: number }) => Outcome>> = {
    completed: (lease) => ({ ...lease, to: "completed", result: '"done"' }),
    dead: (lease) => ({ ...lease, to: "dead", error }),
    scheduled: (lease) => ({ ...lease, to: "retry", inMs: 1_000, error }),
  };

  for (const [state, outcome] of Object.entries(ends)) {
    test(`a job is ${state} although its lease was renewed meanwhile`, async () => {
      const scene = await open();
      const { storage } = scene;
      await storage.add([newJob({ id: "a" })]);
      const { token } = (await storage.claim(anything())).jobs[0]!;
      const leases = JSON.stringify([{ n: 0, id: "a", token }]);
      const settled = await whileUnderWay(scene, "SELECT sluice.heartbeat_2($1, 60000)", [leases], () =>
        storage.settle([outcome({ id: "a", token })]),
      );
      expect(settled).toEqual([]);
      expect((await storage.find(["a"]))[0]?.state).toBe(state);
    });
  }

  test("a lease that another call ends meanwhile is lost", async () => {
    const scene = await open();
    const { storage } = scene;
    await storage.add([newJob({ id: "a" }), newJob({ id: "b" })]);
    const leases = (await storage.claim(anything())).jobs.map(({ id, token }) => ({ id, token }));
    const dead = JSON.stringify(outcomesOf([{ ...leases[0]!, to: "dead", error }]).text);
    const stale = await whileUnderWay(scene, "SELECT sluice.settle_2($1)", [dead], () =>
      storage.settle(leases.map(({ id, token }) => ({ id, token, to: "completed", result: null }))),
    );
    expect(stale).toEqual(["a"]);
    expect((await storage.find(["a", "b"])).map((job) => job?.state)).toEqual(["dead", "completed"]);
  });

  test("a change of many jobs goes on with others where some were removed meanwhile", async () => {
    const scene = await open();
    const { storage } = scene;
    await storage.add(["a", "b", "c", "d"].map((id) => newJob({ id })));
    const where = { states: ["waiting"], type: null, group: null, endedForMs: null } as const;
    const taken = "DELETE FROM sluice.jobs WHERE id = ANY ($1)";
    const removed = await whileUnderWay(scene, taken, [["a", "b"]], () =>
      storage.change({ action: "remove", queue: "q", where, limit: 2 }),
    );
    expect(removed).toEqual(["c", "d"]);
  });

  test.each([0, 1])(
    "of jobs that end together some are kept, and nothing of the others remains (%i)",
    async (first) => {
      const { storage, pool } = await open();
      const ids = ["a", "b", "c", "d"];
      await storage.add(ids.map((id, i) => newJob({ id, ...(i % 2 === first && { keepFor: 0 }) })));
      const failed = (await storage.claim(anything())).jobs;
      await storage.report(failed.map(({ id, token }) => ({ id, token, log: ["line"] })));
      await storage.settle(failed.map(({ id, token }) => ({ id, token, to: "retry", inMs: 0, error })));
      const leases = (await storage.claim(anything())).jobs.map(({ id, token }) => ({ id, token }));
      const outcomes = leases.map(({ id, token }): Outcome => {
        return { id, token, to: "completed", result: JSON.stringify(id) };
      });
      // These leases do not exist.
      const swapped = outcomes.map((outcome, i): Outcome =>
        Object.assign({}, outcome, { token: leases[3 - i]!.token }),
      );
      expect(await storage.settle(swapped)).toEqual(ids);
      expect(await storage.settle([...outcomes, { id: "d", token: 1, to: "completed", result: null }])).toEqual(["d"]);
      const kept = ids.filter((_, i) => i % 2 !== first);
      expect((await storage.find(ids)).map((job) => job?.result)).toEqual(
        ids.map((id) => (kept.includes(id) ? JSON.stringify(id) : undefined)),
      );
      expect((await storage.history(kept[0]!)).attempts).toHaveLength(1);
      for (const table of ["attempts", "log"]) {
        expect((await pool.query(`SELECT FROM sluice.${table}`)).rows).toHaveLength(2);
      }
      expect(await storage.settle(outcomes)).toEqual(ids);
    },
  );

  test("a call that is repeated returns what the first one did", async () => {
    const { storage, pool } = await open();
    await storage.add([newJob({ id: "a" }), newJob({ id: "b" }), newJob({ id: "c" }), newJob({ id: "d", keepFor: 0 })]);
    const call = async (text: string, ...values: unknown[]): Promise<Record<string, unknown>> =>
      JSON.parse((await pool.query<{ answer: string }>(`SELECT sluice.${text} AS answer`, values)).rows[0]!.answer);
    const request = JSON.stringify({
      claim: 1,
      queue: "q",
      worker: "w",
      max: 4,
      types: null,
      lease_ms: 1_000,
      limits: [],
      settle: [],
    });
    const { jobs } = (await call("claim_2($1)", request)) as { jobs: StartedJobs };
    const started = startedRecords(jobs, anything());
    expect(started.map(({ id }) => id)).toEqual(["a", "b", "c", "d"]);
    await storage.add([newJob({ id: "e" })]);
    const again = (await call("claim_2($1, true)", request)) as {
      jobs: readonly JobRow[];
      stale: unknown;
      more: unknown;
    };
    expect([again.stale, again.more]).toEqual([[], true]);
    expect(again.jobs.map((row) => toRecord(row))).toEqual(
      started.map((job) => Object.assign({}, job, { leaseUntil: job.startedAt! + 1_000 })),
    );
    const outcomes = started.map(({ id, token }, n) => ({ n, id, token }));
    expect(await call("settle_2($1)", JSON.stringify(outcomes.toSpliced(2, 1)))).toMatchObject({ stale: [] });
    expect(await call("settle_2($1, true)", JSON.stringify(outcomes))).toMatchObject({ stale: [] });
    expect(await call("settle_2($1, false)", JSON.stringify(outcomes))).toMatchObject({ stale: [0, 1, 2, 3] });
    const plain = { ids: outcomes.map(({ id }) => id), tokens: outcomes.map(({ token }) => token) };
    expect(await call("settle_2($1, true)", JSON.stringify(plain))).toMatchObject({ stale: [] });
    expect(await call("settle_2($1, false)", JSON.stringify(plain))).toMatchObject({ stale: [0, 1, 2, 3] });
    // A lease that has expired is lost, however often the call is repeated.
    const [late] = (await storage.claim(anything({ leaseMs: 1 }))).jobs;
    await pool.query("UPDATE public.test_clock SET wall = wall + 10");
    expect((await storage.sweep()).stalled).toBe(1);
    const lost = JSON.stringify([{ n: 0, id: late!.id, token: late!.token }]);
    expect(await call("settle_2($1, true)", lost)).toMatchObject({ stale: [0] });
  });
});

/** A pool that breaks the connection after a statement with `word` in it was done, once: its answer gets lost. */
function forgetful(pool: pg.Pool, word: string): pg.Pool {
  let lost = false;
  return new Proxy(pool, {
    get(target, name) {
      if (name !== "connect") return Reflect.get(target, name, target) as unknown;
      return async () => {
        const client = await target.connect();
        return new Proxy(client, {
          get(held, member) {
            const value = Reflect.get(held, member, held) as unknown;
            if (typeof value !== "function") return value;
            if (member !== "query" || lost) return value.bind(held) as unknown;
            return async (said: string | { readonly text: string }, values: unknown[]) => {
              const answer = await held.query(said as string, values);
              if (!(typeof said === "string" ? said : said.text).includes(word)) return answer;
              lost = true;
              throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
            };
          },
        });
      };
    },
  });
}

describe("the repeat of an add whose answer got lost", () => {
  const open = emptyStorages();
  const idempotency = { key: "k", fingerprint: "f", ttlMs: 60_000, onDuplicate: "return" } as const;

  test("the repeat answers as the first call would have", async () => {
    const { storage: other, pool } = await open();
    await other.add([newJob({ id: "earlier", idempotency })]);
    const storage = new PostgresStorage(forgetful(pool, ".add_2("), { connections: 0 });
    onTestFinished(() => storage.close());
    const added = await storage.add([
      newJob({ id: "a" }),
      newJob({ id: "b", idempotency: { ...idempotency, key: "own", onDuplicate: "reject" } }),
      newJob({ id: "c", idempotency }),
      newJob({ id: "a" }),
    ]);
    expect(storage.retries).toBe(1);
    expect(added).toEqual([
      { id: "a", created: true },
      { id: "b", created: true },
      { id: "earlier", created: false },
      { id: "a", created: false },
    ]);
    expect((await other.find(["a", "b", "c"])).map((job) => job?.id)).toEqual(["a", "b", undefined]);
  });

  test.each([[["a"]], [["a", "b"]]])(
    "the repeat without keys as well (%j), and the first call wakes up subscribers",
    async (ids) => {
      const { pool, storage: other } = await open();
      const storage = new PostgresStorage(forgetful(pool, ".add_uniform_2("), { connections: 0 });
      onTestFinished(() => storage.close());
      const wakes: boolean[] = [];
      onTestFinished(storage.subscribe({ queue: "q", wake: (mayStart) => wakes.push(mayStart) }));
      const group = "g";
      expect(await storage.add(ids.map((id) => newJob({ id, group, deadline: { inMs: 60_000 } })))).toEqual(
        ids.map((id) => ({ id, created: true })),
      );
      expect(await other.find(ids)).toMatchObject(ids.map((id) => ({ id, group, state: "waiting" })));
      expect(storage.retries).toBe(1);
      expect(wakes).toContain(true);
      expect(await other.add([newJob({ id: "a" })])).toEqual([{ id: "a", created: false }]);
    },
  );
});
