import pg from "pg";
import { PostgresStorage } from "../../src/storages/postgres/index.ts";
import { clockOf } from "../child/clocks.ts";
import type { Ground } from "./ground.ts";
import { crashingPool } from "./postgres-crash.ts";
import { type AttemptRow, attemptsOf, type CountRow, countsOf } from "./questions.ts";

/** One server for all processes. */
export const postgres: Ground = {
  name: "postgres",
  open: ({ database, via = database, crash, clock, seed = 0 }) =>
    new PostgresStorage(crash === undefined ? via : crashingPool(via, crash), { clock: clockOf({ clock, seed }) }),
  unfinished: (database, queue) =>
    withClient(database, async (client) => {
      const text = `SELECT count(*)::int AS n FROM sluice.jobs
        WHERE state NOT IN ('completed', 'dead', 'cancelled') AND ($1::text IS NULL OR queue = $1)`;
      return (await rows<{ n: number }>(client, text, queue ?? null))[0]!.n;
    }),
  tables: (database) =>
    withClient(database, async (client) => {
      const damage: string[] = [];
      for (const [what, text] of SOUND) {
        const { n } = (await rows<{ n: number }>(client, text))[0]!;
        if (n !== 0) damage.push(`${n} ${what}`);
      }
      return {
        attempts: attemptsOf(await rows<AttemptRow>(client, ATTEMPTS)),
        rows: countsOf(await rows<CountRow>(client, COUNTS)),
        damage,
      };
    }),
  // The server looks after its own files.
  integrity: async () => [],
};

const ATTEMPTS = `SELECT j.id, a.attempt, a.started_at, a.ended_at, a.worker, a.error
  FROM sluice.attempts a JOIN sluice.jobs j ON j.seq = a.job ORDER BY a.seq`;
const COUNTS = "SELECT queue, state, count(*)::int AS n FROM sluice.jobs GROUP BY queue, state";

/** Questions whose answer is 0 in a sound database. */
const SOUND: readonly (readonly [string, string])[] = [
  [
    "waiting jobs in a group without a ready lane",
    `SELECT count(*)::int AS n FROM sluice.jobs j WHERE state = 'waiting' AND grp IS NOT NULL
       AND NOT EXISTS (SELECT FROM sluice.lanes l
         WHERE (l.queue, l.type, l.priority, l.grp) = (j.queue, j.type, j.priority, ':' || j.grp) AND l.ready)
       AND NOT EXISTS (SELECT FROM sluice.arrivals a
         WHERE (a.queue, a.type, a.priority, a.grp) = (j.queue, j.type, j.priority, j.grp))`,
  ],
  [
    "attempts of no job",
    "SELECT count(*)::int AS n FROM sluice.attempts WHERE job NOT IN (SELECT seq FROM sluice.jobs)",
  ],
  ["log lines of no job", "SELECT count(*)::int AS n FROM sluice.log WHERE job NOT IN (SELECT seq FROM sluice.jobs)"],
  [
    "slots held for jobs that do not run",
    `SELECT count(*)::int AS n FROM sluice.slots WHERE until IS NULL
       AND token NOT IN (SELECT token FROM sluice.jobs WHERE state = 'active')`,
  ],
];

async function withClient<T>(database: string, look: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: database });
  client.on("error", () => {});
  await client.connect();
  try {
    return await look(client);
  } finally {
    await client.end();
  }
}

async function rows<R>(client: pg.Client, text: string, ...values: readonly unknown[]): Promise<readonly R[]> {
  return (await client.query(text, [...values])).rows as R[];
}
