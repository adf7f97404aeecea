import type pg from "pg";
import type { Data } from "../queue/bench.ts";
import type { Bench, Finished, PostgresContender } from "./bench.ts";
import { newPool, TableKeeper } from "./database.ts";

/**
 * The least that a queue on Postgres can do: one table, one index, and one statement that settles what has ended and claims
 * the next.
 */
const CREATE = `
  CREATE SCHEMA IF NOT EXISTS raw;
  CREATE TABLE IF NOT EXISTS raw.jobs (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, queue text NOT NULL,
    data text NOT NULL, state smallint NOT NULL DEFAULT 0, lease_until timestamptz) WITH (fillfactor = 85);
  CREATE INDEX IF NOT EXISTS jobs_waiting ON raw.jobs (queue, id) WHERE state = 0;`;

const NEXT = "SELECT id FROM raw.jobs WHERE queue = 'bench' AND state = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";
const SETTLE: Record<Finished, string> = {
  deleted: "DELETE FROM raw.jobs WHERE id = ANY($2::bigint[])",
  kept: "UPDATE raw.jobs SET state = 2, lease_until = NULL WHERE id = ANY($2::bigint[])",
};
const step = (finished: Finished) => `
  WITH settled AS (${SETTLE[finished]})
  UPDATE raw.jobs SET state = 1, lease_until = now() + interval '30 s' WHERE id = ANY(ARRAY(${NEXT})) RETURNING id, data`;
const TAKE = `DELETE FROM raw.jobs WHERE id = ANY(ARRAY(${NEXT})) RETURNING id, data`;

type Row = { readonly id: string; readonly data: string };

/** Settles the jobs with these ids, and answers with the next. */
type Step = (client: pg.PoolClient, ended: readonly string[]) => Promise<readonly Row[]>;

const leased =
  (finished: Finished, batch: number): Step =>
  async (client, ended) => {
    for (;;) {
      try {
        return (await client.query<Row>({ name: `step ${finished}`, text: step(finished), values: [batch, ended] }))
          .rows;
      } catch (error) {
        // Two sessions that settle and claim in one statement may deadlock.
        if ((error as { readonly code?: string }).code !== "40P01") throw error;
      }
    }
  };
const taken =
  (batch: number): Step =>
  async (client) =>
    (await client.query<Row>({ name: "take", text: TAKE, values: [batch] })).rows;

async function open(url: string, connections: number, next: Step): Promise<Bench> {
  const pool = newPool(url, 10);
  await pool.query(CREATE);
  const tables = new TableKeeper(pool, { names: ["raw.jobs"], unsettled: "state < 2" });
  /** Until no job waits. */
  const loop = async (client: pg.PoolClient, handle: (data: Data) => void) => {
    for (let ended: string[] = []; ;) {
      const claimed = await next(client, ended);
      await Promise.all(claimed.map(async ({ data }) => handle(JSON.parse(data) as Data)));
      if (claimed.length === 0) return;
      ended = claimed.map(({ id }) => id);
    }
  };
  return {
    add: (data) =>
      pool.query({
        name: "add",
        text: "INSERT INTO raw.jobs (queue, data) VALUES ('bench', $1)",
        values: [JSON.stringify(data)],
      }),
    addMany: (data) =>
      pool.query({
        name: "add many",
        text: "INSERT INTO raw.jobs (queue, data) SELECT 'bench', one FROM unnest($1::text[]) AS one",
        values: [data.map((one) => JSON.stringify(one))],
      }),
    async work(handle) {
      const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()));
      const loops = Promise.all(clients.map((client) => loop(client, handle)));
      return async () => {
        await loops;
        for (const client of clients) client.release();
      };
    },
    left: () => tables.left(),
    clear: () => tables.clear(),
    analyze: () => tables.analyze(),
    close: () => pool.end(),
  };
}

/** As many jobs in a step as run at the same time. */
export function rawBatched(finished: Finished): PostgresContender {
  return {
    name: `raw SQL${finished === "kept" ? ", kept" : ""}`,
    role: "minimum",
    note: "1 connection per process, one statement per step: settle, and claim as many as run at a time",
    finished,
    server: "postgres",
    open: (url, concurrency) => open(url, 1, leased(finished, concurrency)),
  };
}

export const rawOneByOne: PostgresContender = {
  name: "raw SQL, one job per round trip",
  role: "aside",
  note: "1 connection per process",
  finished: "deleted",
  server: "postgres",
  atMost: 600,
  open: (url) => open(url, 1, leased("deleted", 1)),
};

export const rawOnFour: PostgresContender = {
  name: "raw SQL on 4 connections",
  role: "aside",
  note: "4 connections per process, each claims as many as run at a time elsewhere",
  finished: "deleted",
  server: "postgres",
  open: (url, concurrency) => open(url, 4, leased("deleted", concurrency)),
};

export const rawTaken: PostgresContender = {
  name: "raw SQL without leases",
  role: "aside",
  note: "1 connection per process; a claim deletes the jobs at once: a crash loses them",
  finished: "deleted",
  server: "postgres",
  open: (url, concurrency) => open(url, 1, taken(concurrency)),
};
