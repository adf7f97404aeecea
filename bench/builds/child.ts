import { readFileSync } from "node:fs";
import type { Claim, defineLimits, JobStorage, NewJob, Outcome } from "../../dist/index.js";
import { type Case, CASES } from "./cases.ts";

/*
 * One build in a process of its own: what the compiler learns of it, and what it leaves on the heap, is not that of another build. It
 * opens a storage and sends "ready"; for each message that comes it drains the jobs of its case once, and sends how many per second.
 */

/** What one process measures. */
export interface Task {
  /** The folder of the build, as a URL. */
  readonly root: string;
  readonly kind: "memory" | "sqlite" | "postgres";
  /** The file or the URL of the database; undefined: in memory. */
  readonly place?: string | undefined;
  /** The index of the case. */
  readonly index: number;
  readonly times: number;
  readonly cpu: boolean;
}

const JOB: Omit<NewJob, "id" | "data"> = {
  queue: "q",
  type: "t",
  due: { inMs: 0 },
  priority: 0,
  group: null,
  weights: null,
  maxAttempts: 5,
  backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
  timeout: null,
  deadline: null,
  keepFor: 0,
  idempotency: null,
};
const REQUEST = { queue: "q", types: null, leaseMs: 60_000, limits: [], grantTtlMs: 2_000 };

const { root, kind, place, index, times, cpu } = JSON.parse(process.argv[2]!) as Task;
const one: Case = CASES[index]!;
const storage = await open();
const clock = cpu ? cpuMs : () => Promise.resolve(performance.now());
let added = 0;
process.on("message", () => void drained().then((speed) => process.send!(speed)));
process.on("disconnect", () => void storage.close());
process.send!("ready");

async function open(): Promise<JobStorage> {
  const load = (path: string): Promise<Record<string, new (place?: string) => JobStorage>> =>
    import(new URL(`dist/${path}`, root).href);
  const made =
    kind === "memory"
      ? new (await load("index.js"))["MemoryStorage"]!()
      : kind === "postgres"
        ? new (await load("storages/postgres/index.js"))["PostgresStorage"]!(place)
        : new (await load("storages/sqlite/index.js"))["SqliteStorage"]!(place);
  await made.setup();
  if (one.limits !== undefined) {
    const loaded = (await import(new URL("dist/index.js", root).href)) as { defineLimits: typeof defineLimits };
    await made.limits.define(loaded.defineLimits(one.limits).rules);
  }
  return made;
}

/** The CPU time of this process, and of the sessions of its database (Linux alone). */
async function cpuMs(): Promise<number> {
  const { user, system } = process.cpuUsage();
  const own = (user + system) / 1_000;
  if (kind !== "postgres") return own;
  const { default: pg } = await import("pg");
  const client = new pg.Client(place);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await client.end();
  const ofSession = ({ pid }: { pid: number }) =>
    Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]) / 1_000_000;
  return own + rows.reduce((sum, row) => sum + ofSession(row), 0);
}

/** Jobs per second. */
async function drained(): Promise<number> {
  const { max, claims = 1, of, adding } = one;
  const jobs = times * one.jobs;
  const all = Array.from({ length: jobs }, (_, n) => ({
    ...JOB,
    id: `j${(added += 1)}`,
    data: `{"n":${n}}`,
    ...of?.(n),
  }));
  globalThis.gc?.();
  const begin = await clock();
  for (let i = 0; i < jobs; i += adding ?? 500) await storage.add(all.slice(i, i + (adding ?? 500)));
  const start = await clock();
  let left = jobs;
  await Promise.all(
    Array.from({ length: claims }, async (_, worker) => {
      let settle: readonly Outcome[] = [];
      let grant: Claim["grant"];
      for (;;) {
        const confirm = grant === undefined ? [] : [{ grant: grant.id, calledInMs: 0 }];
        const claim: Claim = await storage.claim({
          ...REQUEST,
          worker: `w${worker}`,
          max,
          settle,
          confirm,
        });
        grant = claim.grant;
        left -= claim.jobs.length;
        settle = claim.jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null }));
        if (claim.jobs.length === 0 && (left <= 0 || !claim.more)) break;
      }
    }),
  );
  return (jobs / (adding === undefined ? (await clock()) - start : start - begin)) * 1_000;
}
