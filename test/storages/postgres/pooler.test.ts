import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { defineLimits, Queue, Worker } from "../../../src/index.ts";
import { type PostgresPool, PostgresStorage, type SqlValue } from "../../../src/storages/postgres/index.ts";
import { once, temporaryDatabase } from "./server.ts";

/**
 * A pool behind which a pooler stands in transaction mode: its clients get another session of the server for every transaction,
 * and sessions forget everything in between.
 */
async function pooled(url: string): Promise<PostgresPool & { readonly transactions: () => number }> {
  const sessions = new pg.Pool({ connectionString: url, max: 4 });
  onTestFinished(() => sessions.end());
  let transactions = 0;
  const connect = async () => {
    let session: pg.PoolClient | undefined;
    /** Is a transaction of several statements open on it? */
    let inside = false;
    return {
      async query(text: string, values: SqlValue[] = []) {
        session ??= await sessions.connect();
        if (text.startsWith("BEGIN")) inside = true;
        try {
          return await session.query(text, values);
        } finally {
          if (/^(COMMIT|ROLLBACK)/.test(text)) inside = false;
          if (!inside) {
            transactions += 1;
            const done = session;
            session = undefined;
            await done.query("DISCARD ALL");
            done.release();
          }
        }
      },
      release: () => session?.release(),
    };
  };
  return {
    connect,
    query: async (text, values) => (await connect()).query(text, values),
    transactions: () => transactions,
  };
}

describe.each(["read committed", "repeatable read"])("through a pooler in transaction mode, %s by default", (level) => {
  it("jobs run under their limits, once each", async () => {
    const url = await temporaryDatabase();
    await once(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = '${level}'`);
    const pool = await pooled(url);
    await using storage = new PostgresStorage(pool);
    const limits = defineLimits({
      all: { max: 15, per: "200ms", types: ["t"] },
      tenant: { concurrency: 2, by: "group" },
    });
    const queue = new Queue("q", { storage, limits });
    const jobs = await queue.addBulk(
      Array.from({ length: 40 }, (_, n) => ({ type: "t", data: n, options: { group: `g${n % 5}` } })),
    );
    const ran: number[] = [];
    await using worker = new Worker<Record<string, { data: number; result: number }>>(
      "q",
      async ({ data }, { log }) => {
        ran.push(data);
        await log(`ran ${data}`);
        return data * 2;
      },
      { storage, concurrency: 10 },
    );
    const results = await Promise.all(jobs.map((job) => job.result({ timeout: "25s" })));
    expect(results).toEqual(jobs.map((_, n) => n * 2));
    expect(ran.toSorted((a, b) => a - b)).toEqual(jobs.map((_, n) => n));
    await worker.stop();
    // Every transaction had another session, and no state was left in any of them.
    expect(pool.transactions()).toBeGreaterThan(20);
    expect(
      await once(
        url,
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
      ),
    ).toEqual([]);
  });
});
