import { DatabaseSync } from "node:sqlite";
import type { AttemptRecord, JobRecord, JobState } from "../../src/core/job.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import type { Final } from "../history/final.ts";

/** How many jobs have not ended. */
export function unfinished(database: string, queue?: string): number {
  return withDatabase(database, (db) => {
    const row = db
      .prepare("SELECT count(*) AS n FROM sluice_jobs WHERE finished_at IS NULL AND (?1 IS NULL OR queue = ?1)")
      .get(queue ?? null);
    return row!["n"] as number;
  });
}

/** What is wrong with the file, as SQLite sees it, while everybody works on it. */
export function integrity(database: string): string[] {
  return withDatabase(database, (db) => {
    const said = db
      .prepare("PRAGMA integrity_check")
      .all()
      .map((row) => String(row["integrity_check"]));
    return said.join() === "ok" ? [] : said;
  });
}

/** What is in the storage: as it tells, and as its tables have it. */
export async function inspect(database: string): Promise<Final> {
  const storage = new SqliteStorage(database);
  try {
    const jobs: JobRecord[] = [];
    for (const { queue } of await storage.overview()) for (const job of await listAll(storage, queue)) jobs.push(job);
    // Counted right after it was told: jobs come due meanwhile, if not much.
    const overviews = await storage.overview();
    return {
      jobs,
      counts: new Map(overviews.map(({ queue, counts }) => [queue, counts])),
      limits: await storage.limits.read({ name: null, group: null }),
      ...withDatabase(database, (db) => ({
        attempts: attemptsIn(db),
        rows: rowsIn(db),
        damage: [...damageIn(db), ...integrity(database)],
      })),
    };
  } finally {
    await storage.close();
  }
}

async function listAll(storage: JobStorage, queue: string): Promise<JobRecord[]> {
  const jobs: JobRecord[] = [];
  let cursor: string | null = null;
  const all = { queue, states: null, type: null, group: null, since: null, until: null, limit: 1_000 };
  do {
    const page = await storage.list({ ...all, cursor });
    jobs.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== null);
  return jobs;
}

function withDatabase<T>(database: string, look: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(database, { timeout: 10_000 });
  try {
    return look(db);
  } finally {
    db.close();
  }
}

function attemptsIn(db: DatabaseSync): Map<string, AttemptRecord[]> {
  const byJob = new Map<string, AttemptRecord[]>();
  const rows = db
    .prepare(
      `SELECT j.id, a.attempt, a.started_at, a.ended_at, a.worker, a.error
         FROM sluice_attempts a JOIN sluice_jobs j ON j.seq = a.job ORDER BY a.seq`,
    )
    .all();
  for (const row of rows) {
    const { id, attempt, started_at, ended_at, worker, error } = row as {
      id: string;
      attempt: number;
      started_at: number;
      ended_at: number;
      worker: string;
      error: string;
    };
    const parsed = JSON.parse(error) as AttemptRecord["error"];
    const all = byJob.get(id) ?? [];
    all.push({ attempt, startedAt: started_at, endedAt: ended_at, worker, error: parsed });
    byJob.set(id, all);
  }
  return byJob;
}

function rowsIn(db: DatabaseSync): Map<string, Partial<Record<JobState, number>>> {
  const byQueue = new Map<string, Partial<Record<JobState, number>>>();
  for (const row of db.prepare("SELECT queue, state, count(*) AS n FROM sluice_jobs GROUP BY queue, state").all()) {
    const { queue, state, n } = row as { queue: string; state: JobState; n: number };
    byQueue.set(queue, { ...byQueue.get(queue), [state]: n });
  }
  return byQueue;
}

/** Questions whose answer is 0 in a sound database. */
const SOUND: readonly (readonly [string, string])[] = [
  [
    "lanes that count wrong",
    `SELECT count(*) AS n FROM sluice_lanes l WHERE waiting <>
       (SELECT count(*) FROM sluice_jobs j WHERE j.lane = l.id AND j.state = 'waiting')`,
  ],
  [
    "waiting jobs without a lane",
    "SELECT count(*) AS n FROM sluice_jobs WHERE state = 'waiting' AND lane NOT IN (SELECT id FROM sluice_lanes)",
  ],
  ["attempts of no job", "SELECT count(*) AS n FROM sluice_attempts WHERE job NOT IN (SELECT seq FROM sluice_jobs)"],
  ["log lines of no job", "SELECT count(*) AS n FROM sluice_log WHERE job NOT IN (SELECT seq FROM sluice_jobs)"],
  [
    "slots held for jobs that do not run",
    `SELECT count(*) AS n FROM sluice_holds WHERE until IS NULL
       AND token NOT IN (SELECT token FROM sluice_jobs WHERE state = 'active')`,
  ],
  [
    "leases of jobs that are not active",
    "SELECT count(*) AS n FROM sluice_jobs WHERE state <> 'active' AND lease_until IS NOT NULL",
  ],
];

function damageIn(db: DatabaseSync): string[] {
  return SOUND.flatMap(([what, sql]) => {
    const n = db.prepare(sql).get()!["n"] as number;
    return n === 0 ? [] : [`${n} ${what}`];
  });
}
