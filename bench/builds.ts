import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { Claim, defineLimits, JobStorage, LimitDefinitions, NewJob, Outcome } from "../dist/index.js";
import { startPostgres } from "../scripts/postgres-server.ts";
import { median } from "./harness.ts";

/*
 * This build against that of another commit, in one run: `npm run bench:builds -- <commit> [--only <text>] [--rounds <n>] [--cpu]`. Each
 * round drains the same jobs from a storage of either build, one after the other, the first of them in turn. Only the ratio counts.
 * With `--cpu` it is that of the CPU time of this process and of the server (Linux alone), which other load on the machine and the
 * disk hardly change. Memory drains ten times as many jobs, for a round of as many takes less time there than a collection of garbage.
 */

interface Build {
  readonly name: string;
  readonly root: URL;
}

/** Jobs of one kind that are drained, so many at a time. */
interface Case {
  readonly name: string;
  readonly jobs: number;
  readonly max: number;
  readonly limits?: LimitDefinitions;
  /** Claims at a time. Default 1. */
  readonly claims?: number;
  readonly of?: (n: number) => Partial<NewJob>;
  /** Jobs are added one by one, or so many at a time, and that is measured instead. */
  readonly adding?: number;
}

const WIDE = { max: 1_000_000_000, per: "1h" } as const;
const uniform: LimitDefinitions = {
  a: { ...WIDE, all: true },
  b: { ...WIDE, all: true },
  c: { concurrency: 100_000, all: true },
};
const byGroup: LimitDefinitions = {
  a: { ...WIDE, all: true },
  b: { concurrency: 100_000, all: true },
  c: { ...WIDE, by: "group" },
};
/** All of it is in use between two claims. */
const full: LimitDefinitions = { full: { concurrency: 10, all: true } };
const fullByGroup: LimitDefinitions = { ...byGroup, ...full };
const byType: LimitDefinitions = { a: { ...WIDE, types: ["t0"] }, b: { ...WIDE, types: ["t1"] } };
const ofOthers = (count: number): LimitDefinitions =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`o${n}`, { ...WIDE, types: [`other ${n}`] }]));
const groups = (count: number) => (n: number) => ({ group: `g${n % count}` });
const types = (count: number) => (n: number) => ({ type: `t${n % count}` });

const CASES: readonly Case[] = [
  { name: "add one by one", jobs: 300, max: 1_000, adding: 1 },
  { name: "add 100 at a time", jobs: 5_000, max: 1_000, adding: 100 },
  { name: "no limits, 1 at a time", jobs: 300, max: 1 },
  { name: "no limits, 10 at a time", jobs: 2_000, max: 10 },
  { name: "no limits, 100 at a time", jobs: 5_000, max: 100 },
  { name: "three limits for all, 10 at a time", jobs: 2_000, max: 10, limits: uniform },
  { name: "three limits for all, 100 at a time", jobs: 5_000, max: 100, limits: uniform },
  { name: "three limits, one by group, 10 at a time", jobs: 1_000, max: 10, limits: byGroup, of: groups(50) },
  { name: "three limits, one by group, 100 at a time", jobs: 4_000, max: 100, limits: byGroup, of: groups(50) },
  { name: "a full limit, 10 at a time", jobs: 2_000, max: 10, limits: full },
  { name: "three limits, one full, 10 at a time", jobs: 2_000, max: 10, limits: { ...uniform, ...full } },
  {
    name: "four limits, one full, one by group, 10 at a time",
    jobs: 1_000,
    max: 10,
    limits: fullByGroup,
    of: groups(50),
  },
  { name: "limits of two types, 10 at a time", jobs: 1_000, max: 10, limits: byType, of: types(2) },
  { name: "limits of two types, 100 at a time", jobs: 4_000, max: 100, limits: byType, of: types(2) },
  { name: "100 limits of other types, 10 at a time", jobs: 500, max: 10, limits: ofOthers(100) },
  { name: "ten groups, 10 at a time", jobs: 1_000, max: 10, of: groups(10) },
  { name: "fifty groups, 10 at a time", jobs: 1_000, max: 10, of: groups(50) },
  { name: "fifty groups, 100 at a time", jobs: 4_000, max: 100, of: groups(50) },
  { name: "fifty groups, 10 at a time, four claims at once", jobs: 2_000, max: 10, claims: 4, of: groups(50) },
];

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

let added = 0;
let databases = 0;

const here = new URL("../", import.meta.url);
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    rounds: { type: "string", default: "8" },
    storage: { type: "string" },
    cpu: { type: "boolean", default: false },
  },
});
const [commit] = positionals;
if (commit === undefined) {
  console.error(
    "Usage: npm run bench:builds -- <commit> [--storage memory|sqlite|postgres] [--only <text>] [--rounds <n>] [--cpu]",
  );
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), "sluice-builds-"));
const git = (...args: readonly string[]) =>
  execFileSync("git", args, { cwd: fileURLToPath(here), encoding: "utf8" }).trim();
