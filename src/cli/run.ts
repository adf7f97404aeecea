import { readFileSync } from "node:fs";
import { OptionsError } from "../core/errors.ts";
import { quoted, readArguments } from "./arguments.ts";
import { COMMON, type Command, DATABASE, QUEUE } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { didYouMean, shownOf, UsageError } from "./failures.ts";
import { commandHelp, overallHelp } from "./help.ts";
import type { Io } from "./io.ts";
import { type Redact, redacting, redactor } from "./redact.ts";
import { jsonText, printable } from "./render/text.ts";

/** Runs the command line. Returns the exit code: 0 done, 1 failed or not found, 2 wrong usage. */
export async function run(argv: readonly string[], outside: Io): Promise<number> {
  const redact = redactor(argv, outside.env);
  const io = redacting(outside, redact);
  const json = argv.includes("--json");
  let command: Command | undefined;
  try {
    const { name, rest } = splitCommand(argv);
    if (name === undefined || name === "help") return general(name, rest, io, json);
    command = commandNamed(name);
    const args = readArguments(rest, { ...command.options, ...COMMON });
    if (args.flag("help")) {
      io.out(commandHelp(command, io.paint));
      return 0;
    }
    const most = { none: 0, one: 1, any: Infinity }[command.words];
    if (args.words.length > most) throw new UsageError(`${quoted(args.words[most]!)} is more than \`${name}\` takes`);
    return await command.run({ args, io, json });
  } catch (error) {
    return report(error, command, { io, json, redact });
  }
}

/** `sluice`, `sluice --help`, `sluice --version` and `sluice help [command]`. */
function general(name: string | undefined, rest: readonly string[], io: Io, json: boolean): number {
  const args = readArguments(rest, { ...COMMON, version: { short: "v", help: "" } });
  if (args.flag("version")) {
    io.out(json ? `${jsonText({ version: version() })}\n` : `${version()}\n`);
    return 0;
  }
  const [topic] = args.words;
  if (topic !== undefined) io.out(commandHelp(commandNamed(topic), io.paint));
  else if (name === "help" || args.flag("help")) io.out(overallHelp(COMMANDS, io.paint));
  else throw new UsageError("which command? `sluice help` lists them");
  return 0;
}

function commandNamed(name: string): Command {
  const found = COMMANDS.find((command) => command.name === name);
  if (found !== undefined) return found;
  const names = [...COMMANDS.map((command) => command.name), "help"];
  throw new UsageError(`there is no command ${quoted(name)}; ${didYouMean(name, names, "commands")}`);
}

/** The command is the first word that is neither an option nor the value of one. */
function splitCommand(argv: readonly string[]): {
  readonly name: string | undefined;
  readonly rest: readonly string[];
} {
  const early = { ...COMMON, ...DATABASE, ...QUEUE };
  const takesValue = (arg: string) =>
    Object.entries(early).some(
      ([name, { value, short }]) => value !== undefined && (arg === `--${name}` || arg === `-${short}`),
    );
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i]!;
    if (takesValue(arg)) i += 1;
    else if (!arg.startsWith("-")) return { name: arg, rest: argv.toSpliced(i, 1) };
  }
  return { name: undefined, rest: argv };
}

interface Reporting {
  readonly io: Io;
  readonly json: boolean;
  readonly redact: Redact;
}

function report(thrown: unknown, command: Command | undefined, { io, json, redact }: Reporting): number {
  const wrongUsage = thrown instanceof UsageError || thrown instanceof OptionsError;
  const { code, message } = shownOf(thrown, redact);
  if (json) io.err(`${jsonText({ error: { code, message } })}\n`);
  else {
    const see = command === undefined ? "sluice help" : `sluice help ${command.name}`;
    io.err(`${io.paintError("red", "error")} ${printable(message)}\n${wrongUsage ? `See \`${see}\`.\n` : ""}`);
  }
  return wrongUsage ? 2 : 1;
}

function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
