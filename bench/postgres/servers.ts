import pg from "pg";
import { startPostgres } from "../../scripts/postgres-server.ts";
import { median } from "../harness.ts";
import type { SetUp } from "../row.ts";
import { startRedis } from "./redis.ts";

/** Nothing here trades durability for speed. Checkpoints are kept out of measurements that take a second. */
const SETTINGS = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  shared_buffers: "512MB",
  max_wal_size: "8GB",
  checkpoint_timeout: "30min",
  max_connections: "700",
};
const SHOWN = ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers"];

/** Where the servers are, for all processes of the benchmark. */
const POSTGRES = "SLUICE_BENCH_POSTGRES";
const REDIS = "SLUICE_BENCH_REDIS";

/** One server for all rows, and one for contenders that keep their jobs in Redis, if there is a `redis-server`. */
export async function startServers(): Promise<SetUp> {
  const postgres = await startPostgres({ settings: SETTINGS });
  const redis = await startRedis();
  process.env[POSTGRES] = postgres.url;
  if (redis !== undefined) process.env[REDIS] = redis.url;
  return {
    facts: [await describe(postgres.url), redis === undefined ? "Redis: no `redis-server` here" : redis.about],
    async end() {
      await redis?.stop();
      await postgres.stop();
    },
  };
}

async function describe(url: string): Promise<string> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const show = async (name: string) => (await client.query<Record<string, string>>(`SHOW ${name}`)).rows[0]![name]!;
    const settings: string[] = [];
    for (const name of SHOWN) settings.push(`${name} = ${await show(name)}`);
    return `Postgres ${await show("server_version")}, ${settings.join(", ")}; a commit of one row takes ${await commitTime(client)} µs`;
  } finally {
    await client.end();
  }
}

async function commitTime(client: pg.Client): Promise<number> {
  await client.query("CREATE TABLE commits (n integer)");
  const figures: number[] = [];
  for (let n = 0; n < 200; n++) {
    const begin = performance.now();
    await client.query("INSERT INTO commits VALUES ($1)", [n]);
    figures.push(performance.now() - begin);
  }
  await client.query("DROP TABLE commits");
  return Math.round(median(figures) * 1_000);
}

export function postgresUrl(): string {
  const url = process.env[POSTGRES];
  if (url === undefined) throw new Error(`${POSTGRES} is not set: run this through bench/run.ts`);
  return url;
}

/** Throws the text that a row shows for contenders that need the server. */
export function redisUrl(): string {
  const url = process.env[REDIS];
  if (url === undefined) throw new Error("there is no redis-server on the path");
  return url;
}
