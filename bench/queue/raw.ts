import { DatabaseSync } from "node:sqlite";
import type { Bench, Data, QueueContender } from "./bench.ts";

/**
 * The least that a queue on SQLite can do: one table, one index, a statement for each step, and as many jobs in a
 * transaction as run at the same time. What ended is settled in the transaction that claims the next.
 */
class RawQueue implements Bench {
  readonly #db: DatabaseSync;
  readonly #concurrency: number;
  readonly #insert;
  readonly #claim;
  readonly #settle;
  readonly #begin;
  readonly #commit;

  constructor(file: string, concurrency: number) {
    const db = new DatabaseSync(file);
    db.exec(`
      PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, data TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0,
        lease_until REAL);
      CREATE INDEX jobs_waiting ON jobs (queue, id) WHERE state = 0;`);
    this.#db = db;
    this.#concurrency = concurrency;
    // `LIMIT +?`: with a bare parameter SQLite 3.53 compiles the statement anew each time.
    this.#insert = db.prepare("INSERT INTO jobs (queue, data) VALUES (?, ?)");
    this.#claim = db.prepare(`UPDATE jobs SET state = 1, lease_until = ? WHERE id IN
      (SELECT id FROM jobs WHERE queue = ? AND state = 0 ORDER BY id LIMIT +?) RETURNING id, data`);
    this.#settle = db.prepare("UPDATE jobs SET state = 2, lease_until = NULL WHERE id = ? AND state = 1");
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
  }

  async add(data: Data): Promise<void> {
    this.#insert.run("bench", JSON.stringify(data));
  }

  async addMany(data: readonly Data[]): Promise<void> {
    this.#begin.run();
    for (const one of data) this.#insert.run("bench", JSON.stringify(one));
    this.#commit.run();
  }

  async drain(): Promise<void> {
    let ended: number[] = [];
    do {
      this.#begin.run();
      for (const id of ended) this.#settle.run(id);
      const claimed = this.#claim.all(Date.now() + 30_000, "bench", this.#concurrency) as {
        id: number;
        data: string;
      }[];
      this.#commit.run();
      await Promise.all(claimed.map(async ({ data }) => JSON.parse(data) as Data));
      ended = claimed.map(({ id }) => id);
    } while (ended.length > 0);
  }

  async serve(): Promise<void> {
    throw new Error("the driver does not wait for jobs");
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

export const raw: QueueContender = {
  name: "node:sqlite, batched alike",
  role: "minimum",
  batched: true,
  create: async (file, concurrency) => new RawQueue(file, concurrency),
};

/** The same with a transaction for every job: one that claims, one that settles. */
export const rawOneByOne: QueueContender = {
  name: "node:sqlite, one by one",
  role: "aside",
  async create(file) {
    const queue = new RawQueue(file, 1);
    return {
      add: (data) => queue.add(data),
      async addMany(data) {
        for (const one of data) await queue.add(one);
      },
      drain: () => queue.drain(),
      serve: () => queue.serve(),
      close: () => queue.close(),
    };
  },
};
