import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import type { JobStorage } from "../../dist/index.js";
import type { Role } from "../harness.ts";
import type { PostgresContender } from "../postgres/bench.ts";
import { peers } from "../postgres/contenders.ts";
import { newDatabase } from "../postgres/database.ts";
import { load } from "../postgres/peers.ts";
import { redisUrl } from "../postgres/servers.ts";
import { dataOf } from "../queue/bench.ts";
import { load as loadQueue } from "../queue/peers.ts";
import { withFile } from "../queue/temporary.ts";
import { fill } from "./fill.ts";
import type { Kind } from "./order.ts";

/** Makes a place with so many jobs, and calls back with where it is. */
type Place = <T>(jobs: number, use: (url: string) => Promise<T>) => Promise<T>;

export interface Limited {
  readonly kind: Kind;
  readonly title: string;
  readonly role: Role;
  readonly processes: readonly number[];
  readonly how: string;
  /** Throws if what it needs is not here. */
  readonly check: () => Promise<unknown>;
  readonly place: Place;
}

const here = async () => {};
const nowhere: Place = (_, use) => use("");

async function filled<T>(storage: JobStorage, jobs: number, then: () => Promise<T>): Promise<T> {
  await fill(storage, jobs);
  await storage.close();
  return then();
}

const inFile: Place = (jobs, use) => withFile((file) => filled(new SqliteStorage(file), jobs, () => use(file)));

const inDatabase: Place = async (jobs, use) => {
  const url = await newDatabase();
  return filled(new PostgresStorage(url), jobs, () => use(url));
};

async function flushed(): Promise<string> {
  const url = redisUrl();
  const { default: Redis } = await load("ioredis");
  const redis = new Redis(url);
  await redis.flushall();
  redis.disconnect();
  return url;
}

const AT_ONCE = 500;

/** Jobs of a peer. */
async function added(peer: PostgresContender, url: string, jobs: number): Promise<void> {
  const bench = await peer.open(url, 1);
  for (let n = 0; n < jobs; n += AT_ONCE) {
    await bench.addMany(Array.from({ length: Math.min(AT_ONCE, jobs - n) }, (_, i) => dataOf(n + i)));
  }
  await bench.close();
}

const ours = { role: "sluice", check: here } as const;
const SHARED = "the same as a shared limit over a type";

export const LIMITED: readonly Limited[] = [
  {
    ...ours,
    kind: "memory",
    title: "sluice in memory",
    processes: [1],
    how: "`limiter` of a worker",
    place: nowhere,
  },
  {
    ...ours,
    kind: "sqlite",
    title: "sluice on SQLite",
    processes: [1, 4, 16],
    how: "`limiter` of a worker",
    place: inFile,
  },
  { ...ours, kind: "sqlite-shared", title: "sluice on SQLite, shared", processes: [4], how: SHARED, place: inFile },
  {
    ...ours,
    kind: "postgres",
    title: "sluice on Postgres",
    processes: [1, 4, 16],
    how: "`limiter` of a worker",
    place: inDatabase,
  },
  {
    ...ours,
    kind: "postgres-shared",
    title: "sluice on Postgres, shared",
    processes: [4],
    how: SHARED,
    place: inDatabase,
  },
  {
    kind: "workglow",
    title: "workglow in memory",
    role: "peer",
    processes: [1],
    how: "its RateLimiter",
    check: () => loadQueue("@workglow/job-queue"),
    place: nowhere,
  },
  {
    kind: "rate-limiter-flexible",
    title: "rate-limiter-flexible on Postgres",
    role: "peer",
    processes: [4],
    how: "RateLimiterQueue over RateLimiterPostgres; queries",
    check: () => load("rate-limiter-flexible"),
    place: async (_, use) => use(await newDatabase()),
  },
  {
    kind: "bullmq-postgres",
    title: "BullMQ on Postgres",
    role: "peer",
    processes: [4],
    how: "`limiter` of a worker; queries",
    check: () => load("bullmq"),
    async place(jobs, use) {
      const url = await newDatabase();
      await added(peers.bullMq, url, jobs);
      return use(url);
    },
  },
  {
    kind: "bullmq-redis",
    title: "BullMQ on Redis",
    role: "peer",
    processes: [4],
    how: "`limiter` of a worker; commands",
    check: async () => [redisUrl(), await load("bullmq")],
    async place(jobs, use) {
      const url = await flushed();
      await added(peers.bullMqOnRedis, url, jobs);
      return use(url);
    },
  },
  {
    kind: "bottleneck",
    title: "Bottleneck on Redis",
    role: "peer",
    processes: [4],
    how: "a reservoir; heartbeat of 100 ms instead of 5 s; commands",
    check: async () => [redisUrl(), await load("bottleneck")],
    place: async (_, use) => use(await flushed()),
  },
];