try {
  const other = { name: git("rev-parse", "--short", commit), root: buildOf(commit) };
  await compare([other, { name: "this build", root: here }]);
} finally {
  git("worktree", "remove", "--force", join(folder, "build"));
  rmSync(folder, { recursive: true, force: true });
}

function buildOf(ref: string): URL {
  const path = join(folder, "build");
  git("worktree", "add", "--quiet", "--detach", path, ref);
  symlinkSync(fileURLToPath(new URL("node_modules", here)), join(path, "node_modules"));
  execFileSync(process.execPath, ["scripts/build.ts"], { cwd: path, stdio: "inherit" });
  return pathToFileURL(`${path}/`);
}

async function compare(builds: readonly Build[]): Promise<void> {
  const kinds = (values.storage ?? "memory,sqlite,postgres").split(",");
  for (const kind of kinds) {
    const server =
      kind === "postgres"
        ? await startPostgres({ settings: { shared_buffers: "256MB", max_wal_size: "4GB" } })
        : undefined;
    try {
      console.log(
        `\n${kind}: jobs per second${values.cpu ? " of CPU" : ""} of ${builds[1]!.name} by those of ${builds[0]!.name}, middle of ${values.rounds} rounds (lowest to highest)`,
      );
      for (const one of CASES) if (one.name.includes(values.only)) await measure(kind, one, builds, server?.url);
    } finally {
      await server?.stop();
    }
  }
}

/** Half of the rounds with the storage of the one build made first, half with the other: which is first makes a difference by itself. */
async function measure(kind: string, one: Case, builds: readonly Build[], url: string | undefined): Promise<void> {
  const rounds = Math.ceil(Number(values.rounds) / 2);
  const forth = await ratiosOf(kind, one, builds, url, rounds);
  const back = await ratiosOf(kind, one, builds.toReversed(), url, rounds);
  const all = [...forth, ...back.map((ratio) => 1 / ratio)];
  const middle = Math.sqrt(median(forth) / median(back));
  const show = (n: number) => n.toFixed(2);
  console.log(`  ${show(middle)} (${show(Math.min(...all))} to ${show(Math.max(...all))})  ${one.name}`);
}

/** The speed of the second build by that of the first, in each round. */
async function ratiosOf(
  kind: string,
  one: Case,
  builds: readonly Build[],
  url: string | undefined,
  rounds: number,
): Promise<number[]> {
  const opened: { storage: JobStorage; drain: () => Promise<number> }[] = [];
  for (const build of builds) {
    const database = url === undefined ? undefined : await newDatabase(url);
    const storage = await open(kind, build, database);
    const loaded = (await import(new URL("dist/index.js", build.root).href)) as { defineLimits: typeof defineLimits };
    await storage.setup();
    if (one.limits !== undefined) await storage.limits.define(loaded.defineLimits(one.limits).rules);
    const drain = { ...one, jobs: kind === "memory" ? 10 * one.jobs : one.jobs };
    opened.push({ storage, drain: () => drained(storage, drain, values.cpu ? () => cpuMs(database) : performanceNow) });
  }
  const ratios: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const speeds: number[] = [];
    for (let i = 0; i < 2; i++) speeds[(i + round) % 2] = await opened[(i + round) % 2]!.drain();
    if (round > 0) ratios.push(speeds[1]! / speeds[0]!);
  }
  for (const { storage } of opened) await storage.close();
  return ratios;
}

async function open(kind: string, { root }: Build, url: string | undefined): Promise<JobStorage> {
  const load = (path: string): Promise<Record<string, new (place?: string) => JobStorage>> =>
    import(new URL(`dist/${path}`, root).href);
  if (kind === "memory") return new (await load("index.js"))["MemoryStorage"]!();
  if (kind === "postgres") return new (await load("storages/postgres/index.js"))["PostgresStorage"]!(url);
  return new (await load("storages/sqlite/index.js"))["SqliteStorage"]!(join(folder, `${performance.now()}.db`));
}

async function newDatabase(url: string): Promise<string> {
  const name = `builds_${(databases += 1)}`;
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const own = new URL(url);
  own.pathname = name;
  return own.href;
}

const performanceNow = (): Promise<number> => Promise.resolve(performance.now());

/** The CPU time of this process, and of the sessions of a database. */
async function cpuMs(database: string | undefined): Promise<number> {
  const { user, system } = process.cpuUsage();
  const own = (user + system) / 1_000;
  if (database === undefined) return own;
  const { default: pg } = await import("pg");
  const client = new pg.Client(database);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await client.end();
  const ofSession = ({ pid }: { pid: number }) =>
    Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]) / 1_000_000;
  return own + rows.reduce((sum, row) => sum + ofSession(row), 0);
}

/** Jobs per second. `clock`: milliseconds that have passed, or were used. */
async function drained(
  storage: JobStorage,
  { jobs, max, claims = 1, of, adding }: Case,
  clock: () => Promise<number>,
): Promise<number> {
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
