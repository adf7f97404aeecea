import pg from "pg";
import { postgresUrl } from "./servers.ts";

/** A new database on the server of the benchmark. */
export async function newDatabase(): Promise<string> {
  const client = new pg.Client(postgresUrl());
  await client.connect();
  const name = `bench_${process.pid}_${performance.now().toFixed(3).replace(".", "_")}`;
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const url = new URL(postgresUrl());
  url.pathname = name;
  return url.href;
}

export function newPool(url: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max });
  // A lost connection fails the code that uses it; a lost idle connection is no reason to end.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** The common part of contenders that keep their jobs in tables. */
export interface Tables {
  /** The one with the jobs first. */
  readonly names: readonly string[];
  /** Which jobs are not settled. */
  readonly unsettled: string;
}

export class TableKeeper {
  readonly #pool: pg.Pool;
  readonly #tables: Tables;

  constructor(pool: pg.Pool, tables: Tables) {
    this.#pool = pool;
    this.#tables = tables;
  }

  async left(): Promise<number> {
    const { names, unsettled } = this.#tables;
    const { rows } = await this.#pool.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM ${names[0]} WHERE ${unsettled}`,
    );
    return rows[0]!.n;
  }

  async clear(): Promise<void> {
    await this.#pool.query(`TRUNCATE ${this.#tables.names.join(", ")} CASCADE`);
  }

  async analyze(): Promise<void> {
    await this.#pool.query(`ANALYZE ${this.#tables.names.join(", ")}`);
  }
}
