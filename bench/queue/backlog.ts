import { DatabaseSync } from "node:sqlite";
import { type JobStorage, MemoryStorage, type NewJob } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import { dataOf } from "./bench.ts";

/** So many jobs wait, in so many groups; 0: without groups. */
export interface Backlog {
  readonly jobs: number;
  readonly groups: number;
}

const STEP = 10_000;

function newJob(n: number, groups: number): NewJob {
  return {
    id: `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`,
    queue: "bench",
    type: "bench",
    data: JSON.stringify(dataOf(n)),
    due: { inMs: 0 },
    priority: 0,
    group: groups === 0 ? null : `group ${n % groups}`,
    weights: null,
    maxAttempts: 5,
    backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
    timeout: null,
    deadline: null,
    keepFor: null,
    idempotency: null,
  };
}

async function add(storage: JobStorage, { jobs, groups }: Backlog): Promise<void> {
  for (let n = 0; n < jobs; n += STEP) {
    await storage.add(Array.from({ length: Math.min(STEP, jobs - n) }, (_, i) => newJob(n + i, groups)));
  }
}

export async function inMemory(backlog: Backlog): Promise<JobStorage> {
  const storage = new MemoryStorage();
  await add(storage, backlog);
  return storage;
}

/** The first job of each lane is added in the usual way; the others are copies of it, written in one statement. */
export async function onSqlite(file: string, { jobs, groups }: Backlog): Promise<JobStorage> {
  const lanes = Math.max(1, groups);
  const storage = new SqliteStorage(file);
  await add(storage, { jobs: Math.min(jobs, lanes), groups });
  await storage.close();
  if (jobs > lanes) copyJobs(file, jobs / lanes);
  const full = new SqliteStorage(file);
  const [overview] = await full.overview("bench");
  if (overview?.counts.waiting !== jobs) throw new Error(`${overview?.counts.waiting} jobs wait instead of ${jobs}`);
  return full;
}

function copyJobs(file: string, perLane: number): void {
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000");
  const columns = (db.prepare("SELECT name FROM pragma_table_info('sluice_jobs')").all() as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => name !== "seq" && name !== "id");
  db.exec(`
    BEGIN;
    INSERT INTO sluice_jobs (id, ${columns.join(", ")})
      WITH RECURSIVE copy (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < ${perLane} - 1)
      SELECT id || '-' || n, ${columns.join(", ")} FROM sluice_jobs CROSS JOIN copy ORDER BY lane, n;
    UPDATE sluice_lanes SET waiting = ${perLane};
    COMMIT;
    PRAGMA journal_mode = WAL;`);
  db.close();
}
