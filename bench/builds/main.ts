import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startPostgres } from "../../scripts/postgres-server.ts";
import { median } from "../harness.ts";
import { CASES } from "./cases.ts";
import type { Task } from "./child.ts";

/*
 * This build against that of another commit, in one run: `npm run bench:builds -- <commit> [--only <text>] [--rounds <n>] [--cpu]`. In each
 * round both drain the same jobs, one after the other, the first of them in turn, each in a process and a storage of its own. Only the ratio
 * counts. With `--cpu` it is that of the CPU time of this process and of the server (Linux alone), which other load on the machine and the
 * disk hardly change.
 */

type Kind = Task["kind"];

interface Build {
  readonly name: string;
  readonly root: URL;
}

/** Two processes of either build are compared. What the compiler makes of the same code differs from process to process most in memory. */
const PAIRS: Readonly<Record<Kind, number>> = { memory: 6, sqlite: 2, postgres: 2 };
/** Rounds of each pair that are not counted. */
const WARM_UPS: Readonly<Record<Kind, number>> = { memory: 3, sqlite: 1, postgres: 1 };
/**
 * How many times the jobs of a case are drained at once: in memory the time for as many is shorter than that of a collection of garbage, and
 * on Postgres code that plans has to be compiled before it counts.
 */
const TIMES: Readonly<Record<Kind, number>> = { memory: 10, sqlite: 1, postgres: 3 };

const here = new URL("../../", import.meta.url);
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    rounds: { type: "string", default: "8" },
    storage: { type: "string", default: "memory,sqlite,postgres" },
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
let places = 0;
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
  for (const kind of values.storage.split(",") as Kind[]) {
    const server =
      kind === "postgres"
        ? await startPostgres({ settings: { shared_buffers: "256MB", max_wal_size: "4GB" } })
        : undefined;
    try {
      console.log(
        `\n${kind}: jobs per second${values.cpu ? " of CPU" : ""} of ${builds[1]!.name} by those of ${builds[0]!.name}, middle of ${values.rounds} rounds (lowest to highest)`,
      );
      for (const [index, { name }] of CASES.entries())
        if (name.includes(values.only)) await measure(kind, index, builds, server?.url);
    } finally {
      await server?.stop();
    }
  }
}

/** In half of the pairs the storage of the one build is made first, in half that of the other: which is first makes a difference by itself. */
async function measure(kind: Kind, index: number, builds: readonly Build[], url: string | undefined): Promise<void> {
  const forth: number[] = [];
  const back: number[] = [];
  const rounds = Math.ceil(Number(values.rounds) / PAIRS[kind]);
  for (let pair = 0; pair < PAIRS[kind]; pair++) {
    const [ratios, order] = pair % 2 === 0 ? [forth, builds] : [back, builds.toReversed()];
    ratios.push(...(await ratiosOf(kind, index, order, url, rounds)));
  }
  const all = [...forth, ...back.map((ratio) => 1 / ratio)];
  const middle = Math.sqrt(median(forth) / median(back));
  const show = (n: number) => n.toFixed(2);
  console.log(`  ${show(middle)} (${show(Math.min(...all))} to ${show(Math.max(...all))})  ${CASES[index]!.name}`);
}

/** The speed of the second build by that of the first, in each round. */
async function ratiosOf(
  kind: Kind,
  index: number,
  builds: readonly Build[],
  url: string | undefined,
  rounds: number,
): Promise<number[]> {
  const children: ChildProcess[] = [];
  const ratios: number[] = [];
  try {
    for (const { root } of builds) {
      const place = await newPlace(kind, url);
      const child = start({ root: root.href, kind, place, index, times: TIMES[kind], cpu: values.cpu });
      children.push(child);
      await answerOf(child);
    }
    for (let round = 0; round < WARM_UPS[kind] + rounds; round++) {
      const speeds: number[] = [];
      for (let i = 0; i < 2; i++) {
        const child = children[(i + round) % 2]!;
        child.send("drain");
        speeds[(i + round) % 2] = (await answerOf(child)) as number;
      }
      if (round >= WARM_UPS[kind]) ratios.push(speeds[1]! / speeds[0]!);
    }
  } finally {
    await Promise.all(children.map(end));
  }
  return ratios;
}

function start(task: Task): ChildProcess {
  const flags = ["--expose-gc", "--single-threaded-gc"];
  return spawn(
    process.execPath,
    [...flags, fileURLToPath(new URL("child.ts", import.meta.url)), JSON.stringify(task)],
    {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    },
  );
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  if (child.connected) child.disconnect();
  await exited;
}

/** The next message of a process. */
function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const exited = (code: number | null, signal: string | null) =>
      reject(new Error(`a build ended with ${signal ?? code} and no answer`));
    child.once("exit", exited);
    child.once("message", (answer) => {
      child.off("exit", exited);
      resolve(answer);
    });
  });
}

/** A new file or database. */
async function newPlace(kind: Kind, url: string | undefined): Promise<string | undefined> {
  const name = `builds_${(places += 1)}`;
  if (kind === "sqlite") return join(folder, `${name}.db`);
  if (url === undefined) return undefined;
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const own = new URL(url);
  own.pathname = name;
  return own.href;
}
