import type { PostgresContender } from "./bench.ts";
import { bullMqOnPostgres, bullMqOnRedis } from "./bullmq.ts";
import { newDatabase } from "./database.ts";
import { graphile, graphileBatched } from "./graphile.ts";
import { pgBoss, pgBossByHand } from "./pg-boss.ts";
import { rawBatched, rawOnFour, rawOneByOne, rawTaken } from "./raw.ts";
import { redisUrl } from "./servers.ts";
import { sluice } from "./sluice.ts";

export const raws = {
  deleted: rawBatched("deleted"),
  kept: rawBatched("kept"),
  oneByOne: rawOneByOne,
  onFour: rawOnFour,
  taken: rawTaken,
};
export const ours = { deleted: sluice("deleted"), kept: sluice("kept") };
export const peers = {
  graphile,
  graphileBatched,
  pgBoss,
  pgBossByHand,
  bullMq: bullMqOnPostgres("kept"),
  bullMqRemoved: bullMqOnPostgres("deleted"),
  bullMqOnRedis: bullMqOnRedis("kept"),
  bullMqOnRedisRemoved: bullMqOnRedis("deleted"),
};

export const contenders: readonly PostgresContender[] = [
  ...Object.values(raws),
  ...Object.values(ours),
  ...Object.values(peers),
];

export function named(name: string): PostgresContender {
  return contenders.find((contender) => contender.name === name)!;
}

/** Where a contender keeps its jobs for the length of a row. */
export async function placeFor({ server }: PostgresContender): Promise<string> {
  return server === "postgres" ? newDatabase() : redisUrl();
}
