import { DatabaseSync } from "node:sqlite";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import type { Ground, Opening } from "./ground.ts";
import { type AttemptRow, attemptsOf, type CountRow, countsOf } from "./questions.ts";
import { crashingConnection } from "./sqlite-crash.ts";

/** One file for all processes. */
export const sqlite: Ground = {
  name: "sqlite",
  open: (opening) => new SqliteStorage(connectionFor(opening)),
  unfinished: async (database, queue) =>
    withDatabase(database, (db) => {
      const row = db
        .prepare("SELECT count(*) AS n FROM sluice_jobs WHERE finished_at IS NULL AND (?1 IS NULL OR queue = ?1)")
        .get(queue ?? null);
      return row!["n"] as number;
    }),
  tables: async (database) =>
    withDatabase(database, (db) => ({
      attempts: attemptsOf(db.prepare(ATTEMPTS).all() as unknown as AttemptRow[]),
      rows: countsOf(db.prepare(COUNTS).all() as unknown as CountRow[]),
      damage: [...damageIn(db), ...integrityOf(db)],
    })),
  integrity: async (database) => withDatabase(database, integrityOf),
};

const ATTEMPTS = `SELECT j.id, a.attempt, a.started_at, a.ended_at, a.worker, a.error
  FROM sluice_attempts a JOIN sluice_jobs j ON j.seq = a.job ORDER BY a.seq`;
const COUNTS = "SELECT queue, state, count(*) AS n FROM sluice_jobs GROUP BY queue, state";

function connectionFor({ database, crash, checkpoint }: Opening): string | ReturnType<typeof crashingConnection> {
  if (crash !== undefined) return crashingConnection(database, crash);
  if (checkpoint === undefined) return database;
  const connection = new DatabaseSync(database, { timeout: 20 });
  connection.exec(`PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${checkpoint}`);
  return connection;
}

function withDatabase<T>(database: string, look: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(database, { timeout: 10_000 });
  try {
    return look(db);
  } finally {
    db.close();
  }
}

function integrityOf(db: DatabaseSync): string[] {
  const said = db
    .prepare("PRAGMA integrity_check")
    .all()
    .map((row) => String(row["integrity_check"]));
  return said.join() === "ok" ? [] : said;
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
    `SELECT count(*) AS n FROM sluice_slots WHERE until IS NULL
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
