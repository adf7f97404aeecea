import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Arguments } from "../arguments.ts";
import { type Command, type Context } from "../command.ts";
import { type Plan, QUEUE_NAME } from "../demo/plan.ts";
import { reportText } from "../demo/report.ts";
import { runDemo } from "../demo/run-demo.ts";
import { UsageError } from "../failures.ts";
import { jsonText } from "../render/text.ts";
import { duration } from "../render/time.ts";

export const demo: Command = {
  name: "demo",
  summary: "shows it: jobs in several processes against a service with a quota",
  usage: ["[--jobs n] [--processes n] [--quota n] [--window 4s] …"],
  about: [
    "Each job is a call to a local HTTP service that answers 429 above its quota.",
    "One process is killed in the middle, and its jobs come back. Exit code 0: not",
    "one 429, and every job done.",
  ].join("\n"),
  options: {
    jobs: { value: "n", help: "how many jobs (default 280)" },
    processes: { value: "n", help: "worker processes (default 4)" },
    concurrency: { value: "n", help: "jobs at the same time in each of them (default 10)" },
    quota: { value: "n", help: "calls that the service allows in any window (default 100)" },
    window: { value: "4s", help: "the length of the window (default 4s)" },
    guard: {
      value: "300ms",
      help: "what the limiter adds to the window, for calls are not equally long under way (default 300ms)",
    },
    lease: { value: "2s", help: "how long the jobs of a killed process stay its own (default 2s)" },
    kill: { help: "kill a process in the middle (the default)" },
    "no-kill": { help: "kill none" },
    unlimited: { help: "the same without a limiter, to see what happens" },
    db: { value: "path", help: "keep the jobs in this file, which must not exist yet" },
    keep: { help: "keep the file, and say where it is" },
  },
  words: "none",
  async run(context) {
    const { args, io, json } = context;
    const plan = planOf(args);
    const { database, keep, remove } = place(args);
    try {
      if (!json) io.out(introduction(plan));
      const report = await runDemo({ plan, database, io, live: !json });
      const surface = { paint: io.paint, columns: io.columns() };
      io.out(json ? `${jsonText({ ...report, database: keep ? database : null })}\n` : reportText(report, surface));
      if (keep && !json) io.out(`  To look at the jobs:\n  sluice stats --db ${database}\n\n`);
      return interruption(context) ?? (report.ok ? 0 : 1);
    } finally {
      remove();
    }
  },
};

function planOf(args: Arguments): Plan {
  const windowMs = args.duration("window") ?? 4_000;
  const leaseMs = args.duration("lease") ?? 2_000;
  if (windowMs < 100 || windowMs > 60_000) throw new UsageError("expected --window to be from 100ms to 60s");
  if (leaseMs < 500 || leaseMs > 60_000) throw new UsageError("expected --lease to be from 500ms to 60s");
  if (args.flag("kill") && args.flag("no-kill")) throw new UsageError("say --kill or --no-kill, not both");
  return {
    jobs: args.integer("jobs", { least: 1, most: 100_000, fallback: 280 }),
    processes: args.integer("processes", { least: 1, most: 32, fallback: 4 }),
    concurrency: args.integer("concurrency", { least: 1, most: 100, fallback: 10 }),
    quota: args.integer("quota", { least: 1, most: 10_000, fallback: 100 }),
    windowMs,
    guardMs: args.duration("guard") ?? 300,
    leaseMs,
    kill: !args.flag("no-kill"),
    unlimited: args.flag("unlimited"),
  };
}

/** Where the jobs go: into a folder of their own, or where the user says. Never into a database that is there already. */
function place(args: Arguments): { readonly database: string; readonly keep: boolean; readonly remove: () => void } {
  const given = args.text("db");
  if (given !== undefined) {
    if (existsSync(given)) throw new UsageError("the demo makes its own database, and the file of --db exists already");
    return { database: resolve(given), keep: true, remove: () => {} };
  }
  const folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  const keep = args.flag("keep");
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  return { database: join(folder, `${QUEUE_NAME}.db`), keep, remove: keep ? () => {} : remove };
}

function introduction({ jobs, processes, quota, windowMs, guardMs, kill, unlimited }: Plan): string {
  const limiter = unlimited
    ? "without a limiter."
    : `under a shared limit of ${quota} in ${duration(windowMs)}, with a guard of ${duration(guardMs)}.`;
  return (
    [
      "",
      `A service on this computer allows ${quota} calls in any ${duration(windowMs)}.`,
      `${jobs} jobs call it from ${processes === 1 ? "one process" : `${processes} processes`},`,
      limiter,
      ...(kill && processes > 1 ? ["One of the processes is killed in the middle."] : []),
      "",
      "",
    ]
      .join("\n  ")
      .trimEnd() + "\n\n"
  );
}

/** The exit code after Ctrl-C and its like, as shells know it. */
function interruption({ io }: Context): number | undefined {
  const { aborted, reason } = io.interrupted();
  if (!aborted) return undefined;
  return reason in constants.signals ? 128 + constants.signals[reason as NodeJS.Signals] : 1;
}
