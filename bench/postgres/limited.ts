import { Queue } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { dataOf } from "../queue/bench.ts";
import { quick } from "../queue/scale.ts";
import type { PostgresContender } from "./bench.ts";
import { peers } from "./contenders.ts";
import { newDatabase } from "./database.ts";
import { redisUrl } from "./servers.ts";

/** So many processes under one limit, for so long. */
export const PROCESSES = 4;
export const MAX = 10;
export const DURATION = 1_000;
export const SECONDS = quick ? 6 : 30;
export const GUARD = 20;

export type Limited =
  | "sluice"
  | "sluice, guarded"
  | "rate-limiter-flexible"
  | "BullMQ on Postgres"
  | "BullMQ on Redis"
  | "Bottleneck on Redis";

/** Where a contender keeps its state, with more to be started than there is room for. */
interface Place {
  readonly url: string;
  /** When the storage says that jobs were started. */
  readonly stamps?: () => Promise<readonly number[]>;
}

export interface Case {
  readonly name: Limited;
  readonly how: string;
  readonly place: () => Promise<Place>;
}

const DATA = Array.from({ length: MAX * (SECONDS + 5) }, (_, n) => dataOf(n));

export const CASES: readonly Case[] = [
  { name: "sluice", how: "`limiter` of a worker", place: ours },
  {
    name: "sluice, guarded",
    how: `the same with \`guard: ${GUARD}\`: what may pass between a grant and the call`,
    place: ours,
  },
  {
    name: "rate-limiter-flexible",
    how: "RateLimiterQueue over RateLimiterPostgres",
    place: async () => ({ url: await newDatabase() }),
  },
  {
    name: "BullMQ on Postgres",
    how: "`limiter` of a worker",
    place: async () => bullMq(peers.bullMq, await newDatabase()),
  },
  {
    name: "BullMQ on Redis",
    how: "`limiter` of a worker",
    place: async () => bullMq(peers.bullMqOnRedis, redisUrl()),
  },
  {
    name: "Bottleneck on Redis",
    how: "a reservoir; heartbeat of 100 ms instead of 5 s",
    place: async () => ({ url: redisUrl() }),
  },
];

async function ours(): Promise<Place> {
  const url = await newDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  const added = await new Queue("bench", { storage }).addBulk(DATA.map((data) => ({ type: "bench", data })));
  return {
    url,
    async stamps() {
      const records = await storage.find(added.map(({ id }) => id));
      await storage.close();
      return records.flatMap((record) => record?.startedAt ?? []);
    },
  };
}

async function bullMq(contender: PostgresContender, url: string): Promise<Place> {
  const bench = await contender.open(url, 1);
  await bench.addMany(DATA);
  await bench.close();
  return { url };
}
